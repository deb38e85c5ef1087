"""Fields at many places of a buffer at once: big-endian numbers, varints, uuids.

Positions go in, arrays of the same length come out. Positions up to the end of the data are safe, and
MARGIN bytes behind it are zeros: what reaches over the end of its record is noticed by where it ends, not before
every read.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorumd.pipeline.scan.batches import Data

MARGIN: Final = 64

_ROOM: Final = 1 << 14
"""For what is appended: a few texts, as a rule."""

Positions: TypeAlias = npt.NDArray[np.int64]
Counts: TypeAlias = npt.NDArray[np.int32]
Mask: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint64]
"""Rows of little-endian words of eight bytes."""

WIDE: Final = 0x80
"""The bit of a varint's byte that says that another one follows."""


class Gather:
    """The bytes of a piece, seen as the beginning of any type at any place, and what is appended to them."""

    def __init__(self, data: Data) -> None:
        # What is appended begins behind a margin: the one behind the data stays zeros.
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
        """So many bytes at each place, as whole words: the last one may have others behind them."""
        count = -(-size // 8)
        words: Words = self._view(f"V{8 * count}")[at].view("<u8").reshape(-1, count)
        return words

    def append(self, content: bytes) -> int:
        """Put bytes behind the piece; gives their place."""
        place = self._used
        self._used += len(content)
        if self._used > len(self.bytes) - MARGIN:
            self._hold(self.bytes[:place], 2 * self._used)
        self.bytes[place : self._used] = np.frombuffer(content, np.uint8)
        return place

    def short_uvarint(self, at: Positions) -> tuple[Positions, Positions, Mask | None]:
        """Unsigned varints of one or two bytes, where they end, and which ones are longer (None: not one)."""
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
        """Zigzag varints of at most five bytes, where they end, and which ones are longer (None: not one)."""
        first = self.bytes[at]
        if first.size == 0 or first.max() < WIDE:
            # One byte each: the arithmetic of bytes is the quickest.
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
    """Where the elements of each cell begin among those of all."""
    offsets = np.zeros(len(count) + 1, np.int32)
    np.cumsum(np.maximum(count, 0), out=offsets[1:])
    return offsets


def joined(gather: Gather, start: Positions, size: Positions) -> npt.NDArray[np.uint8]:
    """The bytes of slices, of so many bytes each, one after another.

    Arrow copies them: they are every other one of the strings between the beginnings and ends of the slices.
    """
    end = start + size
    if (start[1:] < end[:-1]).any():
        # Not in their order: some were appended.
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
    """Which cells have an element that is a hit."""
    found = np.zeros(len(offsets) - 1, np.bool_)
    # The cell of an element is the first one that ends behind it.
    found[np.searchsorted(offsets[1:], np.flatnonzero(hits), side="right")] = True
    return found
