"""Reads fields at many positions of a buffer at once: big-endian numbers, varints, uuids.

Functions map positions to arrays of the same length. All positions up to the end of the data are safe, because
MARGIN zero bytes follow: reads beyond the end of a record are detected afterwards by their end, not before each
read.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorumd.pipeline.scan.batches import Data

MARGIN: Final = 64

_ROOM: Final = 1 << 14
"""Space for appended bytes, usually a few texts."""

Positions: TypeAlias = npt.NDArray[np.int64]
Counts: TypeAlias = npt.NDArray[np.int32]
Mask: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint64]
"""Rows of little-endian 8-byte words."""

WIDE: Final = 0x80
"""The bit of a varint byte that marks a following byte."""


class Gather:
    """The bytes of a piece, viewed as values of any type at any position, and appended bytes."""

    def __init__(self, data: Data) -> None:
        # Appended bytes begin after a margin of zeros.
        self._used = len(data) + MARGIN
        self._hold(np.frombuffer(data, np.uint8), self._used + _ROOM)

    def _hold(self, content: npt.NDArray[np.uint8], size: int) -> None:
        self.bytes = np.empty(size + MARGIN, np.uint8)
        self.bytes[: len(content)] = content
        self.bytes[len(content) :] = 0
        self.uint16 = self._view("<u2")
        self.int32 = self._view(">i4")
        self.int64 = self._view(">i8")
        self.uuid = self._view("V16")

    def _view(self, kind: str) -> npt.NDArray[Any]:
        whole = np.dtype(kind)
        return np.ndarray((len(self.bytes) - whole.itemsize + 1,), whole, self.bytes.data, 0, (1,))

    def words(self, at: Positions, size: int) -> Words:
        """Return `size` bytes at each position as whole words; the last word may include following bytes."""
        count = -(-size // 8)
        words: Words = self._view(f"V{8 * count}")[at].view("<u8").reshape(-1, count)
        return words

    def append(self, content: bytes) -> int:
        """Append bytes and return their position."""
        place = self._used
        self._used += len(content)
        if self._used > len(self.bytes) - MARGIN:
            self._hold(self.bytes[:place], 2 * self._used)
        self.bytes[place : self._used] = np.frombuffer(content, np.uint8)
        return place

    def short_uvarint(self, at: Positions) -> tuple[Positions, Positions, Mask | None]:
        """Read unsigned varints of one or two bytes: values, ends, and a mask of longer varints, None if there are
        none."""
        first = self.bytes[at]
        if first.size == 0 or first.max() < WIDE:
            return first.astype(np.int64), at + 1, None
        value = first.astype(np.int64)
        wide = np.flatnonzero(first >= WIDE)
        second = self.bytes[at[wide] + 1]
        value[wide] += (second.astype(np.int64) << 7) - WIDE
        end = at + 1
        end[wide] += 1
        longer = second >= WIDE
        if not longer.any():
            return value, end, None
        is_longer = np.zeros(len(at), np.bool_)
        is_longer[wide[longer]] = True
        value[is_longer] = 0
        return value, end, is_longer

    def varint(self, at: Positions) -> tuple[Positions, Positions, Mask | None]:
        """Read zigzag varints of at most five bytes: values, ends, and a mask of longer varints, None if there are
        none."""
        first = self.bytes[at]
        if first.size == 0 or first.max() < WIDE:
            # All have one byte: byte arithmetic is fastest.
            return ((first >> 1) ^ -(first & 1)).view(np.int8).astype(np.int64), at + 1, None
        value = first.astype(np.int64)
        end = at + 1
        rows = np.flatnonzero(first >= WIDE)
        wide = value[rows] & (WIDE - 1)
        left, shift = np.arange(len(rows)), 7
        while len(left) and shift <= 28:
            byte = self.bytes[end[rows[left]]]
            wide[left] |= (byte & (WIDE - 1)).astype(np.int64) << shift
            end[rows[left]] += 1
            left = left[np.flatnonzero(byte >= WIDE)]
            shift += 7
        value[rows] = wide
        is_longer = None
        if len(left):
            is_longer = np.zeros(len(at), np.bool_)
            is_longer[rows[left]] = True
            value[rows[left]] = 0
        return (value >> 1) ^ -(value & 1), end, is_longer


def offsets_of(count: Counts) -> Counts:
    """Return the offsets of the cells in all elements."""
    offsets = np.zeros(len(count) + 1, np.int32)
    np.cumsum(np.maximum(count, 0), out=offsets[1:])
    return offsets


def joined(gather: Gather, start: Positions, size: Positions) -> npt.NDArray[np.uint8]:
    """Return the bytes of all slices, concatenated.

    Arrow copies them: the slices are every other string between alternating starts and ends.
    """
    end = start + size
    if (start[1:] < end[:-1]).any():
        # Not ascending: some were appended.
        order = np.argsort(start, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        start, end = start[order], end[order]
    else:
        rank = np.arange(len(start))
    bounds = np.zeros(2 * len(start) + 1, np.int32)
    bounds[0:-1:2] = start
    bounds[1::2] = end
    bounds[-1] = bounds[-2] if len(start) else 0
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(gather.bytes)]
    taken = pa.Array.from_buffers(pa.binary(), 2 * len(start), buffers).take(pa.array(2 * rank))
    values = taken.buffers()[2]
    return np.frombuffer(values, np.uint8) if values is not None else np.empty(0, np.uint8)


def rows_with(hits: Mask, offsets: Counts) -> Mask:
    """Return the cells with an element in `hits`."""
    found = np.zeros(len(offsets) - 1, np.bool_)
    # The cell of an element is the first one that ends after it.
    found[np.searchsorted(offsets[1:], np.flatnonzero(hits), side="right")] = True
    return found
