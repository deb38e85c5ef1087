"""The segments of a data log in order, and which of them a flush has to sync."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from quorumd.broker.log.data_segment import DataSegment
from quorumd.broker.log.producer_state import AbortedTransaction
from quorumd.ports import Disk, File


class SegmentList:
    """At least one segment except during `remove_last`; the last one is active. Methods raise OSError."""

    __slots__ = ("_base_offsets", "_directory", "_dirty", "_disk", "_retired", "all", "folder_is_dirty")

    def __init__(self, disk: Disk, directory: str, segments: list[DataSegment]) -> None:
        self._disk = disk
        self._directory = directory
        self.all = segments
        self._base_offsets = [segment.base_offset for segment in segments]
        self._dirty: list[DataSegment] = []
        self._retired: list[DataSegment] = []
        self.folder_is_dirty = False

    @property
    def active(self) -> DataSegment:
        """The segment that is appended to."""
        return self.all[-1]

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return sum([segment.size for segment in self.all])

    def from_offset(self, offset: int) -> Sequence[DataSegment]:
        """The segment with `offset` and all later ones."""
        return self.all[max(bisect_right(self._base_offsets, offset) - 1, 0) :]

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in offsets from `start` to `end`."""
        found: list[AbortedTransaction] = []
        for segment in self.from_offset(start):
            for entry in segment.aborted:
                if entry.last_offset >= start and entry.first_offset < end:
                    found.append(entry)
                if entry.last_stable_offset >= end:
                    return found
        return found

    def add(self, base_offset: int, index_interval_bytes: int) -> DataSegment:
        """Create the next segment."""
        segment = DataSegment(self._disk, self._directory, base_offset, index_interval_bytes)
        self.all.append(segment)
        self._base_offsets.append(base_offset)
        self.folder_is_dirty = True
        return segment

    def relocate(self, directory: str) -> None:
        """The folder has another name."""
        self._directory = directory
        for segment in self.all:
            segment.relocate(directory)

    def mark_dirty(self, segment: DataSegment) -> None:
        """Note an unflushed write."""
        if not self._dirty or self._dirty[-1] is not segment:
            self._dirty.append(segment)

    def take_dirty_files(self) -> list[tuple[str, File]]:
        """(path, file) of everything to sync; from now on it counts as clean."""
        files = [entry for segment in self._dirty for entry in segment.files()]
        self._dirty = []
        self.folder_is_dirty = False
        return files

    def without_index_files(self) -> list[DataSegment]:
        """The sealed segments that a flush has to write indexes for."""
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
        """Remove a segment. Its files stay open while a flush may use them."""
        self._dirty = [dirty for dirty in self._dirty if dirty is not segment]
        self._retired.append(segment)
        segment.remove()

    def replace(self, base_offset: int, end_offset: int, index_interval_bytes: int) -> int:
        """Load a segment in place of those from `base_offset` up to `end_offset`, whose files it has replaced.

        Returns the number of bytes that are gone.
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
        """Close the files of removed segments, while no flush is running."""
        for segment in self._retired:
            segment.close()
        self._retired.clear()

    def close(self) -> None:
        """Close all files."""
        self.close_retired()
        for segment in self.all:
            segment.close()
