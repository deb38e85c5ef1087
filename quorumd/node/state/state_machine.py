"""Applies the log to the cluster image.

A starting node loads its snapshot and applies the records that it knows to be committed. A follower applies committed
records with a short delay, because the quorum waits for its fetches, while clients tolerate slightly old metadata. A
new leader applies its whole log, and then its own records when it proposes them (`Proposals` keeps their undo
entries).

All of this happens in slices of a few milliseconds, between which the node serves its peers: applying, loading or
rolling back may take many times the fetch timeout. Readers never see a partial state (`is_readable`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.errors import CorruptLog, CorruptSnapshot, MalformedMessage, StorageError, UnsupportedVersion
from quorumd.ids import OffsetAndEpoch
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.state.batch_replay import apply_steps
from quorumd.node.state.snapshot_loader import load_steps
from quorumd.ports import Clock, Disk
from quorumd.protocol.batch_scan import headers

SLICE_MS = 5.0
"""A slice ends with the first step that completes after this time."""
SLICE_RECORDS = 10
"""Number of records that are applied or loaded between two checks of the time."""
READ_BYTES = 1024 * 1024


@dataclass(slots=True)
class Loading:
    """A snapshot that replaces the image once it is loaded."""

    snapshot: OffsetAndEpoch
    image: ClusterImage
    steps: Iterator[int]
    records: int = 0
    """Number of records loaded so far."""


class Applied(NamedTuple):
    """A batch in the image that is not known to be committed, and its undo entries."""

    base_offset: int
    end_offset: int
    changes: list[UndoEntry]


class StateMachine:
    """Applies the records of the log to the image, in order, each once.

    `call_later(callback)` calls back after a short delay, in which more records may arrive; `schedule(callback)` in a
    later iteration of the event loop. All methods that apply records raise StorageError if the log cannot be read or
    decoded.
    """

    def __init__(
        self,
        log: SegmentedLog,
        clock: Clock,
        call_later: Callable[[Callable[[], None]], None],
        schedule: Callable[[Callable[[], None]], None],
    ) -> None:
        self.image = ClusterImage()
        self.charge = clock.charge
        """Charges the clock for records that a leader has applied to the image, since it is about to propose them."""
        self.applied_offset = log.start_offset
        """The image contains all records below this offset."""
        self.committed_offset = log.start_offset
        """Records below this offset are committed and never undone."""
        self.applied_timestamp_ms = 0
        """When a leader appended the last record in the image, Unix milliseconds; 0 before the first."""
        self._log = log
        self._clock = clock
        self._call_later = call_later
        self._schedule = schedule
        self._is_scheduled = False
        self._loading: Loading | None = None
        self._reading: Iterator[int] | None = None
        """Applies the part of the log that was read; yields the number of records of each step."""
        self._read_generation = 0
        """Increases when records that were read ahead become invalid because the log may be truncated."""
        self._partial_batch: Applied | None = None
        """The batch that is being applied."""
        self._uncommitted: deque[Applied] = deque()
        self._rolling_back: deque[Applied] = deque()
        self._rollback_offset = 0
        """The applied offset once all of `_rolling_back` is undone."""
        self._leadership_offset = -1
        """The log end offset when this node became leader; `_on_ready` is called once it is applied."""
        self._on_ready: Callable[[], None] | None = None
        self.replay_end = 0
        """The offset below which the log was known to be committed when the node started."""
        self._on_replayed: Callable[[], None] | None = None
        """Called once the image is applied up to `replay_end`."""
        self._read_waiters: list[Callable[[], None]] = []
        """Callbacks that wait until the image is readable."""

    @property
    def needed_offset(self) -> int:
        """The lowest offset from which the log may still be read.

        Applied records that are not known to be committed may be rolled back, and the log is read again from there.
        """
        needed = min(self.applied_offset, self.committed_offset)
        return min(needed, self._rollback_offset) if self._rolling_back else needed

    @property
    def is_readable(self) -> bool:
        """Whether the image may be read.

        It then ends at a batch boundary, has no records of a lost leadership, and has all records that were known to
        be committed when the node started.
        """
        return self._partial_batch is None and not self._rolling_back and self._on_replayed is None

    def when_readable(self, callback: Callable[[], None]) -> None:
        """Call back in a later iteration of the event loop in which the image is readable."""
        self._schedule(lambda: callback() if self.is_readable else self._read_waiters.append(callback))

    @property
    def is_replaying(self) -> bool:
        """Whether the image has not reached `replay_end` yet."""
        return self._on_replayed is not None

    @property
    def loading(self) -> Loading | None:
        """The snapshot that is being loaded."""
        return self._loading

    def start(
        self,
        snapshot: OffsetAndEpoch | None,
        committed_offset: int,
        disk: Disk,
        on_replayed: Callable[[], None],
    ) -> bool:
        """Load the snapshot, if there is one, and apply the log below `committed_offset`.

        Returns False if that completes within a slice; else `on_replayed` is called at its completion.
        """
        if snapshot is not None:
            self.applied_offset = 0
            self.load(snapshot, disk)
        self.replay_end = self.committed_offset = max(self.committed_offset, committed_offset)
        self._run_slice()
        if self.applied_offset >= self.replay_end:
            return False
        self._on_replayed = on_replayed
        return True

    def committed(self, high_watermark: int) -> None:
        """Schedule the application of records below the new high watermark."""
        self.committed_offset = max(self.committed_offset, high_watermark)
        while self._uncommitted and self._uncommitted[0].end_offset <= high_watermark:
            self._uncommitted.popleft()
        self._schedule_work(self._call_later)

    def load(self, snapshot: OffsetAndEpoch, disk: Disk) -> None:
        """Load, in slices, a snapshot that replaced the log.

        Until then the old image is kept, unreadable if it holds part of a batch. A node that fetches snapshots does
        not lead, so the image has no proposed records.
        """
        image = ClusterImage()
        path = self._log.snapshots.path(snapshot)
        self._uncommitted.clear()
        self._reading = None
        self._loading = Loading(snapshot, image, load_steps(disk, path, snapshot, image, SLICE_RECORDS))
        self.committed_offset = max(self.committed_offset, snapshot.offset)
        self._schedule_work(self._schedule)

    def lead(self, on_ready: Callable[[], None]) -> None:
        """Apply the whole log, committed or not, since this node became leader.

        `on_ready` is called at its completion, within this call if a slice is enough.
        """
        self._leadership_offset = self._log.end_offset
        self._on_ready = on_ready
        self._run_slice()

    def appended(self, end_offset: int) -> None:
        """Record that the leader appended records up to `end_offset`.

        The image holds them already, except before `on_ready`: it applies such records, which change no state, in
        their order.
        """
        if self._on_ready is None:
            self.applied_offset = end_offset
            self.applied_timestamp_ms = self._clock.wall_ms()
        else:
            self._leadership_offset = end_offset

    def on_leadership_lost(self) -> None:
        """Roll back records that were read from the log but are not committed; `Proposals` has undone the rest."""
        self._on_ready = None
        self._read_generation += 1
        if self._partial_batch is not None and self._partial_batch.end_offset > self.committed_offset:
            self._uncommitted.append(self._partial_batch)
            self._partial_batch = None
        if self._partial_batch is None:
            self._reading = None
        if self._uncommitted:
            self._rollback_offset = self.committed_offset
            self._rolling_back.extend(self._uncommitted)
            self._uncommitted.clear()
        elif not self._rolling_back:
            self.applied_offset = min(self.applied_offset, self.committed_offset)
        self._run_slice()

    def uncommitted_changes(self) -> list[UndoEntry]:
        """The undo entries of applied records of the log that are not known to be committed, newest first."""
        changes: list[UndoEntry] = []
        for batch in self._rolling_back:
            changes.extend(batch.changes)
        for batch in self._uncommitted:
            changes.extend(batch.changes)
        partial = self._partial_batch
        if partial is not None and partial.end_offset > self.committed_offset:
            changes.extend(partial.changes)
        changes.reverse()
        return changes

    @property
    def _target(self) -> int:
        if self._on_ready is None:
            return self.committed_offset
        return max(self._leadership_offset, self.committed_offset)

    @property
    def _has_work(self) -> bool:
        return bool(self._rolling_back) or self._loading is not None or self.applied_offset < self._target

    def _schedule_work(self, schedule: Callable[[Callable[[], None]], None]) -> None:
        if not self._is_scheduled and self._has_work:
            self._is_scheduled = True
            schedule(self._next_slice)

    def _next_slice(self) -> None:
        self._is_scheduled = False
        self._run_slice()

    def _run_slice(self) -> None:
        """Run one slice, and schedule another if there is more to do."""
        slice_deadline = self._clock.now_ms() + SLICE_MS
        while self._has_work:
            count = self._step()
            if count < 0:
                break
            self._clock.charge(count)
            if self._clock.now_ms() >= slice_deadline:
                self._schedule_work(self._schedule)
                break
        if self._on_replayed is not None and self.applied_offset >= self.replay_end:
            on_replayed, self._on_replayed = self._on_replayed, None
            on_replayed()
        if self._read_waiters and self.is_readable:
            waiters, self._read_waiters = self._read_waiters, []
            for callback in waiters:
                self.when_readable(callback)
        if self._on_ready is not None and not self._has_work:
            on_ready, self._on_ready = self._on_ready, None
            on_ready()

    def _step(self) -> int:
        """Run one step of a slice. Returns its number of records, -1 if the log has no complete batch to apply."""
        if self._rolling_back:
            return self._roll_back()
        if self._loading is not None:
            return self._load(self._loading)
        if self._reading is None:
            data = self._log.read(self.applied_offset, READ_BYTES, max_offset=self._target)
            if not data:
                return -1
            self._reading = self._apply_batches(data)
        count = next(self._reading, -1)
        if count < 0:
            self._reading = None
        return max(0, count)

    def _roll_back(self) -> int:
        batch = self._rolling_back.pop()
        undo(reversed(batch.changes))
        self.applied_offset = batch.base_offset if self._rolling_back else self._rollback_offset
        return len(batch.changes)

    def _load(self, loading: Loading) -> int:
        try:
            count = next(loading.steps, -1)
        except CorruptSnapshot as fault:
            renamed = self._log.snapshots.quarantine(loading.snapshot)
            raise StorageError(f"{fault}; it was renamed to {renamed}: restart the node") from None
        loading.records += max(0, count)
        if count < 0:
            self._loading = self._partial_batch = None
            self.image = loading.image
            self.applied_offset = loading.snapshot.offset
            self.applied_timestamp_ms = self._log.snapshots.timestamp_ms(loading.snapshot)
        return max(0, count)

    def _apply_batches(self, data: bytes) -> Iterator[int]:
        """Apply complete batches; yields the number of records of each step of `apply_steps`."""
        read_generation = self._read_generation
        for header in headers(data):
            if header.is_control:
                self.applied_offset = header.end_offset
                self.applied_timestamp_ms = header.max_timestamp_ms
                continue
            batch = self._partial_batch = Applied(header.base_offset, header.end_offset, [])
            try:
                for count in apply_steps(self.image, data, header, batch.changes, SLICE_RECORDS):
                    self.applied_offset += count
                    if self.applied_offset < header.end_offset:
                        yield count
            except (MalformedMessage, UnsupportedVersion) as error:
                raise CorruptLog(
                    f"the log cannot be applied {error}; if a newer version wrote it, upgrade this node"
                ) from None
            self._partial_batch = None
            self.applied_timestamp_ms = header.max_timestamp_ms
            if batch.changes and header.end_offset > self.committed_offset:
                self._uncommitted.append(batch)
            yield count
            if read_generation != self._read_generation:
                return
