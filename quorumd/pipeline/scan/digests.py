"""Summarizes a segment, or a part of it, as a few rows of schemas.AUDIT, whatever its size.

Copies of a log are compared by digests of 65,536 offsets each: the XOR of a hash of each batch that begins there.
Batches can be added in any order, and segments of different copies need not begin at the same offsets. Two
independent hashes give 128 bits. They detect damage, but do not protect against forged batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from quorumd.pipeline.tables import schemas
from quorumd.protocol.batch_header import CONTROL_BIT

if TYPE_CHECKING:
    import pyarrow as pa

    from quorumd.pipeline.scan.batches import Batches, Fault

BUCKET_BITS: Final = 16
BUCKET, EPOCH_START, CONTROL, SEGMENT = "BUCKET", "EPOCH_START", "CONTROL", "SEGMENT"

_FACTORS: Final = (
    (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD),
    (0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3, 0x1D8E4E27C47D124F),
)
_MIXERS: Final = (
    (30, 0xBF58476D1CE4E5B9, 27, 0x94D049BB133111EB, 31),
    (32, 0xD6E8FEB86659FD93, 29, 0xAEF17502108EF2D9, 32),
)


def batch_hashes(batches: Batches, which: int) -> npt.NDArray[np.uint64]:
    """Hash the offsets, epoch, computed CRC and size of each batch, with hash function 0 or 1."""
    parts: list[npt.NDArray[np.integer]] = [
        batches.base_offset,
        batches.end_offset,
        batches.epoch,
        batches.crc,
        batches.size,
    ]
    mixed = np.zeros(len(batches), np.uint64)
    for part, factor in zip(parts, _FACTORS[which], strict=True):
        mixed += part.astype(np.uint64) * np.uint64(factor)
    first, times, second, times_again, third = _MIXERS[which]
    mixed ^= mixed >> np.uint64(first)
    mixed *= np.uint64(times)
    mixed ^= mixed >> np.uint64(second)
    mixed *= np.uint64(times_again)
    return mixed ^ (mixed >> np.uint64(third))


class SegmentDigests:
    """Accumulates the pieces of a segment, or of a part that begins at byte `position`, in order.

    `base_offset` is the expected first offset of the part, -1 if unknown.
    """

    def __init__(self, node: int, segment: str, base_offset: int = -1, position: int = 0) -> None:
        self._place = (node, segment)
        self._position = position
        self._offset_lo = self._offset_hi = max(base_offset, 0)
        self._epochs = (-1, -1)
        self._counts = [0, 0, 0]
        self._is_empty = True
        self._buckets: dict[int, list[int]] = {}
        self._marks: list[tuple[str, int, int, int, int, int]] = []
        self._last_epoch = -1
        self._faults: list[tuple[Fault, int, int]] = []

    def add(self, batches: Batches, position: int, faults: Sequence[Fault] = ()) -> None:
        """Add the batches and faults of a piece at byte `position` of the file."""
        for fault in faults:
            self._faults.append((fault, *self._span_of(fault, batches, position)))
        if not len(batches):
            return
        self._add_epochs(batches, position)
        self._add_buckets(batches, position)
        if self._is_empty:
            self._offset_lo = int(batches.base_offset[0])
            self._is_empty = False
        self._offset_hi = int(batches.end_offset[-1])
        counted = (
            len(batches),
            int(batches.count.sum(dtype=np.int64)),
            int(batches.size.sum(dtype=np.int64)),
        )
        self._counts = [before + more for before, more in zip(self._counts, counted, strict=True)]

    def _span_of(self, fault: Fault, batches: Batches, position: int) -> tuple[int, int]:
        """Return the offsets affected by a fault: up to the next batch, or to its own end."""
        at = int(np.searchsorted(batches.position, fault.position - position))
        start = fault.offset
        if start < 0:
            # After damage, use the end offset of the previous batch, the best estimate available.
            start = int(batches.end_offset[at - 1]) if at else self._offset_hi
        if at == len(batches):
            return start, start
        is_gap = fault.code in ("GAP", "BROKEN_CHAIN")
        end = int(batches.base_offset[at] if is_gap else batches.end_offset[at])
        return start, max(end, start)

    def _add_epochs(self, batches: Batches, position: int) -> None:
        epochs = batches.epoch
        starts = np.flatnonzero(epochs[1:] != epochs[:-1]) + 1
        if self._is_empty or epochs[0] != self._last_epoch:
            starts = np.concatenate(([0], starts))
        self._mark(EPOCH_START, batches, starts, position)
        self._mark(CONTROL, batches, np.flatnonzero(batches.attributes & CONTROL_BIT), position)
        least, most = int(epochs.min()), int(epochs.max())
        self._epochs = (
            (least, most) if self._is_empty else (min(least, self._epochs[0]), max(most, self._epochs[1]))
        )
        self._last_epoch = int(epochs[-1])

    def _mark(self, kind: str, batches: Batches, which: npt.NDArray[np.int64], position: int) -> None:
        for at in which.tolist():
            span = int(batches.base_offset[at]), int(batches.end_offset[at])
            place = position + int(batches.position[at]), int(batches.size[at])
            self._marks.append((kind, *span, *place, int(batches.epoch[at])))

    def _add_buckets(self, batches: Batches, position: int) -> None:
        """Add runs of batches of the same bucket with numpy; a piece has few such runs."""
        buckets = batches.base_offset >> BUCKET_BITS
        starts = np.concatenate(([0], np.flatnonzero(buckets[1:] != buckets[:-1]) + 1))
        ends = np.append(starts[1:], len(batches))
        sums = zip(
            buckets[starts].tolist(),
            (ends - starts).tolist(),
            np.add.reduceat(batches.count, starts, dtype=np.int64).tolist(),
            np.add.reduceat(batches.size, starts, dtype=np.int64).tolist(),
            *(np.bitwise_xor.reduceat(batch_hashes(batches, which), starts).tolist() for which in (0, 1)),
            np.minimum.reduceat(batches.epoch, starts).tolist(),
            np.maximum.reduceat(batches.epoch, starts).tolist(),
            np.minimum.reduceat(batches.base_offset, starts).tolist(),
            np.maximum.reduceat(batches.end_offset, starts).tolist(),
            (batches.position[starts] + position).tolist(),
            strict=True,
        )
        for bucket, count, records, size, digest1, digest2, epoch_lo, epoch_hi, lo, hi, first in sums:
            row = self._buckets.get(bucket)
            if row is None:
                self._buckets[bucket] = [
                    lo,
                    hi,
                    first,
                    count,
                    records,
                    size,
                    digest1,
                    digest2,
                    epoch_lo,
                    epoch_hi,
                ]
                continue
            row[0], row[1] = min(row[0], lo), max(row[1], hi)
            row[3] += count
            row[4] += records
            row[5] += size
            row[6] ^= digest1
            row[7] ^= digest2
            row[8], row[9] = min(row[8], epoch_lo), max(row[9], epoch_hi)

    def rows(self) -> list[tuple[object, ...]]:
        """Return rows of schemas.AUDIT, the SEGMENT row first."""
        epochs = (None, None) if self._is_empty else self._epochs
        spans = self._offset_lo, self._offset_hi
        found: list[tuple[object, ...]] = [
            (*self._place, SEGMENT, None, *spans, self._position, *self._counts, None, None, *epochs, None)
        ]
        for fault, start, end in self._faults:
            row = (*self._place, fault.code, None, start, end, fault.position, None, None, fault.size)
            found.append((*row, None, None, None, None, fault.text))
        for kind, lo, hi, position, size, epoch in self._marks:
            row = (*self._place, kind, None, lo, hi, position, None, None, size)
            found.append((*row, None, None, epoch, epoch, None))
        for bucket, (*counted, digest1, digest2, least, most) in self._buckets.items():
            digests = _signed(digest1), _signed(digest2)
            found.append((*self._place, BUCKET, bucket, *counted, *digests, least, most, None))
        return found

    def arrow(self) -> pa.RecordBatch:
        """Return the rows as an Arrow batch."""
        import pyarrow as pa

        schema = schemas.AUDIT.arrow()
        columns = list(zip(*self.rows(), strict=True))
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
            schema=schema,
        )


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
