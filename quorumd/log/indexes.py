"""Sparse indexes of one segment, kept in memory and written in the format of Kafka's `.index` and `.timeindex`.

    .index      8 bytes per entry: last offset of a batch (u32), file position of that batch (u32)
    .timeindex  12 bytes per entry: largest timestamp so far in Unix ms (i64), last offset of its batch (u32)

Offsets are relative to the segment's base offset. There is an entry for the first batch after every `interval` bytes,
and a final time entry for the largest timestamp. The metadata log writes the files for other readers of the directory
and builds its indexes from the batches; a broker's log loads those of its sealed segments.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

_TIME_ENTRY = Struct(">qI")
NO_TIMESTAMP = -1
_MAX_RELATIVE_OFFSET = 2**31 - 1
"""The largest relative offset that Kafka accepts in an entry (int32). quorumd rolls a segment before it is
exceeded."""


class SegmentIndexes:
    """The indexes of one segment: offset -> position, and timestamp -> offset. Positions are bytes in its file."""

    __slots__ = (
        "_base_offset",
        "_interval",
        "_largest",
        "_last_offsets",
        "_positions",
        "_time_offsets",
        "_timestamps",
        "_unindexed",
    )

    def __init__(self, base_offset: int, interval: int) -> None:
        self._base_offset = base_offset
        self._interval = interval
        self._last_offsets = array("I")
        self._positions = array("I")
        self._timestamps = array("q")
        self._time_offsets = array("I")
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
            if self._largest[0] > self._last_time_entry[0]:
                self._timestamps.append(self._largest[0])
                self._time_offsets.append(self._largest[1])
            self._unindexed = 0
        self._unindexed += size

    def position_before(self, offset: int) -> int:
        """Position of a batch that contains `offset`, or that precedes it by at most about `interval` bytes."""
        index = bisect_right(self._last_offsets, offset - self._base_offset) - 1
        return self._positions[index] if index >= 0 else 0

    @property
    def largest_timestamp_offset(self) -> int:
        """Last offset of the first batch with the largest timestamp; the base offset if there is none."""
        return self._base_offset + self._largest[1]

    @property
    def last_position(self) -> int:
        """Position of the last indexed batch, 0 if there is none."""
        return self._positions[-1] if self._positions else 0

    def boundary(self, position: int, max_offset: int) -> int:
        """The last position of an indexed batch, at or before `position`, such that all batches before it end at or
        below `max_offset`; 0 if there is none."""
        index = min(
            bisect_right(self._positions, position),
            bisect_left(self._last_offsets, max(max_offset - self._base_offset, 0)),
        )
        return self._positions[index - 1] if index > 0 else 0

    def position_before_timestamp(self, timestamp_ms: int) -> int:
        """Position at or before the first batch with a record of `timestamp_ms` or later."""
        index = bisect_right(self._timestamps, timestamp_ms) - 1
        return self.position_before(self._base_offset + self._time_offsets[index]) if index >= 0 else 0

    def update_largest_timestamp(self, last_offset: int, timestamp_ms: int) -> None:
        """Take account of the largest timestamp of a batch without indexing the batch."""
        if timestamp_ms > self._largest[0]:
            self._largest = (timestamp_ms, last_offset - self._base_offset)

    def load(self, offset_index: bytes, time_index: bytes, size: int) -> bool:
        """Replace the content with that of the files of a segment with `size` bytes of batches.

        Returns False, with the indexes unchanged, if the files cannot be those of such a segment.
        """
        if len(offset_index) % 8 or len(time_index) % 12:
            return False
        entries = _words(offset_index)
        last_offsets, positions = entries[0::2], entries[1::2]
        entries = _words(time_index)
        timestamps, time_offsets = _longs(entries[0::3], entries[1::3]), entries[2::3]
        ascending = all(map(_is_ascending, (last_offsets, positions, timestamps)))
        if not ascending or (positions and not 0 < positions[0] <= positions[-1] < size):
            return False
        if not positions and not timestamps and size > 0:
            return False
        self._last_offsets, self._positions = last_offsets, positions
        self._timestamps, self._time_offsets = timestamps, time_offsets
        self._largest = self._last_time_entry
        self._unindexed = size - self.last_position
        return True

    def truncate(self, end_offset: int, position: int) -> None:
        """Remove the batches from `end_offset` on, the first of which is at `position`.

        The largest timestamp falls back to the last indexed one.
        """
        keep = bisect_right(self._last_offsets, end_offset - 1 - self._base_offset)
        del self._last_offsets[keep:]
        del self._positions[keep:]
        while self._time_offsets and self._time_offsets[-1] >= end_offset - self._base_offset:
            self._timestamps.pop()
            self._time_offsets.pop()
        self._largest = self._last_time_entry
        self._unindexed = position - (self._positions[-1] if keep else 0)

    def offset_index(self) -> bytes:
        """The content of the `.index` file."""
        entries = array("I", bytes(8 * len(self._positions)))
        entries[0::2] = self._last_offsets
        entries[1::2] = self._positions
        return _swapped(entries).tobytes()

    def time_index(self) -> bytes:
        """The content of the `.timeindex` file."""
        is_little = sys.byteorder == "little"
        halves = array("I", self._timestamps.tobytes())
        entries = array("I", bytes(12 * len(self._timestamps)))
        entries[0::3] = halves[is_little::2]
        entries[1::3] = halves[not is_little :: 2]
        entries[2::3] = self._time_offsets
        content = _swapped(entries).tobytes()
        if self._largest[0] > self._last_time_entry[0]:
            content += _TIME_ENTRY.pack(*self._largest)
        return content

    @property
    def _last_time_entry(self) -> tuple[int, int]:
        if not self._timestamps:
            return NO_TIMESTAMP, 0
        return self._timestamps[-1], self._time_offsets[-1]


def _words(content: bytes) -> array[int]:
    """Big-endian 32-bit words."""
    return _swapped(array("I", content))


def _swapped(words: array[int]) -> array[int]:
    """Convert words between the byte order of this machine and big-endian order, in place."""
    if sys.byteorder == "little":
        words.byteswap()
    return words


def _longs(high: array[int], low: array[int]) -> array[int]:
    """64-bit numbers from their halves."""
    words = array("I", bytes(8 * len(high)))
    is_little = sys.byteorder == "little"
    words[0::2] = low if is_little else high
    words[1::2] = high if is_little else low
    return array("q", words.tobytes())


def _is_ascending(values: array[int]) -> bool:
    items = values.tolist()
    return items == sorted(items)
