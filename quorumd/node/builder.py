"""Builds a node from its settings and ports, and starts it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from quorumd.ids import Endpoint
from quorumd.log.directory_lock import lock_directory
from quorumd.log.meta_properties import save_meta_properties
from quorumd.node.api.context import ApiContext, PeerParts, create_api_context
from quorumd.node.api.families import add_routes
from quorumd.node.broker.controller_channel import ControllerAccess
from quorumd.node.broker.log_directories import lock_directories
from quorumd.node.broker.role import NodeBroker
from quorumd.node.commit_listeners import CommitListeners
from quorumd.node.consensus.quorum_state_store import QuorumStateStore
from quorumd.node.consensus.raft_runner import RunnerOutputs
from quorumd.node.consensus.voter_log import VoterLog
from quorumd.node.controller.leadership import Leadership
from quorumd.node.core import NodeCore
from quorumd.node.graceful_shutdown import GracefulShutdown
from quorumd.node.health.quorum_monitor import QuorumMonitor
from quorumd.node.health.refusal_log import RefusalLog
from quorumd.node.identity.identity_files import next_boot_timestamp
from quorumd.node.listeners import BoundListeners
from quorumd.node.maintenance import Maintenance
from quorumd.node.membership.manager import create_membership_manager
from quorumd.node.node import Node
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.client import PeerClient
from quorumd.node.peers.connection import PeerSettings
from quorumd.node.peers.connections import PeerConnections
from quorumd.node.peers.discovery import Discovery
from quorumd.node.peers.leader_request import LeaderCaller
from quorumd.node.ports import NodePorts
from quorumd.node.recovered_data import RecoveredData, recover_data
from quorumd.node.settings import NodeSettings
from quorumd.ports import File
from quorumd.raft.events import ReplayCompleted, ReplayStarted


def start_node(settings: NodeSettings, ports: NodePorts, on_stop: Callable[[int, str], None]) -> Node:
    """Lock and recover the data directory, bind the listeners, and start the node. Blocks while files are read.

    Raises ConfigError, StorageError or OSError, with the directory unlocked and the addresses free. Otherwise
    `on_stop(exit_code, reason)` is called once, possibly before this returns; see `ExitCode`.
    """
    lock = lock_directory(ports.disk, settings.data_directory)
    opened: list[File | BoundListeners] = [lock]
    try:
        recovered = recover_data(ports.disk, settings)
        core = NodeCore(settings, ports, recovered, on_stop)
        core.require_peers()
        opened = [*lock_directories(ports.disk, settings.data_directories[1:]), core.listeners, lock]
        _bind(core)
        builder = _Builder(core, recovered)
        core.lifecycle.on_stop(*builder.closers(), *(each.close for each in opened))
        return builder.start()
    except BaseException:
        for each in opened:
            each.close()
        raise


def _bind(core: NodeCore) -> None:
    """Bind the listeners of the quorum and of clients."""
    settings, clients = core.node.settings, core.clients
    accept = clients.accept if clients is not None and clients.uses_quorum_listeners else core.incoming.accept
    for each in (settings.listen, *(other.listen for other in settings.other_listeners)):
        core.listeners.bind(each, accept)
    if clients is not None:
        clients.bind()


class _Builder:
    """Builds the parts that know the addresses of this node, in the order of their dependencies."""

    def __init__(self, core: NodeCore, recovered: RecoveredData) -> None:
        node, quorum, ports = core.node, core.quorum, core.ports
        settings = node.settings
        self.core = core
        self.recovered = recovered
        self.endpoints = tuple(map(core.listeners.reachable, settings.quorum_listeners))
        self.connections = self._connections(settings.controller_listener_name, settings.private_apis)
        self.discovery = Discovery(node, quorum, core.founding, ports.entropy, self.connections.call)
        self.broker = self._broker()
        self.voter_log = VoterLog(
            node.clock,
            quorum,
            self.discovery,
            core.lifecycle,
            load=lambda snapshot: core.state_machine.load(snapshot, ports.disk),
            on_adopted=_on_adopted(core, self.recovered, self.broker),
        )
        self.peers = PeerClient(
            node, quorum, self.connections, self.discovery, self.voter_log.fetched, self.endpoints
        )
        self.context = self._context()
        self._serve()
        self.membership = create_membership_manager(self.context, ports.entropy, self.endpoints)
        self.boot_timestamp = next_boot_timestamp(ports.disk, settings.data_directory, node.clock.wall_ms())
        self.maintenance = Maintenance(
            node, core.lifecycle, core.checkpointer, self.membership, core.snapshots
        )

    def _connections(self, listener: str, private_apis: bool) -> PeerConnections:
        """The connections to other nodes, on their listeners with this name."""
        ports = self.core.ports
        sasl = ports.sasl.get(listener)
        login = sasl.client if sasl is not None else None
        new_sasl_client = None if login is None else lambda: login.new_client(str(ports.entropy.uuid()))
        client_id = self.core.node.settings.client_id
        settings = PeerSettings(client_id, listener, new_sasl_client, private_apis)
        return PeerConnections(ports.network, ports.clock, settings)

    def _broker(self) -> NodeBroker | None:
        """The broker role."""
        core = self.core
        if core.clients is None:
            return None
        access = ControllerAccess(
            node=core.node,
            quorum=core.quorum,
            discovery=self.discovery,
            router=core.router,
            next_number=core.incoming.allocate_number,
            connect=partial(self._connections, private_apis=False),
        )
        ports = core.ports
        return NodeBroker(
            access, ports.disk, ports.entropy, ports.compile_regex, core.lifecycle, core.clients
        )

    def _context(self) -> ApiContext:
        core, broker = self.core, self.broker
        monitor = QuorumMonitor(
            core.node,
            core.quorum,
            core.founding,
            core.state_machine,
            self.peers,
            core.lifecycle,
            broker_state=lambda: broker.state if broker is not None else None,
        )
        return create_api_context(
            core.node,
            core.quorum,
            core.metadata,
            PeerParts(
                discovery=self.discovery,
                connections=self.connections,
                monitor=monitor,
                call_leader=LeaderCaller(core.quorum, self.peers).call,
            ),
            router=core.router,
            quotas=core.sessions.quotas,
        )

    def _serve(self) -> None:
        """Route requests to their handlers."""
        core, context = self.core, self.context
        add_routes(context)
        core.incoming.serves = context.gates.authorization.serves
        if core.clients is not None:
            core.clients.add_public_apis(context)

    def closers(self) -> Sequence[Callable[[], None]]:
        """Return the callbacks that stop the parts, in the order of their calls."""
        core = self.core
        return (
            *([self.broker.stop] if self.broker is not None else ()),
            core.runner.stop,
            self.membership.stop,
            core.controller.on_leadership_lost,
            core.snapshots.stop,
            core.proposals.on_leadership_lost,
            self.discovery.stop,
            self.connections.close,
            core.incoming.close,
        )

    def start(self) -> Node:
        """Start the parts. The node may stop before this returns."""
        core, node, monitor = self.core, self._node(), self.context.peers.monitor
        is_replaying = self._begin_replay()
        core.runner.start(self._outputs())
        if core.lifecycle.is_stopped:
            return node
        if self.broker is not None:
            snapshot = self.recovered.start_snapshot.snapshot
            self.broker.start(snapshot, core.state_machine.committed_offset)
        if is_replaying:
            core.quorum.step(ReplayStarted())
        endpoint = self.endpoints[0]
        core.founding.start(endpoint)
        self.discovery.start(self._own_address(endpoint), self.endpoints)
        self.voter_log.update_addresses()
        monitor.start()
        self.membership.start()
        self.maintenance.start()
        return node

    def _begin_replay(self) -> bool:
        """Begin to load the newest snapshot and to apply the committed log; return whether the replay is
        incomplete."""
        core, recovered = self.core, self.recovered
        known = min(recovered.saved.known_high_watermark, core.quorum.log.end_offset)
        on_replayed = partial(core.quorum.step, ReplayCompleted())
        snapshot = recovered.start_snapshot.snapshot
        return core.state_machine.start(snapshot, known, core.ports.disk, on_replayed)

    def _own_address(self, endpoint: Endpoint) -> Address:
        return Address(endpoint.host, endpoint.port, self.boot_timestamp, self.core.quorum.own.directory_id)

    def _node(self) -> Node:
        core = self.core
        shutdown = GracefulShutdown(
            core.node.clock,
            core.quorum,
            core.runner,
            core.proposals,
            core.checkpointer,
            core.lifecycle,
            self.broker,
        )
        return Node(
            core,
            self.context,
            self.membership,
            self.broker,
            shutdown,
            recovery_report=self.recovered.recovery_report,
            boot_timestamp=self.boot_timestamp,
        )

    def _outputs(self) -> RunnerOutputs:
        core, context = self.core, self.context
        leadership = Leadership(
            core.quorum,
            core.state_machine,
            core.proposals,
            core.controller,
            self.recovered.bootstrap,
            lambda: core.incoming.next_number,
        )
        states = QuorumStateStore(self.recovered.state_file, core.quorum, core.founding, core.state_machine)
        return RunnerOutputs(
            outbound=self.peers,
            control_log=self.voter_log,
            progress=CommitListeners(context, self.voter_log, core.checkpointer, leadership, self.broker),
            save_operation=states.save,
            write_no_op=core.controller.writer.write_no_op,
            refused=RefusalLog(core.node.clock, core.quorum.engine).refused,
        )


def _on_adopted(core: NodeCore, recovered: RecoveredData, broker: NodeBroker | None) -> Callable[[str], None]:
    """Return the callback that saves the cluster id and starts the broker, which waits for it."""
    disk, directory, meta = core.ports.disk, core.node.settings.data_directory, recovered.saved.meta

    def adopted(cluster_id: str) -> None:
        saved = meta._replace(cluster_id=cluster_id)
        disk.submit(lambda: save_meta_properties(disk, directory, saved), core.lifecycle.file_written)
        if broker is not None:
            broker.cluster_adopted()

    return adopted
