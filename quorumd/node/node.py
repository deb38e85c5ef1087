"""The one object that runtime and simulator make: wiring, start procedure, orderly and abrupt end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from quorumd.errors import ConfigError
from quorumd.ids import Endpoint, ReplicaKey
from quorumd.log.folder_lock import lock_folder
from quorumd.node.api.context import create_api_context
from quorumd.node.api.envelopes import CLIENT_ID_PREFIX
from quorumd.node.api.families import add_routes
from quorumd.node.api.quorum import ResponseSender
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
from quorumd.node.membership.manager import create_membership_manager
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.client import PeerClient
from quorumd.node.peers.discovery import Discovery
from quorumd.node.recovered_data import recover_data
from quorumd.node.sessions.connections import IncomingConnections
from quorumd.node.sessions.router import RequestRouter
from quorumd.node.settings import NodeSettings
from quorumd.node.snapshots.manager import SnapshotManager
from quorumd.node.state.proposals import Proposals
from quorumd.node.state.state_machine import StateMachine
from quorumd.node.statistics import NodeStatistics
from quorumd.node.tick import Tick
from quorumd.ports import Clock, Disk, Entropy, Listener, Network
from quorumd.protocol.record_batch import encode_batch
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import ReplayCompleted, ReplayStarted

APPLY_DELAY_MS = 10.0


class Node:
    """One node of the quorum. `start` may raise ConfigError, StorageError or OSError; then `on_stop` comes once.

    Attributes that may be read from outside: `engine`, `log`, `state_machine`, `statistics`, `identity`,
    `discovery`, `founding_obstacle`, `controller`, `membership`, `watch`, `recovery_report`, `boot_timestamp`.
    `on_stop`: see `ExitCode`.
    """

    def __init__(
        self,
        settings: NodeSettings,
        clock: Clock,
        entropy: Entropy,
        disk: Disk,
        network: Network,
        on_stop: Callable[[int, str], None],
    ) -> None:
        self.settings = settings
        self.statistics = NodeStatistics()
        self._clock = clock
        self._entropy = entropy
        self._disk = disk
        self._network = network
        self._tick = Tick(clock.call_soon, clock.now_ms, self.statistics.event_processing_ms)
        self._lifecycle = Lifecycle(clock, on_stop)

    def start(self) -> None:
        """Recover the data folder, bind the listener, and begin. Blocks while files are read."""
        settings = self.settings
        self._lock = lock_folder(self._disk, settings.data_directory)
        try:
            self._recover_data()
            self._wire()
            self._check_has_peers()
            self._listener: Listener = self._network.listen(
                settings.listen.host, settings.listen.port, self._incoming.accept
            )
            self._lifecycle.on_stop(self._listener.close, self._incoming.close, self._lock.close)
            try:
                self._run()
            except BaseException:
                self._listener.close()
                raise
        except BaseException:
            self._lock.close()
            raise

    def _run(self) -> None:
        settings, clock = self.settings, self._clock
        self.boot_timestamp = next_boot_timestamp(self._disk, settings.data_directory, clock.wall_ms())
        snapshot = self._recovered.start_snapshot.snapshot
        known = min(self._recovered.saved.known_high_watermark, self.log.end_offset)
        on_replayed = partial(self._runner.step, ReplayCompleted())
        is_replaying = self.state_machine.start(snapshot, known, self._disk, on_replayed)
        self._runner.start(self._runner_outputs())
        if self._lifecycle.is_stopped:
            return
        if is_replaying:
            self._runner.step(ReplayStarted())
        own = Address(*self._own_endpoint()[1:], self.boot_timestamp, self._own.directory_id)
        seeds = [seed for seed in settings.voter_addresses if seed[0] != settings.node_id]
        self.founding.start(self._own_endpoint())
        self.discovery.start(own, seeds + self.founding.seeds())
        self._voter_log.update_addresses()
        self.watch.start()
        self.membership.start()
        clock.call_at(clock.now_ms() + settings.maintenance_interval_ms, self._maintain)

    def shut_down(self) -> None:
        """Leave in good order: finish what is proposed, hand over leadership, tidy the folder, call `on_stop`."""
        self._shutdown.begin()

    @property
    def listener_port(self) -> int:
        """The port that the listener is bound to."""
        return self._listener.port

    @property
    def cluster_id(self) -> str | None:
        """The committed cluster id, None before there is one."""
        return self.identity.cluster_id

    @property
    def founding_obstacle(self) -> str | None:
        """Why this node is not part of a quorum, and what helps, in one sentence; None if it is part of one."""
        return self.founding.obstacle(self._clock.now_ms())

    @property
    def has_pending_proposals(self) -> bool:
        """Whether the image holds what is proposed and not in the log yet."""
        return self._proposals.pending_records > 0

    @property
    def unknown_voter_connections(self) -> int:
        """How many voters have no known address (KIP-595: number-unknown-voter-connections)."""
        return len(self.discovery.missing_voters())

    # Opening and wiring

    def _recover_data(self) -> None:
        self._recovered = recovered = recover_data(self._disk, self.settings)
        self.log, self.recovery_report = recovered.log, recovered.recovery_report
        self.identity = ClusterIdentity(recovered.saved.cluster_id, self._entropy)
        for record in recovered.voter_records:
            self.identity.appended(record.offset, record.cluster_id)

    def _wire(self) -> None:
        settings, clock, saved = self.settings, self._clock, self._recovered.saved
        own = self._own = ReplicaKey(settings.node_id, saved.meta.directory_id)
        history = self._recovered.voter_history()
        self.engine = RaftEngine(
            settings.raft, own, saved.quorum_state, self.log, history, self._entropy.randrange
        )
        self.founding = Founding(own, settings, self.engine, self.identity, self._recovered.founders)
        self._role = LeaderRole(self.engine, settings.node_id)
        call_later = partial(self._lifecycle.call_later, APPLY_DELAY_MS)
        self.state_machine = StateMachine(self.log, clock, call_later, self._lifecycle.call_soon)
        self._runner = self._make_runner()
        known, folder = saved.known_high_watermark, settings.data_directory
        self._high_watermark = HighWatermarkCheckpointer(
            self._disk, folder, known, self._durable_high_watermark, self._lifecycle.file_written
        )
        self._snapshots = SnapshotManager(
            *(self._disk, clock, self.log, settings.log, folder, self.statistics),
            lambda: self.state_machine.needed_offset,
        )
        self._proposals = Proposals(
            self._append_batch,
            self._tick.defer,
            lambda: not self._runner.is_flushing,
            clock.now_ms,
            self.statistics.commit_latency_ms.observe,
        )
        self._wire_controller()
        self._wire_peers()
        self.watch = self._make_monitor()
        self._add_handlers()
        self._register_closers()

    def _wire_peers(self) -> None:
        settings, clock = self.settings, self._clock
        self._peers = PeerClient(
            f"{CLIENT_ID_PREFIX}{settings.node_id}",
            self._network,
            clock,
            self.log,
            self.identity,
            self.statistics,
            self._runner.step,
            lambda records: self._voter_log.fetched(records),
            self._own_endpoint,
            settings.request_timeout_ms,
            settings.private_apis,
        )
        self.discovery = Discovery(
            self._own,
            settings.advertised.name,
            settings.bootstrap_servers,
            clock,
            self._entropy,
            self.identity,
            self._peers.call,
            self._runner.step,
            lambda: self.engine.should_probe_leader(clock.now_ms()),
            lambda: self.founding.voter_ids,
            self.founding,
            settings.request_timeout_ms,
        )
        self._peers.set_discovery(self.discovery)
        self._voter_log = VoterLog(
            self.engine,
            self.identity,
            self.discovery,
            self.state_machine,
            clock,
            self._disk,
            settings.data_directory,
            self._recovered.saved.meta,
            self._lifecycle,
        )

    def _register_closers(self) -> None:
        self._lifecycle.on_stop(
            self._runner.stop,
            self.membership.stop,
            self.controller.on_leadership_lost,
            self._snapshots.stop,
            self._proposals.on_leadership_lost,
            self.discovery.stop,
            self._peers.close,
        )

    def _wire_controller(self) -> None:
        self.controller = ControllerRunner(
            self.settings.controller,
            self._clock,
            self._entropy,
            self.identity,
            self.log,
            self.state_machine,
            self._proposals,
            self.statistics,
            self._role,
        )
        context = (self._role, self.engine, self.log, self.state_machine, self._proposals, self.controller)
        self._leadership = Leadership(*context, self._recovered.bootstrap, lambda: self._incoming.next_number)
        self._shutdown = GracefulShutdown(
            self._clock,
            self.engine,
            self.log,
            self._runner,
            self._proposals,
            self._high_watermark,
            self._role,
            self._lifecycle,
        )

    def _check_has_peers(self) -> None:
        """Once the log names the voters, the configuration need not (KIP-595 draft 6.1)."""
        settings = self.settings
        if not (self.founding.voter_ids or settings.bootstrap_servers):
            raise ConfigError(
                f"node {settings.node_id} would know nobody, its log names no voters yet: set quorum.voters to "
                "those of the first election, for example 1,2,3, or bootstrap.servers to join a quorum"
            )

    def _make_monitor(self) -> QuorumMonitor:
        return QuorumMonitor(
            self.settings,
            self._clock,
            self._own,
            self.founding,
            self.engine,
            self.state_machine,
            self._peers,
            self._shutdown,
            self.statistics,
        )

    def _add_handlers(self) -> None:
        router = RequestRouter(self.settings.private_apis)
        context = create_api_context(
            self.settings,
            self._clock,
            self.engine,
            self.log,
            self.identity,
            self.statistics,
            self.state_machine,
            self._proposals,
            self.controller,
            self.discovery,
            self._peers,
            self.watch,
            self._role,
            router,
            self._runner.step,
        )
        add_routes(context)
        if self.settings.registers:
            engine, own_id = self.engine, self._own.id
            self.controller.controller.other_voters = lambda: [
                voter for voter in engine.voters.current.ids if voter != own_id
            ]
        self.membership = create_membership_manager(context, self._own, self._entropy, self._own_endpoint)
        self._incoming = IncomingConnections(router, self.settings, self._clock, self.statistics, self._tick)

    def _make_runner(self) -> RaftRunner:
        states = QuorumStateStore(
            self.settings.node_id,
            self._recovered.state_file,
            self.engine,
            self.identity,
            self.founding,
            self.state_machine,
        )
        return RaftRunner(
            self.engine,
            self.log,
            self._disk,
            self._clock,
            self.statistics,
            self._tick,
            states.save,
            self._lifecycle.fail,
        )

    def _runner_outputs(self) -> RunnerOutputs:
        listeners = CommitListeners(
            self.engine,
            self.log,
            self.watch,
            self.state_machine,
            self._proposals,
            self._voter_log,
            self._high_watermark,
            self._leadership,
            self.discovery,
        )
        return RunnerOutputs(
            self._peers,
            ResponseSender(self.statistics, self._lifecycle.fail).respond,
            self._voter_log,
            listeners,
            self.controller.writer.write_no_op,
            self.watch.vote_refused,
        )

    def _own_endpoint(self) -> Endpoint:
        advertised = self.settings.advertised
        return Endpoint(advertised.name, advertised.host, advertised.port or self._listener.port)

    def _durable_high_watermark(self) -> int:
        return min(self.engine.high_watermark, self._runner.durable_offset)

    # Proposing

    def _append_batch(self, values: Sequence[bytes]) -> int | None:
        engine, log = self.engine, self.log
        if not engine.is_leader:
            return None
        base_offset = log.end_offset
        end_offset = base_offset + len(values)
        batch = encode_batch(base_offset, engine.epoch, self._clock.wall_ms(), values)
        if not self._runner.propose(batch, end_offset):
            return None
        self.state_machine.appended(end_offset)
        self.statistics.appended_records += len(values)
        return end_offset

    # Maintenance

    def _maintain(self) -> None:
        if self._lifecycle.is_stopped:
            return
        self._high_watermark.save()
        self.membership.update_voter()
        # Of no more than is known to be committed at the next start: what is missing of that is damage then.
        self._lifecycle.run_guarded(lambda: self._snapshots.maintain(self._high_watermark.durable_checkpoint))
        self._clock.call_at(self._clock.now_ms() + self.settings.maintenance_interval_ms, self._maintain)
