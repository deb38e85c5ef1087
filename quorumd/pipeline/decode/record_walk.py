"""Finds the positions of the records of many batches, and the shape of each record.

The end of a record follows from its length alone. The chain of records is therefore walked first: in lock step,
the next record of every batch at once, and batch by batch when few batches have records left. Then records are
grouped by size, and within a size by shape.

A batch with anything unusual (a record whose length takes more than two bytes, compression, offsets that do not
count up, sizes that do not add up) is decoded by the node's own codec, see `plain`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from quorumd.pipeline.decode.gather import WIDE, Gather, Mask, Positions, Words
from quorumd.pipeline.decode.plain import LATEST_MS
from quorumd.pipeline.decode.shapes import LONGEST, ODD_BATCH, Reads, Shape, shape_of
from quorumd.pipeline.scan.batches import Batches
from quorumd.protocol.batch_header import COMPRESSION_MASK, CONTROL_BIT, HEADER_SIZE

_MIN_RECORD_BYTES: Final = 7
_LATEST_BASE: Final = LATEST_MS - (1 << 35)
"""Timestamps up to this fit the column with any delta that is read here."""
_FEW_BATCHES: Final = 60
"""With fewer batches, a step in lock step costs more than a loop over their records."""


class Records(NamedTuple):
    """Columns of records, in order; positions are relative to the piece."""

    batch: Positions
    """The index of its batch."""
    number: Positions
    """Its number in the batch, which is its offset delta."""
    begin: Positions
    size: Positions
    shape: Positions
    """The index of its shape."""

    def select(self, which: Mask) -> Records:
        return Records(*(column[which] for column in self))


class Walked(NamedTuple):
    """The records of regular batches."""

    records: Records
    shapes: list[Shape]
    rows: list[Positions]
    """The records of each shape, ascending."""
    usual: Mask


def walk(gather: Gather, data: bytes, batches: Batches) -> Walked:
    """Walk all batches; irregular ones are left out. Never raises for malformed bytes."""
    usual = _may_be_usual(batches)
    indexes = np.flatnonzero(usual)
    starts = batches.position[indexes] + HEADER_SIZE
    ends = batches.position[indexes] + batches.size[indexes]
    counts = batches.count[indexes].astype(np.int64)
    first = np.cumsum(counts) - counts
    begins, adds_up = _chain(gather, data, starts, ends, first, counts)
    usual[indexes[~adds_up]] = False
    sizes = _sizes(begins, ends, first + counts - 1)
    records = Records(
        np.repeat(indexes, counts),
        np.arange(len(begins)) - np.repeat(first, counts),
        begins,
        sizes,
        np.zeros(len(begins), np.int64),
    )
    if not adds_up.all():
        records = records.select(usual[records.batch])
    found = _shapes(gather, data, records.begin, records.size)
    records, rows = records._replace(shape=found.shape), found.rows
    odd = _is_out_of_place(gather, records, found.shapes)
    if odd.any():
        usual[records.batch[odd]] = False
        records = records.select(usual[records.batch])
        order = np.argsort(records.shape, kind="stable")
        counts = np.bincount(records.shape, minlength=len(found.shapes))
        rows = np.split(order, np.cumsum(counts)[:-1])
    return Walked(records, found.shapes, rows, usual)


def _may_be_usual(batches: Batches) -> Mask:
    room = batches.size.astype(np.int64) - HEADER_SIZE
    is_usual: Mask = (
        (batches.attributes & (COMPRESSION_MASK | CONTROL_BIT) == 0)
        & (batches.count.astype(np.int64) * _MIN_RECORD_BYTES <= room)
        & (batches.count > 0)
        & (batches.count == batches.end_offset - batches.base_offset)
        & (batches.base_timestamp >= -_LATEST_BASE)
        & (batches.base_timestamp <= _LATEST_BASE)
    )
    return is_usual


def _steps() -> npt.NDArray[np.int32]:
    """Return record lengths by the first two bytes, little-endian; 0 if two bytes are not enough."""
    first, second = np.arange(1 << 16) & 0xFF, np.arange(1 << 16) >> 8
    is_wide = first >= WIDE
    length = np.where(is_wide, first - WIDE + (second << 7), first)
    size = (length >> 1) + 1 + is_wide
    # An odd zigzag value is negative.
    size[(length & 1 == 1) | (length < 2 * (_MIN_RECORD_BYTES - 1)) | (is_wide & (second >= WIDE))] = 0
    return size.astype(np.int32)


_STEPS: Final = _steps()


def _chain(
    gather: Gather, data: bytes, starts: Positions, ends: Positions, first: Positions, counts: Positions
) -> tuple[Positions, Mask]:
    """Return the start of each record, and the batches whose last record ends where the batch ends."""
    begins = np.zeros(int(counts.sum()), np.int64)
    order = np.argsort(-counts, kind="stable")
    at, slot, descending = starts[order], first[order], -counts[order]
    # A chain that leaves its batch stays beyond the end of the batch, where no regular chain ends.
    limit = ends[order] + 1
    step = 0
    while (alive := int(np.searchsorted(descending, -step))) > _FEW_BATCHES:
        live = at[:alive]
        begins[slot[:alive]] = live
        live += _STEPS.take(gather.uint16[live])
        np.minimum(live, limit[:alive], out=live)
        slot += 1
        step += 1
    for index in range(alive):
        place, count = int(slot[index]), -int(descending[index]) - step
        found, at[index] = _chain_of_one(data, int(at[index]), count)
        begins[place : place + len(found)] = found
    ended = np.empty_like(at)
    ended[order] = at
    # A chain may reach the end of its batch before the last record.
    return begins, (ended == ends) & (begins[first + counts - 1] < ends)


def _chain_of_one(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    """Return the starts of the next records of one batch and the end of the last one; -1 if it cannot be
    determined."""
    found = []
    try:
        for _ in range(count):
            found.append(at)
            byte = data[at]
            if byte < WIDE:
                at += 1 + (byte >> 1)
                continue
            second = data[at + 1]
            if second >= WIDE:
                return found, -1
            at += 2 + ((byte - WIDE + (second << 7)) >> 1)
    except IndexError:
        return found, -1
    return found, at


def _sizes(begins: Positions, ends: Positions, last: Positions) -> Positions:
    """Return record sizes: up to the next record or the end of the batch."""
    stops = np.empty_like(begins)
    stops[:-1] = begins[1:]
    stops[last] = ends
    stops -= begins
    return stops


def _shapes(gather: Gather, data: bytes, begins: Positions, sizes: Positions) -> _Found:
    """Find the shape of each record."""
    found = _Found(len(begins))
    short = np.minimum(sizes, LONGEST + 1).astype(np.uint16)
    order = np.argsort(short, kind="stable")
    counts = np.bincount(short)
    stops = np.cumsum(counts)
    for size in np.flatnonzero(counts[: LONGEST + 1]).tolist():
        rows = order[stops[size] - counts[size] : stops[size]]
        starts = begins[rows]
        words = gather.words(starts, size)
        while len(rows) and found.rounds_left:
            start = int(starts[0])
            shape = shape_of(data[start : start + size])
            left = np.flatnonzero(~found.note(shape, rows, words))
            rows, starts, words = rows[left], starts[left], words[left]
    return found


class _Found:
    """The shapes found so far; the first one is ODD_BATCH."""

    def __init__(self, records: int) -> None:
        self.shape = np.zeros(records, np.int64)
        self.shapes = [ODD_BATCH]
        self.rows = [np.empty(0, np.int64)]
        self.rounds_left = 64 + records // 16
        """The number of shapes still to find: if hardly any two records are alike, the search does not pay off."""

    def note(self, shape: Shape, rows: Positions, words: Words) -> Mask:
        """Add a shape; return the mask of the records that have it."""
        self.rounds_left -= 1
        fits = shape.are_of(words)
        usual = fits
        if shape.for_codec is not None:
            odd = fits & shape.has_odd_content(words)
            if odd.any():
                self._add(shape.for_codec, rows[odd])
                usual = fits & ~odd
        self._add(shape, rows if usual.all() else rows[usual])
        return fits

    def _add(self, shape: Shape, rows: Positions) -> None:
        self.shape[rows] = len(self.shapes)
        self.shapes.append(shape)
        self.rows.append(rows)


def _is_out_of_place(gather: Gather, records: Records, shapes: list[Shape]) -> Mask:
    """Return the records whose position or offset delta is inconsistent."""
    is_odd = np.array([shape.reads is Reads.CODEC_BY_BATCH for shape in shapes])[records.shape]
    at = records.begin + np.array([shape.offset for shape in shapes])[records.shape]
    delta, _, longer = gather.varint(at)
    is_odd |= delta != records.number
    if longer is not None:
        is_odd |= longer
    return is_odd
