"""Fields at many places of a buffer at once: big-endian numbers, varints, uuids.

Every function takes positions and gives arrays of the same length. Positions up to the end of the data are safe, and
MARGIN bytes behind it are zeros: what reaches over the end of its record is noticed by where it ends, not before
every read.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from quorumd.pipeline.scan import Data

MARGIN: Final = 64

Positions: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_WIDE: Final = 0x80
"""The bit of a varint's byte that says that another one follows."""


class Gather:
    """The bytes of a piece, seen as the beginning of any type at any place."""

    def __init__(self, data: Data, extra: bytes = b"") -> None:
        """`extra` follows on the data; `len` is that of both."""
        self.size = len(data) + len(extra)
        self.bytes = np.zeros(self.size + MARGIN, np.uint8)
        self.bytes[: len(data)] = np.frombuffer(data, np.uint8)
        if extra:
            self.bytes[len(data) : self.size] = np.frombuffer(extra, np.uint8)
        self.int32 = self._view(">i4")
        self.int64 = self._view(">i8")
        self.uuid = self._view("V16")

    def _view(self, kind: str) -> npt.NDArray[Any]:
        whole = np.dtype(kind)
        return np.ndarray((len(self.bytes) - whole.itemsize + 1,), whole, self.bytes.data, 0, (1,))

    def short_uvarint(self, at: Positions) -> tuple[Positions, Positions, Mask | None]:
        """Unsigned varints of one or two bytes, where they end, and which ones are longer (None: not one)."""
        first = self.bytes[at]
        if first.size == 0 or first.max() < _WIDE:
            return first.astype(np.int64), at + 1, None
        value = first.astype(np.int64)
        wide = np.flatnonzero(first >= _WIDE)
        second = self.bytes[at[wide] + 1]
        value[wide] += (second.astype(np.int64) << 7) - _WIDE
        end = at + 1
        end[wide] += 1
        longer = second >= _WIDE
        if not longer.any():
            return value, end, None
        is_longer = np.zeros(len(at), np.bool_)
        is_longer[wide[longer]] = True
        value[is_longer] = 0
        return value, end, is_longer

    def varint(self, at: Positions) -> tuple[Positions, Positions, Mask | None]:
        """Zigzag varints of at most five bytes, where they end, and which ones are longer (None: not one)."""
        first = self.bytes[at]
        value = first.astype(np.int64)
        end = at + 1
        is_longer = None
        if first.size and first.max() >= _WIDE:
            rows = np.flatnonzero(first >= _WIDE)
            value[rows] &= _WIDE - 1
            for shift in (7, 14, 21, 28):
                byte = self.bytes[end[rows]]
                value[rows] |= (byte & (_WIDE - 1)).astype(np.int64) << shift
                end[rows] += 1
                rows = rows[byte >= _WIDE]
                if not len(rows):
                    break
            if len(rows):
                is_longer = np.zeros(len(at), np.bool_)
                is_longer[rows] = True
                value[rows] = 0
        return (value >> 1) ^ -(value & 1), end, is_longer
