"""The partitions of one internal topic that this broker leads, each with a state machine.

A partition is loaded from its log, in slices, when this broker becomes its leader. After that, the records of every
write are appended before they change the state; a response is sent once the high watermark has reached the end of the
records that it depends on. A partition is unloaded when this broker loses its leadership.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from quorumd.broker.coordinator.effects import Outbox, Times, Write
from quorumd.broker.coordinator.records import (
    LoadedMarker,
    LoadedRecord,
    decode_records,
    encode_records,
)
from quorumd.errors import CorruptLog, ErrorCode
from quorumd.log.batch_extents import end_offset_of
from quorumd.ports import Clock, Timer

logger = logging.getLogger("quorumd.broker")

RECORDS_PER_SLICE: Final = 500
"""The number of records to load per slice; other requests are handled between slices."""
RESPONSES_PER_SLICE: Final = 250
"""The number of responses to the members of groups per slice: a few milliseconds. A group may have thousands."""
EXPIRED_PER_SLICE: Final = 16
"""The number of deadlines to handle per slice: one of them may begin a generation with thousands of members."""


class CoordinatorLog(Protocol):
    """The log of a partition that this broker leads."""

    @property
    def partition(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from the one that contains `offset`, at least one; empty at the log end."""

    def append(self, records: bytes) -> ErrorCode:
        """Append one batch without waiting for its replication; return the error."""


class StateMachine(Protocol):
    """The state of one partition."""

    outbox: Outbox

    def replay(self, record: LoadedRecord, times: Times) -> None:
        """Apply a record of the log."""

    def replay_marker(self, marker: LoadedMarker, times: Times) -> None:
        """Apply a transaction marker of the log."""

    def loaded(self, times: Times) -> None:
        """Set the first deadlines, after the whole log was applied."""

    def unload(self) -> None:
        """Respond with NOT_COORDINATOR to every pending request that does not depend on a write."""

    def expire_next(self, times: Times) -> bool:
        """Handle the earliest deadline that has passed; return False if no deadline has passed."""

    def next_deadline(self) -> float | None:
        """Return the earliest deadline, None if there is none."""


M = TypeVar("M", bound=StateMachine)


class _PendingWrite(NamedTuple):
    end_offset: int
    deadline_ms: float
    completed: Callable[[ErrorCode, Times], None]


