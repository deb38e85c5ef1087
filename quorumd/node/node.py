"""One running node of the quorum, as runtime, simulator and metrics see it; `builder` builds it."""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.log.recovery import RecoveryReport
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.broker.role import NodeBroker
from quorumd.node.consensus.raft_runner import RaftRunner
from quorumd.node.controller.runner import ControllerRunner
from quorumd.node.graceful_shutdown import GracefulShutdown
from quorumd.node.health.quorum_monitor import QuorumMonitor
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.node.identity.founding import Founding
from quorumd.node.lifecycle import Lifecycle
from quorumd.node.listeners import BoundListeners
from quorumd.node.membership.manager import MembershipManager
from quorumd.node.peers.connections import PeerConnections
from quorumd.node.peers.discovery import Discovery
from quorumd.node.sessions.connections import IncomingConnections
from quorumd.node.settings import NodeSettings
from quorumd.node.snapshots.manager import SnapshotManager
from quorumd.node.state.proposals import Proposals
from quorumd.node.state.state_machine import StateMachine
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import Clock
from quorumd.raft.engine import RaftEngine


@dataclass(frozen=True, eq=False)
class Node:
    """The parts of a node that its surroundings read.

    `boot_timestamp`: Unix milliseconds, larger than at every earlier start.
    """

    settings: NodeSettings
    statistics: NodeStatistics
    engine: RaftEngine
    log: SegmentedLog
    recovery_report: RecoveryReport
    boot_timestamp: int
    identity: ClusterIdentity
    founding: Founding
    state_machine: StateMachine
    proposals: Proposals
    controller: ControllerRunner
    snapshots: SnapshotManager
    discovery: Discovery
    connections: PeerConnections
    incoming: IncomingConnections
    membership: MembershipManager
    monitor: QuorumMonitor
    runner: RaftRunner
    lifecycle: Lifecycle
    shutdown: GracefulShutdown
    listeners: BoundListeners
    clock: Clock
    broker: NodeBroker | None
    """The broker role, None without it."""

    def shut_down(self) -> None:
        """Shut down gracefully: end the broker, finish proposals, hand over leadership, close the log, then call
        `on_stop`."""
        self.shutdown.begin()

    @property
    def listener_port(self) -> int:
        """The port that the listener of the quorum is bound to."""
        return self.listeners.port(self.settings.listen.name)

    @property
    def cluster_id(self) -> str | None:
        """The committed cluster id, None before there is one."""
        return self.identity.cluster_id

    @property
    def founding_obstacle(self) -> str | None:
        """Why this node is not part of a quorum, and the remedy, in one sentence; None if it is part of one."""
        return self.founding.obstacle(self.clock.now_ms())

    @property
    def has_pending_proposals(self) -> bool:
        """Whether the image contains records that are not in the log yet."""
        return self.proposals.pending_records > 0

    @property
    def unknown_voter_connections(self) -> int:
        """The number of voters without a known address (KIP-595: number-unknown-voter-connections)."""
        return len(self.discovery.missing_voters())
