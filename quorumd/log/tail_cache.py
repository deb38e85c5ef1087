"""The last appended batches in memory, which are what followers normally fetch."""

from __future__ import annotations

from bisect import bisect_right

from quorumd.log.batch_extents import find_batch, whole_batches

DEFAULT_CAPACITY = 512 * 1024
"""In bytes."""


class TailCache:
    """The last appends, each a chunk. It grows to twice `capacity` bytes and is then reduced to `capacity`."""

    __slots__ = ("_base_offsets", "_bytes", "_capacity", "_chunks", "_end_offset")

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._base_offsets: list[int] = []
        self._chunks: list[bytes] = []
        self._bytes = 0
        self._end_offset = -1

    def append(self, base_offset: int, data: bytes, end_offset: int) -> None:
        """Add whole batches from `base_offset`, at which the previous append ended, to `end_offset`."""
        self._base_offsets.append(base_offset)
        self._chunks.append(data)
        self._end_offset = end_offset
        self._bytes += len(data)
        if self._bytes > 2 * self._capacity:
            self._shrink()

    def clear(self) -> None:
        """Remove everything; called when the log is truncated."""
        self._base_offsets.clear()
        self._chunks.clear()
        self._bytes = 0
        self._end_offset = -1

    def read(self, offset: int, limit: int, max_offset: int) -> bytes | None:
        """Like `SegmentedLog.read`; None if `offset` is not in the cache."""
        offsets = self._base_offsets
        index = bisect_right(offsets, offset) - 1
        if index < 0 or offset >= self._end_offset:
            return None
        data = self._chunks[index]
        start = 0 if offsets[index] == offset else find_batch(data, offset)
        if self._end_of(index) > max_offset or len(data) - start > limit:
            stop, _ = whole_batches(data, start, limit, max_offset)
            return data[start:stop]
        if index == len(offsets) - 1:
            return data[start:]
        parts = [data[start:]]
        room = limit - len(parts[0])
        for following in range(index + 1, len(offsets)):
            data = self._chunks[following]
            if len(data) > room or self._end_of(following) > max_offset:
                stop, _ = whole_batches(data, 0, room, max_offset)
                # `whole_batches` returns at least one batch even if it exceeds the limit; such a one is left out.
                if stop <= room:
                    parts.append(data[:stop])
                break
            parts.append(data)
            room -= len(data)
        return b"".join(parts)

    def _end_of(self, index: int) -> int:
        following = index + 1
        return self._base_offsets[following] if following < len(self._base_offsets) else self._end_offset

    def _shrink(self) -> None:
        surplus = self._bytes - self._capacity
        count = 0
        while surplus > 0:
            surplus -= len(self._chunks[count])
            count += 1
        self._bytes = self._capacity + surplus
        del self._base_offsets[:count]
        del self._chunks[:count]
