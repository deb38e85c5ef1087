"""The metadata log as a sequence of segments, the last of which is active."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from quorumd.errors import DiskFull, FlushFailed, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.atomic_file import is_disk_full, read_whole
from quorumd.log.epoch_cache import FILE_NAME as EPOCH_FILE_NAME
from quorumd.log.flush import Flush, flush_failed
from quorumd.log.recovery import Recovered, RecoveryReport, recover
from quorumd.log.retention import SegmentSummary
from quorumd.log.segment import Segment
from quorumd.log.snapshot_store import SnapshotStore
from quorumd.log.tail_cache import DEFAULT_CAPACITY, TailCache
from quorumd.ports import Disk
from quorumd.protocol.batch_header import BatchHeader, read_header
from quorumd.protocol.batch_scan import headers

_MAX_SEGMENT_OFFSETS = 2**31 - 1
"""An index entry has 31 bits for an offset relative to its segment."""


class SegmentedLog:
    """The log of one partition; see the package docstring.

    All methods run on the event thread. Only the Flush that `begin_flush` returns runs on another thread, one at a
    time: begin the next one once its result has arrived.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        settings: LogSettings,
        recovered: Recovered,
        snapshots: SnapshotStore,
    ) -> None:
        self._disk = disk
        self.directory = directory
        self._settings = settings
        self._segments = recovered.segments
        self.end_offset = recovered.segments[-1].end_offset
        """Last offset + 1, flushed or not."""
        self.start_offset = recovered.start_offset
        """The log start offset."""
        self.snapshots = snapshots
        self._base_offsets = [segment.base_offset for segment in recovered.segments]
        self._epochs = recovered.epochs
        self._checkpoint_path = f"{directory}/{EPOCH_FILE_NAME}"
        self._checkpoint_is_old = read_whole(disk, self._checkpoint_path) != self._epochs.encode()
        self._tail = TailCache(min(DEFAULT_CAPACITY, settings.segment_bytes))
        self._dirty: list[Segment] = []
        self._directory_is_dirty = False
        self._retired: list[Segment] = []
        self._flush: Flush | None = None
        self._failure: FlushFailed | None = None
        self._is_full = False

    @classmethod
    def open(
        cls, disk: Disk, directory: str, settings: LogSettings, known_high_watermark: int = 0
    ) -> tuple[SegmentedLog, RecoveryReport]:
        """Recover the log in a directory, or create an empty one. Blocks until the log is durable.

        Raises CorruptLog, with the files unchanged, for a log that is damaged below `known_high_watermark`;
        FlushFailed or DiskFull if the repair fails, StorageError if a file cannot be read.
        """
        try:
            disk.make_directory(directory)
            snapshots = SnapshotStore(disk, directory)
            snapshots.remove_leftovers()
            recovered = recover(
                disk, directory, settings.index_interval_bytes, known_high_watermark, snapshots
            )
            snapshots.remove_before(recovered.start_offset)
            if not recovered.segments:
                recovered.segments.append(Segment(disk, directory, 0, settings.index_interval_bytes))
                disk.sync_directory(directory)
        except OSError as cause:
            if is_disk_full(cause):
                raise DiskFull(f"disk full: the log in {directory} cannot be opened: {cause}") from cause
            raise StorageError(f"the log in {directory} cannot be opened: {cause}") from cause
        return cls(disk, directory, settings, recovered, snapshots), recovered.report

    def __repr__(self) -> str:
        return (
            f"<log {self.start_offset}..{self.end_offset} epoch {self.last_epoch}, "
            f"{len(self._segments)} segments{', disk full' if self._is_full else ''}>"
        )

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """End offset and epoch of the newest snapshot, None if there is none."""
        return self.snapshots.latest

    def fetched_bytes(self, snapshot: OffsetAndEpoch) -> int:
        """Number of bytes already stored of a snapshot that is being fetched."""
        return self.snapshots.part_size(snapshot)

    @property
    def active_base_offset(self) -> int:
        """Base offset of the active segment; earlier segments are sealed."""
        return self._base_offsets[-1]

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, 0 for an empty log."""
        return self._epochs.last_epoch

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch <= `epoch` in this log and its end offset; epoch 0 and the log start if there is none."""
        found = self._epochs.end_of_epoch(epoch, self.end_offset)
        return OffsetAndEpoch(self.start_offset, 0) if found is None else found

    def append(self, data: bytes, end_offset: int) -> None:
        """Append whole batches from `self.end_offset` to `end_offset`. The caller has validated fetched batches.

        Raises DiskFull with the log unchanged and `has_free_space` False, FlushFailed for any other failed write, and
        ValueError for batches that do not continue the log.
        """
        batches = self._batches(data, end_offset)
        if self._is_full and not self.has_free_space():
            raise DiskFull(self._disk_full_message())
        settings = self._settings
        segment = self._segments[-1]
        if segment.size > 0 and (
            segment.size + len(data) > settings.segment_bytes
            or batches[-1].max_timestamp_ms - segment.first_timestamp_ms >= settings.segment_ms
            or end_offset - segment.base_offset > _MAX_SEGMENT_OFFSETS
        ):
            segment = self._roll()
        ahead = min(segment.size + len(data) + settings.allocate_bytes, settings.segment_bytes)
        try:
            segment.append(data, batches, ahead if settings.allocate_bytes else 0)
        except OSError as cause:
            raise self._append_error(segment, cause) from cause
        self.end_offset = end_offset
        self._mark_dirty(segment)
        self._tail.append(batches[0].base_offset, data, end_offset)
        for batch in batches:
            if batch.epoch > self._epochs.last_epoch:
                self._epochs.add(batch.epoch, batch.base_offset)
                self._checkpoint_is_old = True

    def truncate(self, end_offset: int) -> None:
        """Truncate to the batch boundary at or below `end_offset`; no effect if the log ends there or before.

        Blocks until that is durable: otherwise a crash could restore old bytes after newly appended ones. Raises
        FlushFailed.
        """
        if end_offset >= self.end_offset:
            return
        end_offset = max(end_offset, self.start_offset)
        try:
            self._remove_segments_above(end_offset)
            segment = self._segments[-1]
            segment.truncate(end_offset)
            self.end_offset = segment.end_offset
            segment.file.sync()
        except OSError as cause:
            raise self._fail(self._segments[-1].path, cause) from cause
        self._tail.clear()
        if self._epochs.truncate(self.end_offset):
            self._checkpoint_is_old = True
        if self._flush is not None:
            self._flush.end_offset = min(self._flush.end_offset, self.end_offset)

    def reset_to_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Empty the log, which then starts at the end of a stored snapshot, and remove older snapshots.

        Blocks until that is durable. After a crash in between, opening the log completes it. Raises FlushFailed.
        """
        path = self.directory
        try:
            path = self._remove_last_segments(snapshot.offset)
            # After a crash here, this segment shows recovery that the log was being replaced and is not damaged.
            segment = Segment(
                self._disk, self.directory, snapshot.offset, self._settings.index_interval_bytes
            )
            self._disk.sync_directory(self.directory)
            path = self._remove_last_segments(0)
        except OSError as cause:
            raise self._fail(path, cause) from cause
        self._segments.append(segment)
        self._base_offsets = [snapshot.offset]
        self.start_offset = self.end_offset = snapshot.offset
        self._dirty = []
        self._tail.clear()
        self._set_epochs_start(snapshot)
        self.snapshots.remove_before(snapshot.offset)
        if self._flush is not None:
            self._flush.end_offset = min(self._flush.end_offset, self.end_offset)

    def _remove_last_segments(self, offset: int) -> str:
        """Durably remove the segments that start at or above `offset`; returns the path removed last."""
        path = self.directory
        while self._segments and self._segments[-1].base_offset >= offset:
            segment = self._segments.pop()
            path = segment.path
            segment.remove()
            self._retired.append(segment)
        self._disk.sync_directory(self.directory)
        return path

    def delete_before(self, snapshot: OffsetAndEpoch) -> None:
        """Start the log at the end of a stored snapshot: remove segments entirely below it and older snapshots.

        If the segment with offset 0 is not removed, the log start offset stays 0. Blocks. Segments are removed oldest
        first, each durably before the next, so that a crash leaves no gap. Raises FlushFailed, and ValueError for a
        snapshot above the log end.
        """
        if snapshot.offset > self.end_offset:
            raise ValueError(f"{snapshot} is above the log end offset {self.end_offset}")
        if snapshot.offset <= self.start_offset:
            return
        self.snapshots.make_durable(snapshot)
        path = self.directory
        try:
            # The process that built the snapshot may have been killed before it synced the directory.
            self._disk.sync_directory(self.directory)
            while len(self._segments) > 1 and self._segments[0].end_offset <= snapshot.offset:
                segment = self._segments.pop(0)
                self._base_offsets.pop(0)
                path = segment.path
                segment.remove()
                self._retired.append(segment)
                self._dirty = [dirty for dirty in self._dirty if dirty is not segment]
                self._disk.sync_directory(self.directory)
        except OSError as cause:
            raise self._fail(path, cause) from cause
        if self._base_offsets[0] > 0:
            self.start_offset = snapshot.offset
            self._set_epochs_start(snapshot)
        self.snapshots.remove_before(snapshot.offset)

    def seek_hint(self, offset: int) -> tuple[int, int]:
        """The base offset of the segment that contains `offset`, and a position in its file at or before that
        offset."""
        segment = self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0)]
        return segment.base_offset, segment.indexes.position_before(offset)

    def bytes_after(self, offset: int) -> int:
        """Number of bytes in the batches from `offset` on, exact to about one index interval."""
        total = 0
        for segment in reversed(self._segments):
            if segment.base_offset >= offset:
                total += segment.size
            else:
                if segment.end_offset > offset:
                    total += segment.size - segment.indexes.position_before(offset)
                break
        return total

    def segments(self) -> list[SegmentSummary]:
        """The segments, oldest first; the last one is active."""
        return [
            SegmentSummary(segment.base_offset, segment.end_offset, segment.size, segment.last_timestamp_ms)
            for segment in self._segments
        ]

    def _set_epochs_start(self, start: OffsetAndEpoch) -> None:
        self._epochs.set_start(start)
        self._checkpoint_is_old = True

    def read(self, offset: int, limit: int, max_offset: int | None = None) -> bytes:
        """Read whole batches from the one that contains `offset`: at least one, at most `limit` bytes, none that ends
        above `max_offset`. Stops at the end of a segment; b"" at the end of the log.

        Raises ValueError below the log start offset, StorageError if the read fails.
        """
        end = self.end_offset if max_offset is None else min(max_offset, self.end_offset)
        if offset >= end:
            return b""
        if offset < self.start_offset:
            raise ValueError(f"offset {offset} is below the log start offset {self.start_offset}")
        data = self._tail.read(offset, limit, end)
        if data is not None:
            return data
        segment = self._segments[bisect_right(self._base_offsets, offset) - 1]
        try:
            return segment.read(offset, limit, end)
        except OSError as cause:
            raise StorageError(f"{segment.path} cannot be read: {cause}; check the disk") from cause

    def begin_flush(self) -> Flush:
        """Return a Flush of everything appended so far; calling it makes that durable."""
        if self._flush is not None:
            if self._flush.is_running:
                raise RuntimeError("a flush is already running; wait for its result first")
            self._failure = self._failure or self._flush.failure
        self._close_retired()
        checkpoint = (self._checkpoint_path, self._epochs.encode()) if self._checkpoint_is_old else None
        self._flush = Flush(
            self._disk,
            self.end_offset,
            [(segment.path, segment.file) for segment in self._dirty],
            self.directory if self._directory_is_dirty else None,
            checkpoint,
            self._failure,
        )
        self._dirty = []
        self._directory_is_dirty = False
        self._checkpoint_is_old = False
        return self._flush

    def free_bytes(self) -> int:
        """Free space on the log's file system, in bytes."""
        return self._disk.free_bytes(self.directory)

    def has_free_space(self) -> bool:
        """Whether appends are accepted: False after DiskFull until `reserve_bytes` are free again."""
        if self._is_full:
            self._is_full = self._disk.free_bytes(self.directory) < self._settings.reserve_bytes
        return not self._is_full

    def close(self) -> None:
        """Trim the files, write the indexes, flush and close. Blocks.

        Call it only when no flush is running. After a failed flush, it only closes the files. Raises FlushFailed.
        """
        try:
            if self._failure is None and (self._flush is None or self._flush.failure is None):
                self._finalize_files()
        finally:
            self._close_retired()
            for segment in self._segments:
                segment.file.close()

    def _finalize_files(self) -> None:
        path = self.directory
        try:
            for segment in self._segments:
                path = segment.path
                if segment.needs_trim:
                    segment.trim()
                    self._mark_dirty(segment)
                segment.write_indexes()
        except OSError as cause:
            raise self._fail(path, cause) from cause
        self.begin_flush()()

    def _batches(self, data: bytes, end_offset: int) -> Sequence[BatchHeader]:
        first = read_header(data, 0)
        batches = (first,) if first.size == len(data) else tuple(headers(data))
        if first.base_offset != self.end_offset or batches[-1].end_offset != end_offset:
            raise ValueError(
                f"batches {first.base_offset}..{batches[-1].end_offset}, expected to end at offset {end_offset}, "
                f"do not continue the log, which ends at offset {self.end_offset}"
            )
        return batches

    def _mark_dirty(self, segment: Segment) -> None:
        if not self._dirty or self._dirty[-1] is not segment:
            self._dirty.append(segment)

    def _roll(self) -> Segment:
        """Seal the active segment and create the next one. Raises DiskFull with the log unchanged."""
        sealed = self._segments[-1]
        base_offset = sealed.end_offset
        try:
            segment = Segment(self._disk, self.directory, base_offset, self._settings.index_interval_bytes)
        except OSError as cause:
            raise self._append_error(sealed, cause) from cause
        self._segments.append(segment)
        self._base_offsets.append(base_offset)
        self._directory_is_dirty = True
        try:
            sealed.trim()
            sealed.write_indexes()
        except OSError as cause:
            raise self._fail(sealed.path, cause) from cause
        return segment

    def _append_error(self, segment: Segment, cause: OSError) -> StorageError:
        """Undo a failed write and return its error.

        This also frees the preallocated blocks, so that there is space for other files on a full disk.
        """
        try:
            segment.trim()
            # Otherwise a crash could restore the partial write after later appends.
            segment.file.sync()
        except OSError as another:
            return self._fail(segment.path, another)
        if not is_disk_full(cause):
            return self._fail(segment.path, cause)
        self._is_full = True
        return DiskFull(self._disk_full_message())

    def _disk_full_message(self) -> str:
        return (
            f"disk full: no space for the log in {self.directory}; appends fail until "
            f"{self._settings.reserve_bytes} bytes are free there"
        )

    def _fail(self, path: str, cause: OSError) -> FlushFailed:
        self._failure = flush_failed(path, cause)
        return self._failure

    def _remove_segments_above(self, end_offset: int) -> None:
        """Remove segments last first, durably before any other truncation, so that a crash leaves no gap."""
        removed = False
        while self._base_offsets[-1] > end_offset:
            segment = self._segments.pop()
            self._base_offsets.pop()
            segment.remove()
            self._retired.append(segment)
            removed = True
        if removed:
            self._dirty = [segment for segment in self._dirty if segment in self._segments]
            self._disk.sync_directory(self.directory)

    def _close_retired(self) -> None:
        """Close the files of removed segments, which stay open while a flush may use them."""
        for segment in self._retired:
            segment.file.close()
        self._retired.clear()
