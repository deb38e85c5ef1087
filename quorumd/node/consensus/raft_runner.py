"""Steps the engine and applies its effects in the order of the contract in `quorumd.raft`.

Disk work runs outside the event thread, one save or flush after the other. Flushes are group commits: one flush
covers all appends that arrived during the previous one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from quorumd.errors import (
    CorruptSnapshot,
    DiskFull,
    FlushFailed,
    MalformedMessage,
    StorageError,
    UnknownRecord,
)
from quorumd.ids import OffsetAndEpoch
from quorumd.log.segmented_log import SegmentedLog
from quorumd.log.snapshot_file import SnapshotSummary
from quorumd.node.basics import NodeBasics
from quorumd.node.consensus.durability_gate import DurabilityGate, Message
from quorumd.node.deadline_timer import DeadlineTimer
from quorumd.node.state.log_validation import validate_fetched
from quorumd.node.tick import Tick
from quorumd.node.wire.voter_records import VoterRecord, snapshot_voters
from quorumd.ports import Disk, Timer
from quorumd.raft.effects import (
    ControlBatch,
    Effects,
    RequestRefused,
    Respond,
    Send,
    SnapshotChunk,
)
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import (
    Event,
    FlushCompleted,
    PeerRequestFailed,
    Propose,
    SnapshotChecked,
    StallDetected,
    StorageAvailable,
    StorageFull,
    TimerFired,
)
from quorumd.raft.quorum_state import QuorumState

logger = logging.getLogger("quorumd.node")

FREE_SPACE_CHECK_MS = 1000.0
NEVER = 1 << 62


class Outbound(Protocol):
    """Sends the engine's requests to peers."""

    def send(self, send: Send) -> None:
        """Send a request; later, step `ResponseReceived` or `PeerRequestFailed` exactly once."""

    def prepare(self, send: Send) -> None:
        """Encode a request that will probably be sent soon."""


class ControlLog(Protocol):
    """Encodes control records and follows changes of the log."""

    def encode_control(self, batch: ControlBatch, base_offset: int, epoch: int) -> bytes:
        """Encode a control batch that the leader is about to append."""

    def truncated(self, end_offset: int) -> None:
        """Handle the truncation of the log to `end_offset`."""

    def restarted(self, snapshot: OffsetAndEpoch, voters: VoterRecord | None) -> None:
        """Handle a snapshot that replaced the log; `voters` is the record in the snapshot."""


class ProgressListener(Protocol):
    """Is notified of commits, flushes and elections."""

    def committed(self, high_watermark: int) -> None:
        """Handle a new high watermark."""

    def on_flush_completed(self) -> None:
        """Handle the end of a flush of the log."""

    def leadership_changed(self) -> None:
        """Handle a change of role, epoch or leader."""


@dataclass(frozen=True, slots=True)
class RunnerOutputs:
    """The receivers of the engine's effects."""

    outbound: Outbound
    control_log: ControlLog
    progress: ProgressListener
    save_operation: Callable[[QuorumState], Callable[[], None]]
    """Returns the disk operation that makes a state durable."""
    write_no_op: Callable[[], None]
    """Appends a record, so that the leader can commit in its epoch."""
    refused: Callable[[RequestRefused], None]


