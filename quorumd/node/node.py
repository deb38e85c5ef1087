"""The one object that runtime and simulator make: wiring, start procedure, orderly and abrupt end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from quorumd.errors import ConfigError, DiskFull, FlushFailed, StorageError
from quorumd.ids import Endpoint, OffsetAndEpoch, ReplicaKey
from quorumd.log.folder_lock import lock_folder
from quorumd.log.meta_properties import MetaProperties, partition_folder, save_meta_properties
from quorumd.log.quorum_state_file import QuorumStateFile
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.address_book import Address
from quorumd.node.bootstrap_records import propose_bootstrap_records
from quorumd.node.cluster_identity import ClusterIdentity
from quorumd.node.controller_runner import ControllerRunner
from quorumd.node.discovery import Discovery
from quorumd.node.high_watermark_saver import HighWatermarkSaver
from quorumd.node.identity_files import load_saved_node, next_boot_timestamp, to_save
from quorumd.node.incoming_connections import IncomingConnections
from quorumd.node.orderly_end import OrderlyEnd
from quorumd.node.peer_requests import PeerRequests
from quorumd.node.proposals import Proposals
from quorumd.node.raft_runner import RaftRunner
from quorumd.node.request_handlers import Parts, add_handlers
from quorumd.node.request_router import RequestRouter
from quorumd.node.settings import NodeSettings
from quorumd.node.snapshot_keeper import SnapshotKeeper
from quorumd.node.snapshot_loading import begin
from quorumd.node.state_machine import StateMachine
from quorumd.node.statistics import NodeStatistics
from quorumd.node.turn import Turn
from quorumd.node.voter_records import VoterRecord, encode_control_records, scan_voter_records
from quorumd.ports import Clock, Disk, Entropy, Listener, Network
from quorumd.protocol.record_batch import encode_batch
from quorumd.raft.effects import Answer, ControlBatch, ReadReady, Send, VotersAnswer
from quorumd.raft.engine import RaftEngine
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.voters import VoterAssignment, VoterHistory

logger = logging.getLogger("quorumd.node")

EXIT_STOPPED, EXIT_STORAGE, EXIT_FLUSH_FAILED, EXIT_BROKEN_PROMISE = 0, 3, 4, 6
LINGER_MS = 10.0


class Node:
    """One node of the quorum. `start` may raise ConfigError, StorageError or OSError; then `on_stop` comes once.

    Attributes that may be read from outside: `engine`, `log`, `state_machine`, `statistics`, `identity`,
    `discovery`, `recovery_report`, `boot_timestamp`. `on_stop(exit_code, reason)`: see `quorumd.runtime`.
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
        self._on_stop = on_stop
        self._turn = Turn(clock.call_soon)
        self._was_leader = False
        self._searching_since: float | None = None
        self._bootstrap_proposed = False
        self._is_stopped = False

    def start(self) -> None:
        """Recover the data folder, bind the listener, and begin. Blocks while files are read."""
        settings = self.settings
        self._lock = lock_folder(self._disk, settings.data_directory)
        try:
            self._open_files()
            self._wire()
            self._check_that_somebody_is_known()
            self._listener: Listener = self._network.listen(
                settings.listen.host, settings.listen.port, self._incoming.accept
            )
            try:
                self._begin()
            except BaseException:
                self._listener.close()
                raise
        except BaseException:
            self._lock.close()
            raise

    def _begin(self) -> None:
        settings, clock = self.settings, self._clock
        self.boot_timestamp = next_boot_timestamp(self._disk, settings.data_directory, clock.wall_ms())
        self._runner.start()
        if self._is_stopped:
            return
        port = settings.advertised.port or self._listener.port
        own = Address(settings.advertised.host, port, self.boot_timestamp, self._meta.directory_id)
        seeds = [seed for seed in settings.voter_addresses if seed[0] != settings.node_id]
        self.discovery.start(own, seeds, self.engine.voters.current.ids or settings.raft.bootstrap_voters)
        for record in self._voter_records_found:
            self.discovery.learn_voters(record.assignment.current.voters)
        clock.call_at(clock.now_ms() + settings.look_after_files_ms, self._look_after_files)

    def shut_down(self) -> None:
        """Leave in good order: finish what is proposed, hand over leadership, tidy the folder, call `on_stop`."""
        self._end.begin()

    @property
    def listener_port(self) -> int:
        """The port that the listener is bound to."""
        return self._listener.port

    @property
    def cluster_id(self) -> str | None:
        """The committed cluster id, None before there is one."""
        return self.identity.cluster_id

    @property
    def is_ready(self) -> bool:
        """Whether this node knows a leader and how far the log is committed."""
        return not self._is_stopped and self.engine.leader_id >= 0 and self.engine.high_watermark >= 0

    @property
    def image_is_ahead(self) -> bool:
        """Whether the image holds what is proposed and not in the log yet."""
        return self._proposals.waiting_records > 0

    @property
    def unknown_voter_connections(self) -> int:
        """How many voters have no known address (KIP-595: number-unknown-voter-connections)."""
        return len(self.discovery.missing_voters())

    # Opening and wiring

    def _open_files(self) -> None:
        settings, disk = self.settings, self._disk
        saved = load_saved_node(disk, settings.data_directory, settings.node_id)
        self._meta: MetaProperties = saved.meta
        directory = partition_folder(settings.data_directory)
        self.log, self.recovery_report = SegmentedLog.open(
            disk, directory, settings.log, saved.known_high_watermark
        )
        self._state_file = QuorumStateFile(disk, directory)
        self.identity = ClusterIdentity(saved.cluster_id, self._entropy)
        self._beginning = begin(disk, self.log)
        self._voter_records_found = [
            *([self._beginning.voters] if self._beginning.voters is not None else ()),
            *scan_voter_records(self.log.read, self._beginning.offset, self.log.end_offset),
        ]
        for record in self._voter_records_found:
            self.identity.appended(record.offset, record.cluster_id)
        self._saved = saved

    def _wire(self) -> None:
        settings, clock = self.settings, self._clock
        own = ReplicaKey(settings.node_id, self._meta.directory_id)
        history = VoterHistory((r.offset, r.assignment) for r in self._voter_records_found)
        self.engine = RaftEngine(
            settings.raft, own, self._saved.quorum_state, self.log, history, self._entropy.below
        )
        self.state_machine = StateMachine(self.log, self._a_moment_later, self._soon)
        self.state_machine.begin_with(self._beginning.image, self._beginning.offset)
        self._runner = RaftRunner(self.engine, self.log, self._disk, clock, self.statistics, self._turn, self)
        self._high_watermark = HighWatermarkSaver(
            self._disk,
            settings.data_directory,
            self._saved.known_high_watermark,
            lambda: min(self.engine.high_watermark, self._runner.durable_offset),
            self._written,
        )
        self._snapshots = SnapshotKeeper(
            self._disk,
            clock,
            self.log,
            settings.log,
            settings.data_directory,
            self.statistics,
            lambda: self.state_machine.applied_offset,
        )
        self._proposals = Proposals(
            self._append_batch,
            self._turn.at_end,
            lambda: not self._runner.is_flushing,
            clock.now_ms,
            self.statistics.commit_latency_ms.observe,
        )
        self._wire_controller()
        self._peers = PeerRequests(
            f"quorumd-{settings.node_id}",
            self._network,
            clock,
            self.log,
            self.identity,
            self.statistics,
            self._runner.step,
            self._voter_records_fetched,
            lambda: Endpoint(settings.advertised.name, settings.advertised.host, self._advertised_port()),
            settings.request_timeout_ms,
        )
        self.discovery = Discovery(
            own,
            settings.advertised.name,
            settings.bootstrap_servers,
            clock,
            self._entropy,
            self.identity,
            self._peers.call,
            self._runner.step,
            lambda: self.engine.wants_leader_probe(clock.now_ms()),
            settings.request_timeout_ms,
        )
        self._peers.use(self.discovery)
        self._add_handlers()

    def _wire_controller(self) -> None:
        self._controller = ControllerRunner(
            self.settings.controller,
            self._clock,
            self._entropy,
            self.identity,
            self.log,
            self.state_machine,
            self._proposals,
            self.statistics,
            self._leads,
        )
        self._end = OrderlyEnd(
            self._clock,
            self.engine,
            self.log,
            self._runner,
            self._proposals,
            self._high_watermark,
            lambda: self._is_stopped,
            self._left,
        )

    def _check_that_somebody_is_known(self) -> None:
        """Once the log names the voters, the configuration need not (KIP-595 draft 6.1)."""
        settings = self.settings
        if not (
            self.engine.voters.current.ids or settings.raft.bootstrap_voters or settings.bootstrap_servers
        ):
            raise ConfigError(
                f"node {settings.node_id} would know nobody, its log names no voters yet: set quorum.voters to "
                "those of the first election, for example 1,2,3, or bootstrap.servers to join a quorum"
            )

    def _add_handlers(self) -> None:
        router = RequestRouter()
        parts = Parts(
            self.settings,
            self._clock,
            self.engine,
            self.log,
            self.identity,
            self.statistics,
            self.state_machine,
            self._proposals,
            self._controller,
            self.discovery,
            self._peers,
            self._runner.step,
            self._leads,
        )
        self._quorum_requests = add_handlers(router, parts)
        self._incoming = IncomingConnections(
            router, self.settings.max_request_bytes, self._clock, self.statistics, self._turn
        )

    def _advertised_port(self) -> int:
        return self.settings.advertised.port or self._listener.port

    def _leads(self) -> bool:
        """Whether requests for the leader are for this node: not while it is handing over, nor when it is no voter
        any more and leads only until that is committed."""
        engine = self.engine
        is_voter = engine.voters.current.by_id(self.settings.node_id) is not None
        return engine.is_leader and is_voter and not self._end.has_begun

    # What the runner hands on

    def answer(self, answer: Answer) -> None:
        try:
            self._quorum_requests.answer(answer)
        except StorageError as error:
            self.broken(error)

    def send(self, send: Send) -> None:
        self._peers.send(send)

    def prepare(self, send: Send) -> None:
        self._peers.prepare(send)

    def save(self, state: QuorumState) -> Callable[[], None]:
        """What is committed of voters and cluster id goes with epoch, leader and vote (hole 22)."""
        offset = self.state_machine.committed_offset
        saved = to_save(
            state, self.identity.cluster_id, self.settings.node_id, offset, self.engine.voters_below(offset)
        )
        return lambda: self._state_file.save(saved)

    def encode_control(self, batch: ControlBatch, base_offset: int, epoch: int) -> bytes:
        cluster_id = self.identity.for_new_record()
        for offset, record in enumerate(batch.records, base_offset):
            if isinstance(record, VoterAssignment):
                self.identity.appended(offset, cluster_id)
        return encode_control_records(batch, base_offset, epoch, self._clock.wall_ms(), cluster_id)

    def truncated(self, end_offset: int) -> None:
        self.identity.truncated(end_offset)

    def restarted(self, snapshot: OffsetAndEpoch, voters: VoterRecord | None) -> None:
        self.identity.truncated(0)
        self.state_machine.load(snapshot, self._disk)
        if voters is not None:
            self._voter_records_fetched([voters])
        logger.info("the log was replaced by the snapshot that ends at offset %d", snapshot.offset)

    def committed(self, high_watermark: int) -> None:
        self.state_machine.committed(high_watermark)
        self._proposals.committed(high_watermark)
        self._adopt_cluster_id(high_watermark)
        self._high_watermark.save_sealed(self.log.active_base_offset)
        if not self._bootstrap_proposed and self.engine.is_leader:
            self._bootstrap_proposed = True
            propose_bootstrap_records(self.state_machine.image, self._proposals)

    def _adopt_cluster_id(self, high_watermark: int) -> None:
        """The first committed voter record says which cluster this is; every later one must say the same."""
        adopted, contradiction = self.identity.committed(high_watermark)
        if contradiction is not None:
            self.broken(
                StorageError(
                    f"the log is of cluster {contradiction}, this folder of cluster {self.identity.cluster_id}; "
                    "check bootstrap.servers and quorum.voters, or format another folder"
                )
            )
        elif adopted:
            self._meta = self._meta._replace(cluster_id=self.identity.cluster_id)
            meta = self._meta
            self._disk.submit(
                lambda: save_meta_properties(self._disk, self.settings.data_directory, meta), self._written
            )
            self.discovery.expect(self.engine.voters.current.ids)
            logger.info("this node belongs to cluster %s", self.identity.cluster_id)

    def flush_done(self) -> None:
        self._proposals.end_of_flush()
        self._high_watermark.save_sealed(self.log.active_base_offset)

    def leadership_changed(self) -> None:
        engine = self.engine
        if engine.is_leader and not self._was_leader:
            self._was_leader = True
            self.state_machine.lead()
            if engine.high_watermark < self.log.end_offset:
                self._proposals.inherit(self.log.end_offset)
            self._controller.lead(self._incoming.next_number)
        elif self._was_leader and not engine.is_leader:
            self._was_leader = self._bootstrap_proposed = False
            self._controller.lost_leadership()
            self._proposals.lost()
            self.state_machine.lost_leadership()
        now = self._clock.now_ms()
        if engine.leader_id >= 0:
            self.discovery.introduce_to(engine.leader_id)
            if self._searching_since is not None:
                self.statistics.election_latency_ms.observe(now - self._searching_since)
                self._searching_since = None
        elif self._searching_since is None and engine.role_name in ("candidate", "prospective"):
            self._searching_since = now
        logger.info(
            "%s in epoch %d, leader %s",
            engine.role_name,
            engine.epoch,
            engine.leader_id if engine.leader_id >= 0 else "not known",
        )

    def read_ready(self, ready: ReadReady) -> None:
        ready.token(True)

    def read_failed(self, token: Callable[[bool], None]) -> None:
        token(False)

    def voters_answered(self, answer: VotersAnswer) -> None:
        answer.token(answer)

    def storage_full(self) -> None:
        logger.error(
            "no room on the disk of %s: no more is appended until there is", self.settings.data_directory
        )

    def broken(self, error: BaseException | str) -> None:
        """Stop at once, without another write."""
        if isinstance(error, FlushFailed):
            self._stop(EXIT_FLUSH_FAILED, str(error))
        elif isinstance(error, BaseException):
            self._stop(EXIT_STORAGE, str(error))
        else:
            self._stop(EXIT_BROKEN_PROMISE, error)

    def _soon(self, callback: Callable[[], None]) -> None:
        """Work of its own for a later turn."""
        self._clock.call_soon(partial(self._guarded, callback))

    def _a_moment_later(self, callback: Callable[[], None]) -> None:
        """Work that nobody waits for."""
        self._clock.call_at(self._clock.now_ms() + LINGER_MS, partial(self._guarded, callback))

    def _guarded(self, callback: Callable[[], None]) -> None:
        """A log that cannot be read or understood ends the node in work of its own, too."""
        if self._is_stopped:
            return
        try:
            callback()
        except StorageError as error:
            self.broken(error)

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

    # Voters

    def _voter_records_fetched(self, found: list[VoterRecord]) -> None:
        for record in found:
            self.identity.appended(record.offset, record.cluster_id)
            self.discovery.learn_voters(record.assignment.current.voters)
        self._adopt_cluster_id(self.engine.high_watermark)

    # Ending

    def _look_after_files(self) -> None:
        if self._is_stopped:
            return
        self._high_watermark.save()
        # Of no more than is known to be committed at the next start: what is missing of that is damage then.
        self._guarded(lambda: self._snapshots.look(self._high_watermark.certain))
        self._clock.call_at(self._clock.now_ms() + self.settings.look_after_files_ms, self._look_after_files)

    def _written(self, outcome: object) -> None:
        """A small file was written. A full disk is no reason to stop: the file is only the better to have."""
        if isinstance(outcome, DiskFull):
            logger.warning("%s", outcome)
        elif isinstance(outcome, BaseException):
            self.broken(outcome)

    def _left(self, error: StorageError | None) -> None:
        """Everything is handed over and tidy, but for this error."""
        if error is None or isinstance(error, DiskFull):
            self._written(error)
            self._stop(EXIT_STOPPED, "")
        else:
            self.broken(error)

    def _stop(self, exit_code: int, reason: str) -> None:
        if self._is_stopped:
            return
        self._is_stopped = True
        self._runner.stop()
        self._controller.lost_leadership()
        self._snapshots.stop()
        self._proposals.lost()
        self.discovery.stop()
        self._peers.close()
        self._listener.close()
        self._incoming.close()
        self._lock.close()
        self._on_stop(exit_code, reason)
