"""Sparse indexes of one segment, kept in memory and written in the format of Kafka's `.index` and `.timeindex`.

    .index      8 bytes per entry: last offset of a batch (u32), file position of that batch (u32)
    .timeindex  12 bytes per entry: largest timestamp so far in Unix ms (i64), last offset of its batch (u32)

Offsets are relative to the segment's base offset. There is an entry for the first batch after every `interval` bytes,
and a final time entry. The files are for other readers of the folder; the indexes here are always built from the
batches.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from struct import Struct

_TIME_ENTRY = Struct(">qI")
NO_TIMESTAMP = -1
_MAX_RELATIVE_OFFSET = 2**31 - 1
"""The largest offset that fits an entry. quorumd rolls a segment before that."""


class SegmentIndexes:
    """Offset -> position and timestamp -> offset, sparse. Positions are bytes from the segment's start."""

    __slots__ = (
        "_base_offset",
        "_interval",
        "_largest",
        "_last_offsets",
        "_positions",
        "_times",
        "_unindexed",
    )

    def __init__(self, base_offset: int, interval: int) -> None:
        self._base_offset = base_offset
        self._interval = interval
        self._last_offsets = array("I")
        self._positions = array("I")
        self._times: list[tuple[int, int]] = []
        self._largest = (NO_TIMESTAMP, 0)
        self._unindexed = 0

    @property
    def largest_timestamp_ms(self) -> int:
        """Largest timestamp of all batches, NO_TIMESTAMP if there is none."""
        return self._largest[0]

    def add(self, last_offset: int, position: int, size: int, timestamp_ms: int) -> None:
        """Add the next batch of the segment. `timestamp_ms` is the largest of its records."""
        relative = last_offset - self._base_offset
        if relative > _MAX_RELATIVE_OFFSET:
            return
        if timestamp_ms > self._largest[0]:
            self._largest = (timestamp_ms, relative)
        if self._unindexed > self._interval:
            self._last_offsets.append(relative)
            self._positions.append(position)
            if self._largest[0] > (self._times[-1][0] if self._times else NO_TIMESTAMP):
                self._times.append(self._largest)
            self._unindexed = 0
        self._unindexed += size

    def position_before(self, offset: int) -> int:
        """Position of a batch that contains `offset` or precedes it by at most about `interval` bytes."""
        index = bisect_right(self._last_offsets, offset - self._base_offset) - 1
        return self._positions[index] if index >= 0 else 0

    def truncate(self, end_offset: int, position: int) -> None:
        """Remove the batches from `end_offset` on, which is at `position`.

        The largest timestamp falls back to the last indexed one.
        """
        keep = bisect_right(self._last_offsets, end_offset - 1 - self._base_offset)
        del self._last_offsets[keep:]
        del self._positions[keep:]
        while self._times and self._times[-1][1] >= end_offset - self._base_offset:
            self._times.pop()
        self._largest = self._times[-1] if self._times else (NO_TIMESTAMP, 0)
        self._unindexed = position - (self._positions[-1] if keep else 0)

    def offset_index(self) -> bytes:
        """The content of the `.index` file."""
        entries = array("I", bytes(8 * len(self._positions)))
        entries[0::2] = self._last_offsets
        entries[1::2] = self._positions
        if sys.byteorder == "little":
            entries.byteswap()
        return entries.tobytes()

    def time_index(self) -> bytes:
        """The content of the `.timeindex` file."""
        entries = self._times
        if self._largest[0] > (entries[-1][0] if entries else NO_TIMESTAMP):
            entries = [*entries, self._largest]
        return b"".join([_TIME_ENTRY.pack(*entry) for entry in entries])