class RaftRunner:
    """Owns the engine's timer, its disk work and the order of its effects.

    `on_fatal_error(error)` must stop the node: a disk failed, or the engine found a violated invariant.
    """

    _outputs: RunnerOutputs
    """Set by `start`: before that there are no effects."""

    def __init__(
        self,
        node: NodeBasics,
        engine: RaftEngine,
        log: SegmentedLog,
        disk: Disk,
        tick: Tick,
        on_fatal_error: Callable[[BaseException | str], None],
    ) -> None:
        self._engine = engine
        self._log = log
        self._disk = disk
        self._clock = node.clock
        self._statistics = node.statistics
        self._tick = tick
        self._on_fatal_error = on_fatal_error
        self._gate = DurabilityGate(self._deliver, log.end_offset, self._prepare)
        self._timer = DeadlineTimer(
            node.clock, self._on_timer, lambda late_ms: self.step(StallDetected(late_ms))
        )
        self._is_flushing = False
        self._flush_started_ms = 0.0
        self._flush_ceiling = NEVER
        self._flush_again = False
        self._flush_unreported = False
        self._latest_save: QuorumState | None = None
        self._saves_in_flight = 0
        self._space_timer: Timer | None = None
        self._stopped = False
        self._checked_voters: VoterRecord | None = None
        """The voters in the snapshot that was fetched last."""

    @property
    def is_flushing(self) -> bool:
        """Whether a flush of the log is in progress."""
        return self._is_flushing

    @property
    def is_saving(self) -> bool:
        """Whether a save of the quorum state is in progress; one that waits for free space is not."""
        return self._saves_in_flight > 0

    @property
    def durable_offset(self) -> int:
        """The offset below which the whole log is durable."""
        return self._gate.durable_offset

    def start(self, outputs: RunnerOutputs) -> None:
        """Start the engine and apply its first effects. The log that recovery found is durable."""
        self._outputs = outputs
        self._apply_effects(self._engine.start(self._clock.now_ms()))
        self.step(FlushCompleted(self._gate.durable_offset))

    def step(self, event: Event) -> None:
        """Step the engine and apply its effects."""
        if self._stopped:
            return
        try:
            self._apply_effects(self._engine.step(event, self._clock.now_ms()))
        except StorageError as error:
            # The disk failed between two effects, so the content of the log is unknown.
            self._stopped = True
            self._on_fatal_error(error)

    def stop(self) -> None:
        """Stop processing events and effects, without waiting for disk work in progress."""
        self._stopped = True
        self._timer.cancel()
        if self._space_timer is not None:
            self._space_timer.cancel()

    def propose(self, batch: bytes, end_offset: int) -> bool:
        """Append one data batch as leader. Returns False if it was not appended, for example on a full disk."""
        before = self._log.end_offset
        self.step(Propose(batch, end_offset))
        return self._log.end_offset > before

    def _apply_effects(self, effects: Effects) -> None:
        if effects.fatal is not None:
            self._on_fatal_error(effects.fatal)
            return
        if effects.save is not None:
            self._save(effects.save)
        if effects.truncate_to is not None:
            self._truncate(effects.truncate_to)
        if effects.reset_to_snapshot is not None:
            self._restart(effects.reset_to_snapshot)
        if effects.snapshot_chunk is not None:
            self._write_snapshot_chunk(effects.snapshot_chunk)
        appended = True
        if effects.append is not None:
            appended = self._append(effects.append, effects.append_end_offset)
        # Send what may leave now before the flush, so that followers work while this node flushes.
        self._gate.release_after(effects.send)
        if appended:
            if effects.append is not None:
                self._flush()
            self._gate.release_after(effects.send_after_flush, self._log.end_offset)
        else:
            self._withdraw(effects.send_after_flush)
        if effects.leadership_changed:
            # After the sends, so that BeginQuorumEpoch leaves before other work starts.
            self._outputs.progress.leadership_changed()
        if effects.new_high_watermark is not None:
            # A full disk may have rejected records that the engine counted as committed.
            self._outputs.progress.committed(min(effects.new_high_watermark, self._log.end_offset))
        if effects.record_needed:
            self._outputs.write_no_op()
        if effects.refused is not None:
            self._outputs.refused(effects.refused)
        for ready in effects.reads_ready:
            ready.token(True)
        for token in effects.reads_failed:
            token(False)
        for result in effects.voter_change_results:
            result.token(result)
        if not appended:
            self._on_storage_full()
        self._arm_timer()

    def _deliver(self, message: Message) -> None:
        if isinstance(message, Send):
            self._outputs.outbound.send(message)
            return
        try:
            message.reply(message.response)
        except StorageError as error:
            # The records of a fetch response are read just before it leaves.
            self._on_fatal_error(error)

    def _prepare(self, message: Message) -> None:
        if isinstance(message, Send):
            self._outputs.outbound.prepare(message)

    def _withdraw(self, messages: Sequence[Message]) -> None:
        """Send the responses and fail the requests that depend on records that could not be appended."""
        self._gate.release_after([message for message in messages if isinstance(message, Respond)])
        for message in messages:
            if isinstance(message, Send):
                self._fail_later(message)

    def _fail_later(self, send: Send) -> None:
        self._clock.call_soon(lambda: self.step(PeerRequestFailed(send.peer, send.request)))

    def _save(self, state: QuorumState) -> None:
        self._latest_save = state
        self._gate.save_started()
        self._submit_save(state)

    def _submit_save(self, state: QuorumState) -> None:
        self._saves_in_flight += 1
        self._disk.submit(self._outputs.save_operation(state), self._on_saved)

    def _retry_save(self) -> None:
        if not self._stopped and self._latest_save is not None:
            self._submit_save(self._latest_save)

    def _on_saved(self, outcome: object) -> None:
        self._saves_in_flight -= 1
        if self._stopped:
            return
        if isinstance(outcome, DiskFull):
            # No message leaves before the state is durable, so it is safe to wait for space and to write the newest
            # state then: a later state never contradicts the votes of an earlier one.
            self._log_storage_full()
            self._clock.call_at(self._clock.now_ms() + FREE_SPACE_CHECK_MS, self._retry_save)
            return
        if isinstance(outcome, BaseException):
            self._stopped = True
            self._on_fatal_error(outcome)
            return
        self._tick.begin()
        self._gate.save_completed()
        self._report_flushed()
        self._tick.end()

    def _truncate(self, end_offset: int) -> None:
        self._log.truncate(end_offset)
        self._flush_ceiling = min(self._flush_ceiling, end_offset)
        for send in self._gate.truncated(end_offset):
            self._fail_later(send)
        self._outputs.control_log.truncated(end_offset)
        self._flush()

    def _restart(self, snapshot: OffsetAndEpoch) -> None:
        self._log.reset_to_snapshot(snapshot)
        self._flush_ceiling = min(self._flush_ceiling, snapshot.offset)
        for send in self._gate.restarted(snapshot.offset):
            self._fail_later(send)
        self._outputs.control_log.restarted(snapshot, self._checked_voters)

    def _write_snapshot_chunk(self, part: SnapshotChunk) -> None:
        """Write bytes of a snapshot that is being fetched, and check it in the background once it is complete."""
        snapshot, snapshots = part.snapshot, self._log.snapshots
        try:
            snapshots.write_part(snapshot, part.position, part.data)
        except StorageError as error:
            logger.warning("%s; it is fetched again", error)
            self._clock.call_soon(lambda: self.step(SnapshotChecked(snapshot, None)))
            return
        if part.position + len(part.data) == part.size:
            self._disk.submit(
                lambda: snapshots.finish_part(snapshot),
                lambda outcome: self._on_snapshot_checked(snapshot, outcome),
            )

    def _on_snapshot_checked(
        self, snapshot: OffsetAndEpoch, outcome: SnapshotSummary | BaseException
    ) -> None:
        if self._stopped:
            return
        try:
            voters = self._snapshot_voters(snapshot, outcome)
        except (FlushFailed, UnknownRecord) as fault:
            self._stopped = True
            self._on_fatal_error(fault)
            return
        except StorageError as fault:
            logger.warning("%s; it is fetched again", fault)
            voters = None
        self._checked_voters = voters
        self.step(SnapshotChecked(snapshot, voters.assignment if voters is not None else None))

    def _snapshot_voters(
        self, snapshot: OffsetAndEpoch, outcome: SnapshotSummary | BaseException
    ) -> VoterRecord:
        """Return the voters of a checked snapshot. Raises StorageError if the snapshot is invalid or the disk
        failed."""
        if isinstance(outcome, StorageError):
            raise outcome
        if isinstance(outcome, BaseException):
            raise FlushFailed(str(outcome)) from outcome
        self._log.snapshots.rescan()
        assert outcome.voters is not None, "finish_part rejects snapshots without voters"
        try:
            return snapshot_voters(snapshot, outcome.voters)
        except MalformedMessage as fault:
            renamed = self._log.snapshots.quarantine(snapshot)
            raise CorruptSnapshot(f"{fault}; the snapshot was renamed to {renamed}") from fault

    def _append(self, data: bytes | ControlBatch, end_offset: int) -> bool:
        if isinstance(data, ControlBatch):
            data = self._outputs.control_log.encode_control(data, self._log.end_offset, self._engine.epoch)
        elif not self._engine.is_leader:
            validate_fetched(data)
        try:
            self._log.append(data, end_offset)
        except DiskFull:
            # The control log has recorded these records already.
            self._outputs.control_log.truncated(self._log.end_offset)
            return False
        return True

    def _flush(self) -> None:
        self._flush_again = True
        if self._is_flushing:
            return
        self._is_flushing, self._flush_again = True, False
        self._flush_ceiling = NEVER
        self._flush_started_ms = self._clock.now_ms()
        self._disk.submit(self._log.begin_flush(), self._on_flushed)

    def _on_flushed(self, outcome: int | BaseException) -> None:
        if self._stopped:
            return
        if isinstance(outcome, BaseException):
            self._stopped = True
            self._on_fatal_error(outcome if isinstance(outcome, FlushFailed) else FlushFailed(str(outcome)))
            return
        now_ms = self._tick.begin()
        self._statistics.flush_latency_ms.observe(now_ms - self._flush_started_ms)
        self._is_flushing = False
        self._gate.flushed(min(outcome, self._flush_ceiling))
        if self._flush_again:
            self._flush()
        self._flush_unreported = True
        self._report_flushed()
        self._outputs.progress.on_flush_completed()
        self._tick.end()

    def _report_flushed(self) -> None:
        """Report the durable offset to a leading engine, once the epoch that it leads is saved."""
        if self._flush_unreported and self._engine.is_leader and not self._gate.is_saving:
            self._flush_unreported = False
            self.step(FlushCompleted(self._gate.durable_offset))

    def _log_storage_full(self) -> None:
        logger.error(
            "no space left on the disk of %s: appends are rejected until space is freed", self._log.directory
        )

    def _on_storage_full(self) -> None:
        self._log_storage_full()
        self.step(StorageFull())
        if self._space_timer is None:
            self._schedule_space_check()

    def _schedule_space_check(self) -> None:
        self._space_timer = self._clock.call_at(
            self._clock.now_ms() + FREE_SPACE_CHECK_MS, self._check_free_space
        )

    def _check_free_space(self) -> None:
        if self._log.has_free_space():
            self._space_timer = None
            self.step(StorageAvailable())
        else:
            self._schedule_space_check()

    def _arm_timer(self) -> None:
        if not self._stopped:
            self._timer.arm(self._engine.deadline)

    def _on_timer(self) -> None:
        self.step(TimerFired())
        self._arm_timer()
