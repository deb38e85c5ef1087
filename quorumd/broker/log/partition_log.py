"""The log of one replica: a sequence of segments, the last of which is active."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.appended import Appended
from quorumd.broker.log.compaction_files import replace_segments
from quorumd.broker.log.data_segment import MAX_SEGMENT_OFFSETS, DataSegment, StoredBatches
from quorumd.broker.log.leader_epochs import FILE_NAME as EPOCH_FILE_NAME
from quorumd.broker.log.log_flush import LogFlush
from quorumd.broker.log.log_recovery import LoadedLog, RecoveryReport, load_log, marker_of, replay
from quorumd.broker.log.log_retention import first_segment_to_keep
from quorumd.broker.log.producer_state import AbortedTransaction
from quorumd.broker.log.segment_list import SegmentList
from quorumd.broker.log.timestamps import Steps, first_at_least, first_with_largest
from quorumd.broker.log.transaction_marker import TransactionMarker, encode_marker
from quorumd.broker.log.validation import LOG_APPEND_TIME, Origin, validate_produced
from quorumd.errors import CorruptLog, DiskFull, FlushFailed, MalformedMessage, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.log.atomic_file import is_disk_full, parent_directory, write_atomically
from quorumd.log.flush import flush_failed
from quorumd.ports import Disk
from quorumd.protocol.batch_header import (
    NO_PRODUCER,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
    stamped,
    with_log_append_time,
)
from quorumd.protocol.batch_scan import Ascending, validate
from quorumd.protocol.output_buffer import whole


class PartitionLog:
    """The log of one replica; see the package docstring.

    All methods run on the event thread. Only the flush that `begin_flush` returns runs on another thread; begin the
    next flush after its result has arrived.
    """

    def __init__(self, disk: Disk, directory: str, settings: PartitionLogSettings, loaded: LoadedLog) -> None:
        self._disk = disk
        self.directory = directory
        self.settings = settings
        """May be replaced at any time."""
        self._segments = SegmentList(disk, directory, loaded.segments)
        self.start_offset = loaded.start_offset
        """The log start offset: records below it are deleted."""
        self.end_offset = loaded.report.end_offset
        """The log end offset, flushed or not."""
        self.first_dirty_offset = loaded.start_offset
        """The log is compacted below this offset; the caller restores it from `cleaner-offset-checkpoint`."""
        self.producers = loaded.producers
        self._epochs = loaded.epochs
        self._epochs_are_dirty = False
        self._snapshots = loaded.snapshots
        self._recovery_point = loaded.recovery_point
        self._flush: LogFlush | None = None
        self._failure: FlushFailed | None = None
        self._unflushed_since_ms: float | None = None
        self._has_changed = loaded.report.verified_bytes > 0 or bool(loaded.report.truncations)

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        settings: PartitionLogSettings,
        recovery_point: int = 0,
        start_offset: int = 0,
        is_clean: bool = False,
    ) -> tuple[PartitionLog, RecoveryReport]:
        """Recover the log in a directory, or create an empty one. Blocks until the log is durable.

        `recovery_point` and `start_offset` come from the checkpoint files. After a clean shutdown, `is_clean` is
        true. Raises CorruptLog for flushed batches that cannot be read, FlushFailed, DiskFull, StorageError.
        """
        try:
            if not disk.exists(directory):
                disk.make_directory(directory)
                disk.sync_directory(parent_directory(directory))
            loaded = load_log(
                disk, directory, settings.index_interval_bytes, recovery_point, start_offset, is_clean
            )
        except OSError as cause:
            if is_disk_full(cause):
                raise DiskFull(f"disk full: the log in {directory} cannot be opened: {cause}") from cause
            raise StorageError(f"the log in {directory} cannot be opened: {cause}") from cause
        return cls(disk, directory, settings, loaded), loaded.report

    def __repr__(self) -> str:
        offsets = f"{self.start_offset}..{self.end_offset}"
        return f"<log {self.directory} {offsets} epoch {self.last_epoch}, {len(self._segments.all)} segments>"

    @property
    def last_epoch(self) -> int:
        """The newest leader epoch, -1 if there is none."""
        return self._epochs.last_epoch

    @property
    def size_bytes(self) -> int:
        """The total size of all segments."""
        return self._segments.size_bytes

    @property
    def recovery_point(self) -> int:
        """Everything below is flushed. A truncation lowers it; save its checkpoint before the next append."""
        flush = self._flush
        if flush is not None and flush.is_done:
            self._recovery_point = max(self._recovery_point, flush.end_offset)
        return self._recovery_point

    def segments(self) -> Sequence[DataSegment]:
        """The segments, oldest first; the last one is active. Read-only."""
        return self._segments.all

    def relocate(self, directory: str) -> None:
        """Use the new path of the renamed directory. Must not be called while a flush is running."""
        self.directory = self._snapshots.directory = directory
        self._segments.relocate(directory)

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        """The largest epoch <= `epoch` and its end offset, None if unknown (see `LeaderEpochs`)."""
        return self._epochs.end_of_epoch(epoch, self.end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of the record at `offset`, -1 if unknown."""
        return self._epochs.epoch_of(offset)

    def start_epoch(self, epoch: int) -> None:
        """Start a leader epoch at the log end offset, before its leader appends."""
        if self._epochs.assign(epoch, self.end_offset):
            self._epochs_are_dirty = True

    # ---- appending

    def append_as_leader(
        self, records: bytes, epoch: int, now_ms: float, wall_ms: int, origin: Origin = Origin.CLIENT
    ) -> Appended:
        """Validate a producer's single batch, set its base offset and leader epoch, and append it.

        Raises RequestError or DiskFull with the log unchanged, FlushFailed if a write fails for another reason.
        """
        batch = validate_produced(records, self.settings, wall_ms, origin)
        stamps = self.settings.message_timestamp_type == LOG_APPEND_TIME
        log_append_time_ms = wall_ms if stamps else NO_TIMESTAMP
        if batch.producer_id != NO_PRODUCER:
            if origin is Origin.CLIENT and (known := self.producers.duplicate_of(batch)) is not None:
                timestamp_ms = NO_TIMESTAMP if log_append_time_ms == NO_TIMESTAMP else known.timestamp_ms
                return Appended(known.base_offset, known.last_offset, timestamp_ms, is_duplicate=True)
            self.producers.check(batch, origin)
        if log_append_time_ms != NO_TIMESTAMP:
            records = with_log_append_time(records, batch, wall_ms)
        base_offset = self.end_offset
        self._write(stamped(records, batch, base_offset, epoch), (batch,), now_ms)
        if batch.producer_id != NO_PRODUCER:
            self.producers.update(batch, None)
        return Appended(base_offset, batch.end_offset - 1, log_append_time_ms)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: TransactionMarker,
        epoch: int,
        now_ms: float,
        wall_ms: int,
        transaction_version: int = 0,
    ) -> Appended:
        """Append the marker that ends a producer's transaction. Raises the errors of `append_as_leader`."""
        self.producers.check_marker(
            producer_id, producer_epoch, marker.coordinator_epoch, transaction_version
        )
        records = encode_marker(producer_id, producer_epoch, marker, wall_ms)
        batch = read_header(records)
        base_offset = self.end_offset
        self._write(stamped(records, batch, base_offset, epoch), (batch,), now_ms)
        self._update_producers(batch, marker)
        return Appended(base_offset, base_offset)

    def append_as_follower(self, records: bytes, now_ms: float = 0.0) -> int:
        """Append whole batches fetched from the leader, and return the new log end offset.

        The first one starts at `end_offset`, or above it after compaction. Raises CorruptLog for invalid batches,
        ValueError for a batch below the log end offset, DiskFull with the log unchanged, FlushFailed.
        """
        try:
            batches = validate(records, Ascending())
        except MalformedMessage as fault:
            raise CorruptLog(f"records fetched at offset {self.end_offset}: {fault}") from None
        if not batches:
            return self.end_offset
        if (first := batches[0].base_offset) < self.end_offset:
            raise ValueError(f"the batch at offset {first} is below the log end offset {self.end_offset}")
        markers = [marker_of(records, batch) for batch in batches]
        self._write(records, batches, now_ms)
        for batch, marker in zip(batches, markers, strict=True):
            if batch.producer_id != NO_PRODUCER:
                self._update_producers(batch, marker)
        return self.end_offset

    def _update_producers(self, batch: BatchHeader, marker: TransactionMarker | None) -> None:
        aborted = self.producers.update(batch, marker)
        if aborted is not None:
            segment = self._segments.from_offset(batch.base_offset)[0]
            try:
                segment.add_aborted(aborted)
            except OSError as cause:
                raise self._fail(segment.path, cause) from cause

    def _write(self, data: bytes, batches: Sequence[BatchHeader], now_ms: float) -> None:
        settings = self.settings
        segment = self._segments.active
        last = batches[-1]
        if segment.size > 0 and (
            segment.size + len(data) > settings.segment_bytes
            or last.max_timestamp_ms - segment.first_timestamp_ms > settings.segment_ms
            or last.end_offset - segment.base_offset > MAX_SEGMENT_OFFSETS
        ):
            segment = self._roll()
        try:
            segment.append(data, batches)
        except OSError as cause:
            raise self._append_error(segment, cause) from cause
        self.end_offset = last.end_offset
        self._has_changed = True
        self._segments.mark_dirty(segment)
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms
        if last.epoch != self._epochs.last_epoch:
            for batch in batches:
                if self._epochs.assign(batch.epoch, batch.base_offset):
                    self._epochs_are_dirty = True

    def _roll(self) -> DataSegment:
        """Seal the active segment and create the next one. Raises DiskFull with the log unchanged."""
        sealed = self._segments.active
        try:
            if sealed.has_index_files:
                # The files date from the last clean shutdown: recovery would trust them, and miss a lost write at
                # the end of the segment.
                sealed.remove_index_files()
                self._disk.sync_directory(self.directory)
            self._snapshots.write(self.end_offset, self.producers)
            return self._segments.add(self.end_offset, self.settings.index_interval_bytes)
        except OSError as cause:
            raise self._append_error(sealed, cause) from cause

    def _append_error(self, segment: DataSegment, cause: OSError) -> StorageError:
        try:
            segment.trim()
            # Otherwise a crash could bring the partial write back after later appends.
            segment.file.sync()
        except OSError as sync_error:
            return self._fail(segment.path, sync_error)
        if not is_disk_full(cause):
            return self._fail(segment.path, cause)
        return DiskFull(f"disk full: no space to append to the log in {self.directory}; free space there")

    def _fail(self, path: str, cause: OSError) -> FlushFailed:
        self._failure = flush_failed(path, cause)
        return self._failure

    # ---- reading

    def read(self, offset: int, max_bytes: int, max_offset: int, at_least_one: bool = True) -> bytes:
        """Read what `find` finds."""
        return whole(self.find(offset, max_bytes, max_offset, at_least_one))

    def find(self, offset: int, max_bytes: int, max_offset: int, at_least_one: bool) -> bytes | StoredBatches:
        """Find whole batches of one segment, from the batch that contains or follows `offset`; many are not read yet.

        Returns at most `max_bytes`, except that `at_least_one` returns the first batch even if it is larger, and only
        batches that end at or below `max_offset`. Raises ValueError below the log start, CorruptLog, StorageError.
        """
        if offset >= self.end_offset or offset >= max_offset:
            return b""
        if offset < self.start_offset:
            raise ValueError(f"offset {offset} is below the log start offset {self.start_offset}")
        try:
            return self._segments.find(offset, max_bytes, max_offset, at_least_one)
        except OSError as cause:
            raise self._read_error(cause) from cause

    def offset_of_timestamp(self, timestamp_ms: int, max_offset: int) -> Steps:
        """The first record below `max_offset` whose timestamp is at least `timestamp_ms`, in steps.

        Raises CorruptLog, StorageError.
        """
        try:
            found = yield from first_at_least(lambda: self._segments.all, timestamp_ms, self.start_offset)
        except OSError as cause:
            raise self._read_error(cause) from cause
        return found if found is not None and found.offset < max_offset else None

    def max_timestamp(self) -> Steps:
        """The first record with the largest timestamp of the log (KIP-734), in steps; None without timestamps.

        Raises CorruptLog, StorageError.
        """
        try:
            return (yield from first_with_largest(lambda: self._segments.all))
        except OSError as cause:
            raise self._read_error(cause) from cause

    def _read_error(self, cause: OSError) -> StorageError:
        return StorageError(f"the log in {self.directory} cannot be read: {cause}; check the disk")

    def last_stable_offset(self, high_watermark: int) -> int:
        """The last stable offset: every transaction below it is completed. At most the high watermark."""
        first = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if first is None else min(max(first, self.start_offset), high_watermark)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap the offsets from `start` to `end`."""
        return self._segments.aborted_transactions(start, end)

    # ---- truncation and deletion

    def truncate(self, end_offset: int) -> None:
        """Truncate to the batch boundary at or below `end_offset`; at the log end or above, drop only empty epochs.

        Blocks until it is durable: otherwise a crash could bring removed batches back after later appends. Raises
        FlushFailed, CorruptLog.
        """
        if self._epochs.truncate(min(end_offset, self.end_offset)):
            self._epochs_are_dirty = True
        if end_offset >= self.end_offset:
            return
        segments = self._segments
        if end_offset < segments.all[0].base_offset:
            self.reset(end_offset)
            return
        segment = segments.active
        try:
            self._snapshots.remove_above(end_offset)
            while len(segments.all) > 1 and segments.active.base_offset >= end_offset:
                segments.remove_last()
            segment = segments.active
            self._disk.sync_directory(self.directory)
            segment.truncate(end_offset)
            for _, file in segment.files():
                file.sync()
        except OSError as cause:
            raise self._fail(segment.path, cause) from cause
        self._set_end(segment.end_offset)
        self.start_offset = min(self.start_offset, self.end_offset)
        self._reload_producers()

    def reset(self, start_offset: int) -> None:
        """Remove all batches, and restart the log at `start_offset`. Blocks until the reset is durable.

        Raises FlushFailed, or DiskFull or StorageError if the epochs cannot be written; then reopen the log.
        """
        try:
            self._snapshots.remove_above(-1)
            while self._segments.all:
                self._segments.remove_last()
            self._epochs.truncate(0)
            write_atomically(self._disk, f"{self.directory}/{EPOCH_FILE_NAME}", self._epochs.encode())
            self._segments.add(start_offset, self.settings.index_interval_bytes)
            self._disk.sync_directory(self.directory)
        except OSError as cause:
            raise self._fail(self.directory, cause) from cause
        self.start_offset = start_offset
        self._epochs_are_dirty = False
        self._set_end(start_offset)
        self.producers.load(())

    def _set_end(self, end_offset: int) -> None:
        self.end_offset = end_offset
        self._has_changed = True
        self._recovery_point = min(self.recovery_point, end_offset)
        self.first_dirty_offset = min(self.first_dirty_offset, end_offset)
        if self._epochs.truncate(end_offset):
            self._epochs_are_dirty = True
        if self._flush is not None:
            self._flush.end_offset = min(self._flush.end_offset, end_offset)

    def _reload_producers(self) -> None:
        """Rebuild the producer state at the log end offset from the newest snapshot and the batches after it."""
        if not self.producers.entries:
            return
        begin = self._snapshots.load_newest(self.end_offset, self.producers)
        try:
            replay(self._segments.all, self.producers, begin, None)
        except OSError as cause:
            raise self._read_error(cause) from cause

    def delete_before(self, offset: int) -> int:
        """Raise the log start offset to `offset`, and remove the segments entirely below it; returns their size.

        Removes the oldest segment first, each durably before the next, so that a crash leaves no gap. The caller
        saves the log start offset. Blocks if segments are removed. Raises FlushFailed, ValueError for an offset
        above the log end offset.
        """
        if offset > self.end_offset:
            raise ValueError(f"offset {offset} is above the log end offset {self.end_offset}")
        if offset > self.start_offset:
            self.start_offset = offset
            self.first_dirty_offset = max(self.first_dirty_offset, offset)
            if self._epochs.set_start(offset):
                self._epochs_are_dirty = True
        freed = 0
        segments = self._segments
        try:
            while len(segments.all) > 1 and segments.all[1].base_offset <= self.start_offset:
                freed += segments.remove_first()
                self._snapshots.remove_below(segments.all[0].base_offset)
        except OSError as cause:
            raise self._fail(self.directory, cause) from cause
        return freed

    def enforce_retention(self, wall_ms: int, high_watermark: int) -> int:
        """Delete segments by time, size and log start offset, and expire idle producers; returns the bytes freed.

        Blocks. Raises FlushFailed, DiskFull, StorageError.
        """
        self.producers.expire(wall_ms, self.settings.producer_id_expiration_ms)
        segments = self._segments.all
        try:
            keep = first_segment_to_keep(segments, self.settings, wall_ms, high_watermark)
        except OSError as cause:
            raise self._read_error(cause) from cause
        if keep == len(segments) and segments[-1].size > 0:
            self._roll()
        keep = min(keep, len(segments) - 1)
        freed = self.delete_before(max(segments[keep].base_offset, self.start_offset))
        for segment in segments[:-1]:
            segment.release_indexes()
        return freed

    def replace_segments(self, base_offset: int, end_offset: int) -> int:
        """Replace the segments from `base_offset` to `end_offset` by a compacted one; returns the bytes freed.

        Blocks. Raises FlushFailed.
        """
        try:
            replace_segments(self._disk, self.directory, base_offset, end_offset)
            return self._segments.replace(base_offset, end_offset, self.settings.index_interval_bytes)
        except OSError as cause:
            raise self._fail(self.directory, cause) from cause

    # ---- flushing and closing

    def needs_flush(self, now_ms: float) -> bool:
        """Whether a flush is due: for a sealed segment, or by `flush.messages` or `flush.ms`."""
        recovery_point = self.recovery_point
        segments = self._segments.all
        if len(segments) > 1 and (
            recovery_point < segments[-1].base_offset or not segments[-2].has_index_files
        ):
            return True
        unflushed = self.end_offset - recovery_point
        if unflushed <= 0 or self._unflushed_since_ms is None:
            return False
        settings = self.settings
        return unflushed >= settings.flush_messages or now_ms - self._unflushed_since_ms >= settings.flush_ms

    def begin_flush(self) -> LogFlush:
        """Return a flush; calling it makes everything appended so far durable."""
        if self._flush is not None:
            if self._flush.is_running:
                raise RuntimeError("a flush is already running; wait for its result")
            self._recovery_point = self.recovery_point
            self._failure = self._failure or self._flush.failure
            self._epochs_are_dirty |= not self._flush.wrote_checkpoints
        segments = self._segments
        segments.close_retired()
        epochs = (
            (f"{self.directory}/{EPOCH_FILE_NAME}", self._epochs.encode()) if self._epochs_are_dirty else None
        )
        files, sealed = segments.take_dirty_files(), segments.without_index_files()
        directory = self.directory if segments.directory_is_dirty else None
        self._flush = LogFlush(self._disk, self.end_offset, files, directory, sealed, epochs, self._failure)
        self._epochs_are_dirty = False
        self._unflushed_since_ms = None
        return self._flush

    def close(self) -> None:
        """Flush, write the indexes and a producer snapshot, and close. Requires that no flush is running. Blocks.

        After a failed write or flush, only closes the files. Raises FlushFailed, StorageError.
        """
        try:
            if self._failure is None and (self._flush is None or self._flush.failure is None):
                self.begin_flush()()
                self._recovery_point = self.recovery_point
                if self._has_changed or not self._segments.active.has_index_files:
                    self._segments.active.write_index_files(atomically=False)
                    self._snapshots.write(self.end_offset, self.producers, synced=True)
                    self._disk.sync_directory(self.directory)
        except OSError as cause:
            raise self._fail(self.directory, cause) from cause
        finally:
            self._segments.close()
