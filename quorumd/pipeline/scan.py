"""Batches in a piece of a file, as arrays: where they are, what their headers say, whether their CRCs hold.

A piece is whatever was read of a segment or a snapshot, or fetched from a node, beginning where a batch begins;
after damage, `resync` finds the next place where one does. Batches have no mark of their own, so that a place counts
as one only if magic, length and CRC say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at a place of a file.

    Codes: BAD_CRC, BAD_HEADER (magic, counts or offsets that no batch has), BROKEN_CHAIN (no batch where one should
    begin, one is found later), TORN_TAIL (none is found later), GAP, OVERLAP and EPOCH_REGRESSION (between batches),
    BAD_RECORD (records that cannot be told apart, or whose fields cannot be read).
    """

    code: str
    position: int
    """Of the batch, in bytes of the file."""
    offset: int
    """Of the record, or the base offset that is expected there; -1 where that is not known."""
    text: str
    size: int = 0
    """Bytes that cannot be read because of it."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Whole batches of a piece, one element each of every array, in their order."""

    position: npt.NDArray[np.int64]
    """In the piece, in bytes."""
    size: npt.NDArray[np.int32]
    base_offset: npt.NDArray[np.int64]
    end_offset: npt.NDArray[np.int64]
    epoch: npt.NDArray[np.int32]
    attributes: npt.NDArray[np.int16]
    base_timestamp: npt.NDArray[np.int64]
    max_timestamp: npt.NDArray[np.int64]
    count: npt.NDArray[np.int32]
    stored_crc: npt.NDArray[np.uint32]
    crc: npt.NDArray[np.uint32]
    """Computed over the bytes that are there."""

    def __len__(self) -> int:
        return len(self.position)
