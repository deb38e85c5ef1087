"""Divides the input into tasks: prunes files, splits large ones and packs small ones together.

All decisions are made from sizes, names and indexes. A file may be split at any byte: the second piece begins with
the first valid batch at or after it (`scan.read_pieces`), and the first piece ends before that batch. The rows
therefore do not depend on the splits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from struct import Struct

from quorumd.pipeline.copies.log_files import CopyDirectory, SegmentFile, SnapshotFile
from quorumd.pipeline.source.options import Interval, Selection

_INDEX_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qI")


@dataclass(frozen=True, slots=True)
class File:
    """A segment or a snapshot to read.

    `expected_offset` is the offset of its first batch. `next_offset` is the base offset of the next segment, where
    this one must end; None for the last one and for snapshots. Only the last segment may end within a batch, if the
    node was killed or is writing.
    """

    node: int
    path: str
    size: int
    expected_offset: int
    next_offset: int | None = None
    may_be_torn: bool = False
    snapshot: tuple[int, int] | None = None
    """End offset and epoch of a snapshot."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes [start, end) of a file."""

    file: File
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class OffsetIndex:
    """A segment's `.index`: the last offsets of some batches, ascending, and the positions of these batches."""

    last_offsets: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()

    def bounds(self, offsets: Interval, size: int) -> tuple[int, int]:
        """Return two positions of batches that enclose all batches with some of `offsets`.

        The first is the position of a batch with lower offsets, or 0; the second is the position of a batch with
        higher offsets, or `size`.
        """
        first = bisect_left(self.last_offsets, offsets.low) - 1
        last = bisect_left(self.last_offsets, offsets.high) + 1
        start = self.positions[first] if first >= 0 else 0
        return start, self.positions[last] if last < len(self.positions) else size


def files_of(directories: Iterable[CopyDirectory], level: str) -> list[File]:
    """Return the files that a level reads."""
    if level == "snapshot":
        return [_snapshot(snapshot) for directory in directories for snapshot in directory.snapshots]
    return [file for directory in directories for file in segments_of(directory.segments)]


def segments_of(segments: Sequence[SegmentFile]) -> list[File]:
    """Return the segments of one copy in order; a copy with only a snapshot has none."""
    ends = [segment.base_offset for segment in segments[1:]]
    return [
        File(segment.node, segment.path, segment.size, segment.base_offset, end, may_be_torn=end is None)
        for segment, end in zip_longest(segments, ends)
    ]


def _snapshot(snapshot: SnapshotFile) -> File:
    return File(
        snapshot.node, snapshot.path, snapshot.size, 0, snapshot=(snapshot.end_offset, snapshot.epoch)
    )


def may_hold(file: File, wanted: Selection, largest_timestamp: int | None) -> bool:
    """Return True if a file can hold requested data. `largest_timestamp` is None if unknown."""
    if not wanted.has_node(file.node) or wanted.offsets.is_empty or wanted.epochs.is_empty:
        return False
    if wanted.times.is_empty or (largest_timestamp is not None and largest_timestamp < wanted.times.low):
        return False
    if file.snapshot is not None:
        return True
    end = wanted.offsets.high if file.next_offset is None else file.next_offset
    return wanted.offsets.meets(file.expected_offset, end)


def read_index(data: bytes, base_offset: int, size: int) -> OffsetIndex:
    """Read the entries of an `.index` up to the first that is invalid for a segment of `size` bytes.

    Index files are preallocated: the zeros after the entries are invalid.
    """
    last_offsets: list[int] = []
    positions: list[int] = []
    for relative, position in _INDEX_ENTRY.iter_unpack(data[: len(data) // 8 * 8]):
        before = (last_offsets[-1] - base_offset, positions[-1]) if positions else (-1, 0)
        if not (before[0] < relative and before[1] < position < size):
            break
        last_offsets.append(base_offset + relative)
        positions.append(position)
    return OffsetIndex(tuple(last_offsets), tuple(positions))


def largest_timestamp(data: bytes, base_offset: int, next_offset: int | None) -> int | None:
    """Return the largest timestamp in the `.timeindex` of a closed segment; None if the index is invalid.

    Timestamps and offsets of entries ascend, so the last entry has the largest timestamp.
    """
    if next_offset is None or not data or len(data) % _TIME_ENTRY.size:
        return None
    entries = list(_TIME_ENTRY.iter_unpack(data))
    if (
        any(a >= c or b >= d for (a, b), (c, d) in pairwise(entries))
        or not base_offset <= base_offset + entries[-1][1] < next_offset
    ):
        return None
    return int(entries[-1][0])


def split(file: File, start: int, end: int, split_bytes: int) -> list[Piece]:
    """Split the bytes [start, end) into equal pieces of at most `split_bytes`."""
    count = max(1, -(-(end - start) // split_bytes))
    bounds = [start + (end - start) * i // count for i in range(count + 1)]
    return [Piece(file, a, b) for a, b in pairwise(bounds)]


def pack(pieces: Iterable[Piece], pack_bytes: int) -> list[tuple[Piece, ...]]:
    """Group pieces in order into tasks of at most `pack_bytes`; a larger piece is a task of its own."""
    tasks: list[tuple[Piece, ...]] = []
    together: list[Piece] = []
    size = 0
    for piece in pieces:
        if together and size + piece.size > pack_bytes:
            tasks.append(tuple(together))
            together, size = [], 0
        together.append(piece)
        size += piece.size
    if together:
        tasks.append(tuple(together))
    return tasks


def offset_ranges(start: int, end: int, tasks: int, least: int) -> list[tuple[int, int]]:
    """Divide the offsets [start, end) into at most `tasks` ranges of at least `least`."""
    count = max(1, min(tasks, (end - start) // least))
    bounds = [start + (end - start) * i // count for i in range(count + 1)]
    return [(a, b) for a, b in pairwise(bounds) if a < b]
