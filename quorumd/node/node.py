"""One running node of the quorum, as runtime, simulator and metrics see it; `builder` builds it."""

from __future__ import annotations

from quorumd.log.recovery import RecoveryReport
from quorumd.node.api.context import ApiContext
from quorumd.node.broker.role import NodeBroker
from quorumd.node.core import NodeCore
from quorumd.node.graceful_shutdown import GracefulShutdown
from quorumd.node.membership.manager import MembershipManager


class Node:
    """The parts of a node that runtime, simulator and metrics read; `core` and `context` have the others.

    `broker` is None without the broker role.
    """

    def __init__(
        self,
        core: NodeCore,
        context: ApiContext,
        membership: MembershipManager,
        broker: NodeBroker | None,
        shutdown: GracefulShutdown,
        recovery_report: RecoveryReport,
        boot_timestamp: int,
    ) -> None:
        self.core = core
        self.context = context
        self.settings = core.node.settings
        self.clock = core.node.clock
        self.statistics = core.node.statistics
        self.engine = core.quorum.engine
        self.log = core.quorum.log
        self.state_machine = core.state_machine
        self.controller = core.controller
        self.monitor = context.peers.monitor
        self.membership = membership
        self.broker = broker
        self.recovery_report = recovery_report
        self.boot_timestamp = boot_timestamp
        """Unix milliseconds, larger than at every earlier start."""
        self._shutdown = shutdown

    def shut_down(self) -> None:
        """Shut down gracefully: stop the broker, finish proposals, hand over leadership, close the log, then call
        `on_stop`."""
        self._shutdown.begin()

    def bound_port(self, listener: str) -> int:
        """The port of the listener with this name."""
        return self.core.listeners.port(listener)

    @property
    def cluster_id(self) -> str | None:
        """The committed cluster id, None before there is one."""
        return self.core.quorum.identity.cluster_id

    @property
    def has_pending_proposals(self) -> bool:
        """Whether the image contains records that are not in the log yet."""
        return self.core.proposals.pending_records > 0

    @property
    def unknown_voter_connections(self) -> int:
        """The number of voters without a known address (KIP-595: number-unknown-voter-connections)."""
        return len(self.context.peers.discovery.missing_voters())
