"""The segments of a data log in order, and the files to sync on the next flush."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from quorumd.broker.log.data_segment import DataSegment, StoredBatches
from quorumd.broker.log.producer_state import AbortedTransaction
from quorumd.ports import Disk, File


class SegmentList:
    """The segments of a log, of which the last one is active. Methods raise OSError.

    Empty only while a reset removes all segments with `remove_last`.
    """

    __slots__ = ("_base_offsets", "_directory", "_dirty", "_disk", "_retired", "all", "directory_is_dirty")

    def __init__(self, disk: Disk, directory: str, segments: list[DataSegment]) -> None:
        self._disk = disk
        self._directory = directory
        self.all = segments
        self._base_offsets = [segment.base_offset for segment in segments]
        self._dirty: list[DataSegment] = []
        self._retired: list[DataSegment] = []
        self.directory_is_dirty = False

    @property
    def active(self) -> DataSegment:
        """The segment to which batches are appended."""
        return self.all[-1]

    @property
    def size_bytes(self) -> int:
        """The total size of all segments."""
        return sum([segment.size for segment in self.all])

    def from_offset(self, offset: int) -> Sequence[DataSegment]:
        """The segment that contains `offset`, and all later segments."""
        return self.all[max(bisect_right(self._base_offsets, offset) - 1, 0) :]

    def find(self, offset: int, max_bytes: int, max_offset: int, at_least_one: bool) -> bytes | StoredBatches:
        """See `PartitionLog.find`."""
        for segment in self.from_offset(offset):
            found = segment.find(offset, max_bytes, max_offset, at_least_one)
            if found is not None:
                return found
        return b""

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap the offsets from `start` to `end`."""
        found: list[AbortedTransaction] = []
        for segment in self.from_offset(start):
            for entry in segment.aborted:
                if entry.last_offset >= start and entry.first_offset < end:
                    found.append(entry)
                if entry.last_stable_offset >= end:
                    return found
        return found

    def add(self, base_offset: int, index_interval_bytes: int) -> DataSegment:
        """Create the next active segment."""
        segment = DataSegment(self._disk, self._directory, base_offset, index_interval_bytes)
        self.all.append(segment)
        self._base_offsets.append(base_offset)
        self.directory_is_dirty = True
        return segment

    def relocate(self, directory: str) -> None:
        """Use the new path of the renamed directory."""
        self._directory = directory
        for segment in self.all:
            segment.relocate(directory)

    def mark_dirty(self, segment: DataSegment) -> None:
        """Record that a segment has an unflushed write."""
        if not self._dirty or self._dirty[-1] is not segment:
            self._dirty.append(segment)

    def take_dirty_files(self) -> list[tuple[str, File]]:
        """Return (path, file) of everything to sync, and mark it as clean."""
        files = [entry for segment in self._dirty for entry in segment.files()]
        self._dirty = []
        self.directory_is_dirty = False
        return files

    def without_index_files(self) -> list[DataSegment]:
        """The sealed segments whose index files the next flush writes."""
        return [segment for segment in self.all[:-1] if not segment.has_index_files]

    def remove_last(self) -> None:
        """Remove the last segment durably."""
        self._base_offsets.pop()
        self._retire(self.all.pop())

    def remove_first(self) -> int:
        """Remove the first segment durably; returns its size."""
        self._base_offsets.pop(0)
        segment = self.all.pop(0)
        self._retire(segment)
        return segment.size

    def _retire(self, segment: DataSegment) -> None:
        """Remove the files of a segment, but keep them open while a flush may use them."""
        self._dirty = [dirty for dirty in self._dirty if dirty is not segment]
        self._retired.append(segment)
        segment.remove()

    def replace(self, base_offset: int, end_offset: int, index_interval_bytes: int) -> int:
        """Load the compacted segment whose files have replaced the segments from `base_offset` to `end_offset`.

        Returns the bytes freed.
        """
        first = self._base_offsets.index(base_offset)
        last = bisect_right(self._base_offsets, end_offset - 1)
        replacement = DataSegment(self._disk, self._directory, base_offset, index_interval_bytes)
        replacement.load()
        replacement.end_offset = end_offset
        replaced = self.all[first:last]
        self.all[first:last] = [replacement]
        self._base_offsets[first:last] = [base_offset]
        self._dirty = [dirty for dirty in self._dirty if dirty not in replaced]
        self._retired += replaced
        return sum([segment.size for segment in replaced]) - replacement.size

    def close_retired(self) -> None:
        """Close the files of removed segments. Must not be called while a flush is running."""
        for segment in self._retired:
            segment.close()
        self._retired.clear()

    def close(self) -> None:
        """Close all files."""
        self.close_retired()
        for segment in self.all:
            segment.close()