class Shard(Generic[M]):
    """A partition that this broker leads: its log, its state machine and the writes that are not committed yet."""

    def __init__(self, shards: Shards[M], log: CoordinatorLog, machine: M) -> None:
        self.log = log
        self.machine = machine
        self.is_loading = True
        self.is_active = False
        self._shards = shards
        self._pending_writes: deque[_PendingWrite] = deque()
        self._appended_end = 0
        self._is_appending = False
        self._is_responding = False
        """Whether the next slice of responses is scheduled."""
        self._timer: Timer | None = None
        self._timer_ms = 0.0

    # Loading

    def load(self) -> None:
        """Load the state from the log, slice by slice."""
        self._appended_end = self.log.end_offset
        self._load_slice(self._records())

    def _records(self) -> Iterator[LoadedRecord | LoadedMarker]:
        log, shards = self.log, self._shards
        offset = log.start_offset
        while offset < self._appended_end:
            data = log.read(offset, shards.load_buffer_bytes)
            if not data:
                return
            yield from decode_records(shards.coordinator, data)
            offset = max(end_offset_of(data), offset + 1)

    def _load_slice(self, records: Iterator[LoadedRecord | LoadedMarker]) -> None:
        if not self.is_loading:
            return
        clock, times = self._shards.clock, self._shards.times()
        done = 0
        try:
            for record in records:
                if isinstance(record, LoadedMarker):
                    self.machine.replay_marker(record, times)
                else:
                    self.machine.replay(record, times)
                done += 1
                if done == RECORDS_PER_SLICE:
                    clock.charge(done)
                    # Not `call_soon`, so that other requests are handled between slices.
                    clock.call_at(clock.now_ms(), lambda: self._load_slice(records))
                    return
        except CorruptLog as fault:
            logger.error("%s-%d: loading failed: %s", self._shards.topic, self.log.partition, fault)
            return
        clock.charge(done)
        self.is_loading = False
        self.is_active = True
        logger.info(
            "%s-%d: loaded up to offset %d", self._shards.topic, self.log.partition, self._appended_end
        )
        self.run(lambda machine, now: machine.loaded(now))

    # Operations

    def run(self, operation: Callable[[M, Times], None]) -> None:
        """Run an operation of the state machine, then append its writes and send its responses."""
        operation(self.machine, self._shards.times())
        self._execute_effects()

    def _execute_effects(self) -> None:
        self._append_writes()
        self._send_responses()
        self._schedule()

    def _append_writes(self) -> None:
        while self.is_active and (writes := self.machine.outbox.take()):
            for write in writes:
                self._append(write)

    def _send_responses(self) -> None:
        """Send the responses of the outbox, slice by slice."""
        if self._is_responding or not self.machine.outbox.send_responses(RESPONSES_PER_SLICE):
            return
        self._is_responding = True
        clock = self._shards.clock
        clock.call_at(clock.now_ms(), self._continue_responses)

    def _continue_responses(self) -> None:
        self._is_responding = False
        self._send_responses()

    def _append(self, write: Write) -> None:
        shards = self._shards
        if not self.is_active:
            write.completed(ErrorCode.NOT_COORDINATOR, shards.times())
            return
        if write.records:
            batch = encode_records(
                write.records, shards.clock.wall_ms(), write.producer_id, write.producer_epoch
            )
            self._is_appending = True
            error = self.log.append(batch)
            self._is_appending = False
            if error is not ErrorCode.NONE:
                logger.info("%s-%d: append failed: %s", shards.topic, self.log.partition, error.name)
                write.completed(error, shards.times())
                return
            self._appended_end = self.log.end_offset
            write.appended(self._appended_end)
        deadline_ms = shards.clock.now_ms() + shards.write_timeout_ms
        self._pending_writes.append(_PendingWrite(self._appended_end, deadline_ms, write.completed))
        self._complete_committed()

    def handle_external_append(self) -> None:
        """Handle an append by WriteTxnMarkers, on which later responses depend."""
        self._appended_end = self.log.end_offset

    def high_watermark_advanced(self) -> None:
        """Complete the writes up to the high watermark."""
        # During an append the state is behind the log; `_append` completes the writes afterwards.
        if self.is_active and not self._is_appending and self._complete_committed():
            self._execute_effects()

    def _complete_committed(self) -> bool:
        high_watermark = self.log.high_watermark
        waiting = self._pending_writes
        completed = False
        while waiting and waiting[0].end_offset <= high_watermark:
            completed = True
            waiting.popleft().completed(ErrorCode.NONE, self._shards.times())
        return completed

    def unload(self) -> None:
        """Stop using the state, and respond to every pending request with NOT_COORDINATOR."""
        self.is_loading = False
        was_active, self.is_active = self.is_active, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = self._shards.times()
        while self._pending_writes:
            self._pending_writes.popleft().completed(ErrorCode.NOT_COORDINATOR, times)
        if was_active:
            self.machine.unload()
            for write in self.machine.outbox.take():
                write.completed(ErrorCode.NOT_COORDINATOR, times)
            self._send_responses()

    # Timers

    def _schedule(self) -> None:
        if not self.is_active:
            return
        deadlines = [
            self.machine.next_deadline(),
            self._pending_writes[0].deadline_ms if self._pending_writes else None,
        ]
        known = [deadline for deadline in deadlines if deadline is not None]
        if self._timer is not None:
            if known and self._timer_ms <= min(known):
                return
            self._timer.cancel()
            self._timer = None
        if known:
            self._timer_ms = min(known)
            self._timer = self._shards.clock.call_at(self._timer_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        times = self._shards.times()
        while self._pending_writes and self._pending_writes[0].deadline_ms <= times.now_ms:
            self._pending_writes.popleft().completed(ErrorCode.REQUEST_TIMED_OUT, times)
        # The writes of one deadline change the state before the next is handled.
        for _ in range(EXPIRED_PER_SLICE):
            if not (self.is_active and self.machine.expire_next(times)):
                break
            self._append_writes()
        self._execute_effects()


class Shards(Generic[M]):
    """The shards of one internal topic: the partitions that this broker leads."""

    def __init__(
        self,
        coordinator: str,
        topic: str,
        clock: Clock,
        create: Callable[[int], M],
        load_buffer_bytes: int,
        write_timeout_ms: float,
    ) -> None:
        self.coordinator = coordinator
        self.topic = topic
        self.clock = clock
        self.load_buffer_bytes = load_buffer_bytes
        self.write_timeout_ms = write_timeout_ms
        self._create = create
        self._shards: dict[int, Shard[M]] = {}

    def times(self) -> Times:
        """Return the current time."""
        return Times(self.clock.now_ms(), self.clock.wall_ms())

    def elected(self, log: CoordinatorLog) -> None:
        """Load a partition that this broker leads, unless it is loaded. Not for use in a callback of the log."""
        shard = self._shards.get(log.partition)
        if shard is None:
            shard = self._shards[log.partition] = Shard(self, log, self._create(log.partition))
            shard.load()

    def resigned(self, partition: int) -> None:
        """Unload a partition that this broker no longer leads."""
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.unload()

    def high_watermark_advanced(self, partition: int) -> None:
        """Complete the writes up to the new high watermark. Not for use in a callback of the log."""
        shard = self._shards.get(partition)
        if shard is not None:
            shard.high_watermark_advanced()

    def active(self, partition: int) -> Shard[M] | ErrorCode:
        """Return the partition if it is loaded, or the error of a request for it."""
        shard = self._shards.get(partition)
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        if not shard.is_active:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return shard

    def all(self) -> list[Shard[M]]:
        """Return every partition that this broker leads, loaded or not, sorted by number."""
        return [self._shards[number] for number in sorted(self._shards)]
