"""Builds a node from its settings and ports, and starts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from quorumd.errors import ConfigError
from quorumd.ids import ReplicaKey
from quorumd.log.folder_lock import lock_folder
from quorumd.node.api.context import (
    ApiContext,
    MetadataParts,
    PeerParts,
    create_api_context,
)
from quorumd.node.api.envelopes import CLIENT_ID_PREFIX
from quorumd.node.api.families import add_routes
from quorumd.node.basics import NodeBasics, QuorumParts
from quorumd.node.broker.clients import ClientListeners
from quorumd.node.broker.controller_channel import ControllerAccess
from quorumd.node.broker.log_folders import lock_folders
from quorumd.node.broker.role import NodeBroker
from quorumd.node.consensus.commit_listeners import CommitListeners
from quorumd.node.consensus.high_watermark_checkpointer import HighWatermarkCheckpointer
from quorumd.node.consensus.leader_role import LeaderRole
from quorumd.node.consensus.quorum_state_store import QuorumStateStore
from quorumd.node.consensus.raft_runner import RaftRunner, RunnerOutputs
from quorumd.node.consensus.voter_log import VoterLog
from quorumd.node.controller.leadership import Leadership
from quorumd.node.controller.runner import ControllerRunner
from quorumd.node.graceful_shutdown import GracefulShutdown
from quorumd.node.health.quorum_monitor import QuorumMonitor
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.node.identity.founding import Founding
from quorumd.node.identity.identity_files import next_boot_timestamp
from quorumd.node.lifecycle import Lifecycle
from quorumd.node.listeners import BoundListeners
from quorumd.node.maintenance import Maintenance
from quorumd.node.membership.manager import MembershipManager, create_membership_manager
from quorumd.node.node import Node
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.client import PeerClient
from quorumd.node.peers.connection import PeerListener
from quorumd.node.peers.connections import PeerConnections
from quorumd.node.peers.discovery import Discovery
from quorumd.node.peers.leader_request import LeaderCaller
from quorumd.node.recovered_data import RecoveredData, recover_data
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
from quorumd.ports import Clock, Disk, Entropy, File, Network
from quorumd.quotas.client_quotas import ClientQuotas
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import ReplayCompleted, ReplayStarted
from quorumd.security.sasl.settings import ListenerSasl

APPLY_DELAY_MS = 10.0


class NodePorts(NamedTuple):
    """The ports of one node."""

    clock: Clock
    entropy: Entropy
    disk: Disk
    network: Network
    sasl: Mapping[str, ListenerSasl] = {}
    """By the name of the listener."""


def start_node(settings: NodeSettings, ports: NodePorts, on_stop: Callable[[int, str], None]) -> Node:
    """Lock and recover the data folder, bind the listener, and start the node. Blocks while files are read.

    Raises ConfigError, StorageError or OSError, with the folder unlocked and the address free. Otherwise
    `on_stop(exit_code, reason)` is called once, possibly before this returns; see `ExitCode`.
    """
    lock = lock_folder(ports.disk, settings.data_directory)
    try:
        return _Builder(settings, ports, on_stop).start(lock)
    except BaseException:
        lock.close()
        raise


class _Builder:
    """Builds the parts in the order of their dependencies: first those that need no address of this node."""

    def __init__(self, settings: NodeSettings, ports: NodePorts, on_stop: Callable[[int, str], None]) -> None:
        clock, entropy, disk = ports.clock, ports.entropy, ports.disk
        self.settings = settings
        self.ports = ports
        self.statistics = statistics = NodeStatistics()
        self.node = NodeBasics(settings=settings, clock=clock, statistics=statistics)
        self.tick = Tick(clock.call_soon, clock.now_ms, statistics.event_processing_ms)
        self.lifecycle = Lifecycle(clock, on_stop)
        self.recovered = recovered = recover_data(disk, settings)
        saved, log = recovered.saved, recovered.log
        self.log = log
        self.identity = _identity(recovered, entropy)
        self.own = own = ReplicaKey(settings.node_id, saved.meta.directory_id)
        self.engine = engine = self._engine()
        self.founding = Founding(own, settings, engine, self.identity, recovered.founders)
        self.role = LeaderRole(engine, settings.node_id)
        call_later = partial(self.lifecycle.call_later, APPLY_DELAY_MS)
        self.state_machine = StateMachine(log, clock, call_later, self.lifecycle.call_soon)
        self.runner = self._runner()
        self.quorum = QuorumParts(
            own=own,
            engine=engine,
            log=log,
            identity=self.identity,
            role=self.role,
            step=self.runner.step,
        )
        self.checkpointer = HighWatermarkCheckpointer(
            disk,
            settings.data_directory,
            saved.known_high_watermark,
            self._durable_high_watermark,
            self.lifecycle.file_written,
        )
        self.snapshots = SnapshotManager(self.node, disk, log, lambda: self.state_machine.needed_offset)
        self.proposals = self._proposals()
        self.controller = ControllerRunner(
            self.node, self.quorum, self.state_machine, self.proposals, entropy
        )
        self.shutdown = GracefulShutdown(
            *(clock, engine, log, self.runner, self.proposals, self.checkpointer, self.role, self.lifecycle)
        )
        self.router = RequestRouter(settings.private_apis)
        self.sessions = self._sessions()
        self.incoming = IncomingConnections(self.router, self.sessions)
        self.clients = None
        if settings.broker is not None:
            self.clients = ClientListeners(settings.broker, self.sessions, self.router, self.incoming)

    def start(self, lock: File) -> Node:
        """Bind the listeners, build the parts that need their addresses, and start everything."""
        self._require_peers()
        settings, clients = self.settings, self.clients
        is_shared = settings.broker is not None and not settings.broker.listen
        accept = clients.accept if clients is not None and is_shared else self.incoming.accept
        listeners = BoundListeners(self.ports.network)
        opened: list[File | BoundListeners] = [
            *lock_folders(self.ports.disk, settings.data_directories[1:]),
            listeners,
        ]
        try:
            for each in (settings.listen, *(other.listen for other in settings.other_listeners)):
                listeners.bind(each, accept)
            if clients is not None:
                clients.bind(listeners)
            return self._start(listeners, [*opened, lock])
        except BaseException:
            for opened_part in opened:
                opened_part.close()
            raise

    def _start(self, listeners: BoundListeners, opened: Sequence[File | BoundListeners]) -> Node:
        settings, clock = self.settings, self.ports.clock
        endpoints = tuple(map(listeners.reachable, settings.quorum_listeners))
        endpoint = endpoints[0]
        connections = self._connections(settings.controller_listener_name, settings.private_apis)
        discovery = Discovery(self.node, self.quorum, self.founding, self.ports.entropy, connections.call)
        voter_log = self._voter_log(discovery)
        peers = PeerClient(self.node, self.quorum, connections, discovery, voter_log.fetched, endpoints)
        monitor = self._monitor(peers)
        context = self._context(connections, discovery, peers, monitor)
        add_routes(context)
        self.incoming.serves = context.gates.authorization.serves
        broker = self._broker(context, discovery, listeners)
        membership = create_membership_manager(context, self.ports.entropy, endpoints)
        boot_timestamp = next_boot_timestamp(self.ports.disk, settings.data_directory, clock.wall_ms())
        node = self._node(boot_timestamp, discovery, connections, membership, monitor, listeners, broker)
        if broker is not None:
            self.lifecycle.on_stop(broker.stop)
            voter_log.on_adopted = broker.cluster_adopted
        self.lifecycle.on_stop(
            self.runner.stop,
            membership.stop,
            self.controller.on_leadership_lost,
            self.snapshots.stop,
            self.proposals.on_leadership_lost,
            discovery.stop,
            connections.close,
            self.incoming.close,
            *(each.close for each in opened),
        )
        is_replaying = self._begin_replay()
        self.runner.start(self._outputs(peers, voter_log, discovery, monitor, broker))
        if self.lifecycle.is_stopped:
            return node
        if broker is not None:
            broker.start(self.recovered.start_snapshot.snapshot, self.state_machine.committed_offset)
        if is_replaying:
            self.runner.step(ReplayStarted())
        self.founding.start(endpoint)
        own_address = Address(endpoint.host, endpoint.port, boot_timestamp, self.own.directory_id)
        discovery.start(own_address, endpoints)
        voter_log.update_addresses()
        monitor.start()
        membership.start()
        interval_ms = settings.maintenance_interval_ms
        Maintenance(clock, interval_ms, self.lifecycle, self.checkpointer, membership, self.snapshots).start()
        return node

    def _connections(self, listener: str, private_apis: bool) -> PeerConnections:
        """The connections to the listeners with this name of other nodes."""
        network, clock, entropy = self.ports.network, self.ports.clock, self.ports.entropy
        sasl = self.ports.sasl.get(listener)
        login = sasl.client if sasl is not None else None
        new_sasl_client = None if login is None else lambda: login.new_client(str(entropy.uuid()))
        peer_listener = PeerListener(listener, new_sasl_client)
        client_id = f"{CLIENT_ID_PREFIX}{self.settings.node_id}"
        return PeerConnections(network, clock, client_id, private_apis, peer_listener)

    def _require_peers(self) -> None:
        """Require configured peers while the log names no voters (KIP-595 draft 6.1)."""
        settings = self.settings
        if not (self.founding.voter_ids or settings.bootstrap_servers):
            raise ConfigError(
                f"node {settings.node_id} has no peers, and its log names no voters yet: set quorum.voters to "
                "the voters of the first election, for example 1,2,3, or bootstrap.servers to join a quorum"
            )

    def _begin_replay(self) -> bool:
        """Begin to load the newest snapshot and to apply the committed log; return whether that is still
        incomplete."""
        recovered = self.recovered
        known = min(recovered.saved.known_high_watermark, self.log.end_offset)
        on_replayed = partial(self.runner.step, ReplayCompleted())
        snapshot = recovered.start_snapshot.snapshot
        return self.state_machine.start(snapshot, known, self.ports.disk, on_replayed)

    def _durable_high_watermark(self) -> int:
        return min(self.engine.high_watermark, self.runner.durable_offset)

    def _engine(self) -> RaftEngine:
        recovered = self.recovered
        return RaftEngine(
            self.settings.engine_settings,
            self.own,
            recovered.saved.quorum_state,
            recovered.log,
            recovered.voter_history(),
            self.ports.entropy.randrange,
        )

    def _proposals(self) -> Proposals:
        appender = LogAppender(self.node, self.quorum, self.state_machine, self.runner.propose)
        return Proposals(
            appender.append,
            self.tick.defer,
            lambda: not self.runner.is_flushing,
            self.ports.clock.now_ms,
            self.statistics.commit_latency_ms.observe,
        )

    def _sessions(self) -> SessionContext:
        settings, ports = self.settings, self.ports
        credentials = ImageCredentials(lambda: self.state_machine.image, settings.token_secret_key)
        return SessionContext(
            node=self.node,
            tick=self.tick,
            authenticator=Authenticator(ports.sasl, credentials, ports.clock, ports.entropy, self.statistics),
            shares=FairShares.of(ports.clock),
            quotas=ClientQuotas(
                settings.quotas, lambda: self.state_machine.image.security.quotas, self.statistics.quotas
            ),
        )

    def _runner(self) -> RaftRunner:
        states = QuorumStateStore(
            self.settings.node_id,
            self.recovered.state_file,
            self.engine,
            self.identity,
            self.founding,
            self.state_machine,
        )
        return RaftRunner(
            self.engine,
            self.log,
            self.ports.disk,
            self.ports.clock,
            self.statistics,
            self.tick,
            states.save,
            self.lifecycle.fail,
        )

    def _voter_log(self, discovery: Discovery) -> VoterLog:
        return VoterLog(
            self.engine,
            self.identity,
            discovery,
            self.state_machine,
            self.ports.clock,
            self.ports.disk,
            self.settings.data_directory,
            self.recovered.saved.meta,
            self.lifecycle,
        )

    def _monitor(self, peers: PeerClient) -> QuorumMonitor:
        return QuorumMonitor(
            self.settings,
            self.ports.clock,
            self.own,
            self.founding,
            self.engine,
            self.state_machine,
            peers,
            self.shutdown,
            self.statistics,
        )

    def _context(
        self,
        connections: PeerConnections,
        discovery: Discovery,
        peers: PeerClient,
        monitor: QuorumMonitor,
    ) -> ApiContext:
        controller = self.controller
        return create_api_context(
            self.node,
            self.quorum,
            MetadataParts(
                state_machine=self.state_machine,
                proposals=self.proposals,
                controller=controller.controller,
                writer=controller.writer,
                alter_partition_order=controller.order,
            ),
            PeerParts(
                discovery=discovery,
                connections=connections,
                monitor=monitor,
                call_leader=LeaderCaller(self.quorum, peers).call,
            ),
            router=self.router,
            quotas=self.sessions.quotas,
        )

    def _broker(
        self, context: ApiContext, discovery: Discovery, listeners: BoundListeners
    ) -> NodeBroker | None:
        """The broker role."""
        settings, clients = self.settings, self.clients
        if clients is None:
            return None
        assert settings.broker is not None
        clients.add_public_apis(context)
        clock, entropy, disk = self.ports.clock, self.ports.entropy, self.ports.disk
        client_id = f"{CLIENT_ID_PREFIX}{settings.node_id}"
        access = ControllerAccess(
            *(clock, self.engine, self.role, discovery, self.router.route, self.router.supported_versions),
            self.incoming.allocate_number,
            partial(self._connections, private_apis=False),
            settings.controller_listener_name,
            client_id,
            settings.request_timeout_ms,
        )
        broker = NodeBroker(
            *(settings.broker, access, disk, entropy, self.log, self.identity, self.lifecycle),
            *(clients, listeners.port, settings.data_directories[1:]),
        )
        self.shutdown.shut_down_broker = broker.shut_down
        context.peers.monitor.broker_state = lambda: broker.state
        return broker

    def _outputs(
        self,
        peers: PeerClient,
        voter_log: VoterLog,
        discovery: Discovery,
        monitor: QuorumMonitor,
        broker: NodeBroker | None,
    ) -> RunnerOutputs:
        leadership = Leadership(
            self.quorum,
            self.state_machine,
            self.proposals,
            self.controller,
            self.recovered.bootstrap,
            lambda: self.incoming.next_number,
        )
        listeners = CommitListeners(
            self.engine,
            self.log,
            monitor,
            self.state_machine,
            self.proposals,
            voter_log,
            self.checkpointer,
            leadership,
            discovery,
            broker,
        )
        return RunnerOutputs(
            peers,
            voter_log,
            listeners,
            self.controller.writer.write_no_op,
            monitor.refused,
        )

    def _node(
        self,
        boot_timestamp: int,
        discovery: Discovery,
        connections: PeerConnections,
        membership: MembershipManager,
        monitor: QuorumMonitor,
        listeners: BoundListeners,
        broker: NodeBroker | None,
    ) -> Node:
        return Node(
            self.settings,
            self.statistics,
            self.engine,
            self.log,
            self.recovered.recovery_report,
            boot_timestamp,
            self.identity,
            self.founding,
            self.state_machine,
            self.proposals,
            self.controller,
            self.snapshots,
            discovery,
            connections,
            self.incoming,
            membership,
            monitor,
            self.runner,
            self.lifecycle,
            self.shutdown,
            listeners,
            self.ports.clock,
            broker,
        )


def _identity(recovered: RecoveredData, entropy: Entropy) -> ClusterIdentity:
    identity = ClusterIdentity(recovered.saved.cluster_id, entropy)
    for record in recovered.voter_records:
        identity.appended(record.offset, record.cluster_id)
    return identity
