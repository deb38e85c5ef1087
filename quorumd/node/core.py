"""The parts of a node that need no address: log and quorum, image and controller, accepted connections."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from quorumd.errors import ConfigError
from quorumd.ids import ReplicaKey
from quorumd.node.api.context import MetadataParts
from quorumd.node.basics import NodeBasics, QuorumParts
from quorumd.node.broker.clients import ClientListeners
from quorumd.node.consensus.high_watermark_checkpointer import HighWatermarkCheckpointer
from quorumd.node.consensus.raft_runner import RaftRunner
from quorumd.node.controller.runner import ControllerRunner
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.node.identity.founding import Founding
from quorumd.node.leader_role import LeaderRole
from quorumd.node.lifecycle import Lifecycle
from quorumd.node.listeners import BoundListeners
from quorumd.node.ports import NodePorts
from quorumd.node.recovered_data import RecoveredData
from quorumd.node.sessions.authentication import Authenticator
from quorumd.node.sessions.connections import IncomingConnections
from quorumd.node.sessions.context import SessionContext
from quorumd.node.sessions.fair_shares import FairShares
from quorumd.node.sessions.router import RequestRouter
from quorumd.node.settings import NodeSettings
from quorumd.node.snapshots.manager import SnapshotManager
from quorumd.node.state.image_credentials import ImageCredentials
from quorumd.node.state.log_appender import LogAppender
from quorumd.node.state.proposals import Proposals
from quorumd.node.state.state_machine import StateMachine
from quorumd.node.statistics import NodeStatistics
from quorumd.node.tick import Tick
from quorumd.ports import Entropy
from quorumd.quotas.client_quotas import ClientQuotas
from quorumd.raft.engine import RaftEngine

APPLY_DELAY_MS = 10.0


class NodeCore:
    """Builds the parts around the data directory, in the order of their dependencies.

    `Lifecycle` calls `on_stop(exit_code, reason)`.
    """

    def __init__(
        self,
        settings: NodeSettings,
        ports: NodePorts,
        recovered: RecoveredData,
        on_stop: Callable[[int, str], None],
    ) -> None:
        clock, disk = ports.clock, ports.disk
        self.ports = ports
        self.node = NodeBasics(settings=settings, clock=clock, statistics=NodeStatistics())
        self.tick = Tick(clock, self.node.statistics.event_processing_ms)
        self.lifecycle = Lifecycle(clock, on_stop)
        self.quorum, self.runner = self._quorum(recovered)
        engine, log = self.quorum.engine, self.quorum.log
        self.founding = Founding(self.quorum.own, settings, engine, self.quorum.identity, recovered.founders)
        call_later = partial(self.lifecycle.call_later, APPLY_DELAY_MS)
        self.state_machine = StateMachine(log, clock, call_later, self.lifecycle.call_soon)
        self.checkpointer = HighWatermarkCheckpointer(
            disk,
            settings.data_directory,
            recovered.saved.known_high_watermark,
            lambda: min(engine.high_watermark, self.runner.durable_offset),
            self.lifecycle.file_written,
        )
        self.snapshots = SnapshotManager(self.node, disk, log, lambda: self.state_machine.needed_offset)
        self.proposals = self._proposals()
        self.controller = ControllerRunner(
            self.node, self.quorum, self.state_machine, self.proposals, ports.entropy
        )
        self.router = RequestRouter(settings.private_apis)
        self.sessions = self._sessions()
        self.incoming = IncomingConnections(self.router, self.sessions)
        self.listeners = BoundListeners(ports.network)
        self.clients: ClientListeners | None = None
        if settings.broker is not None:
            self.clients = ClientListeners(
                settings.broker, self.sessions, self.router, self.incoming, self.listeners
            )

    def require_peers(self) -> None:
        """Require configured peers while the log names no voters (KIP-595 draft 6.1). Raises ConfigError."""
        settings = self.node.settings
        if not (self.founding.voter_ids or settings.bootstrap_servers):
            raise ConfigError(
                f"node {settings.node_id} has no peers, and its log names no voters yet: set quorum.voters to "
                "the voters of the first election, for example 1,2,3, or bootstrap.servers to join a quorum"
            )

    @property
    def metadata(self) -> MetadataParts:
        return MetadataParts(
            state_machine=self.state_machine,
            proposals=self.proposals,
            controller=self.controller.controller,
            writer=self.controller.writer,
            alter_partition_order=self.controller.order,
        )

    def _quorum(self, recovered: RecoveredData) -> tuple[QuorumParts, RaftRunner]:
        settings, ports = self.node.settings, self.ports
        identity = _identity(recovered, ports.entropy)
        own = ReplicaKey(settings.node_id, recovered.saved.meta.directory_id)
        engine = RaftEngine(
            settings.engine_settings,
            own,
            recovered.saved.quorum_state,
            recovered.log,
            recovered.voter_history(),
            ports.entropy.randrange,
        )
        runner = RaftRunner(self.node, engine, recovered.log, ports.disk, self.tick, self.lifecycle.fail)
        quorum = QuorumParts(
            own=own,
            engine=engine,
            log=recovered.log,
            identity=identity,
            role=LeaderRole(engine, settings.node_id),
            step=runner.step,
        )
        return quorum, runner

    def _proposals(self) -> Proposals:
        appender = LogAppender(self.node, self.quorum, self.state_machine, self.runner.propose)
        return Proposals(
            appender.append,
            self.tick.defer,
            lambda: not self.runner.is_flushing,
            self.node.clock.now_ms,
            self.node.statistics.commit_latency_ms.observe,
        )

    def _sessions(self) -> SessionContext:
        node, ports, machine = self.node, self.ports, self.state_machine
        settings, statistics = node.settings, node.statistics
        credentials = ImageCredentials(lambda: machine.image, settings.token_secret_key)
        return SessionContext(
            node=node,
            tick=self.tick,
            authenticator=Authenticator(ports.sasl, credentials, node.clock, ports.entropy, statistics),
            shares=FairShares.of(node.clock, self.tick, settings.max_held_bytes),
            quotas=ClientQuotas(settings.quotas, lambda: machine.image.security.quotas, statistics.quotas),
        )


def _identity(recovered: RecoveredData, entropy: Entropy) -> ClusterIdentity:
    identity = ClusterIdentity(recovered.saved.cluster_id, entropy)
    for record in recovered.voter_records:
        identity.appended(record.offset, record.cluster_id)
    return identity
