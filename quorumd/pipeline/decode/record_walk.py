"""Where the records of many batches are, and what stands around their values.

Where a record ends is known from its length alone, so that the chain of records is walked first: in lock step, the
next record of every batch at once, and a batch at a time once few batches have records left. What stands in the
records is then read for all of them at once.

Anything unusual (a record longer than two bytes of length can say, compression, parts that do not add up) makes its
whole batch one for the node's own codec, see `plain`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from quorumd.pipeline.decode.gather import Gather, Mask, Positions
from quorumd.pipeline.decode.plain import LATEST_MS
from quorumd.pipeline.scan import Batches
from quorumd.protocol.record_batch import COMPRESSION_MASK, HEADER_SIZE

_SHORTEST_RECORD: Final = 7
_LONGEST: Final = 1 << 14
"""More than two bytes of length can say."""
_FEW_BATCHES: Final = 200
"""With fewer batches a step in lock step costs more than a loop over their records."""


class Records(NamedTuple):
    """Of each record, in order; positions are in the piece."""

    batch: Positions
    """Index of its batch."""
    offset: Positions
    timestamp_ms: Positions
    key: Positions
    key_size: Positions
    """Below 0 for null."""
    value: Positions
    end: Positions
    """Of the value."""


def walk(gather: Gather, data: bytes, batches: Batches) -> tuple[Records, Mask]:
    """The records of the batches that are as usual, and which batches those are."""
    usual = _may_be_usual(batches)
    indexes = np.flatnonzero(usual)
    starts = batches.position[indexes] + HEADER_SIZE
    ends = batches.position[indexes] + batches.size[indexes]
    counts = batches.count[indexes].astype(np.int64)
    begins, adds_up = _chain(gather, data, starts, ends, counts)
    owner = np.repeat(np.arange(len(indexes)), counts)
    stops = _stops(begins, ends, counts)
    if not adds_up.all():
        usual[indexes[~adds_up]] = False
        kept = adds_up[owner]
        begins, stops, owner = begins[kept], stops[kept], owner[kept]
    batch = indexes[owner]
    records, is_odd = _parts(gather, begins, stops, batch, batches)
    if is_odd.any():
        usual[batch[is_odd]] = False
        kept = usual[batch]
        records = Records(*(column[kept] for column in records))
    return records, usual


def _may_be_usual(batches: Batches) -> Mask:
    room = batches.size.astype(np.int64) - HEADER_SIZE
    is_usual: Mask = (
        (batches.attributes & COMPRESSION_MASK == 0)
        & (batches.count.astype(np.int64) * _SHORTEST_RECORD <= room)
        & (batches.count > 0)
        & (np.abs(batches.base_timestamp) <= LATEST_MS)
    )
    return is_usual


def _chain(
    gather: Gather, data: bytes, starts: Positions, ends: Positions, counts: Positions
) -> tuple[Positions, Mask]:
    """Where each record begins, and in which batches the last one ends where the batch does."""
    first = np.cumsum(counts) - counts
    begins = np.zeros(int(counts.sum()), np.int64)
    order = np.argsort(-counts, kind="stable")
    at, last, slot, descending = starts[order], ends[order], first[order], -counts[order]
    is_bad = np.zeros(len(order), np.bool_)
    step = 0
    while (alive := int(np.searchsorted(descending, -step))) > _FEW_BATCHES:
        begins[slot[:alive] + step] = at[:alive]
        length, body, longer = gather.short_uvarint(at[:alive])
        stop = body + (length >> 1)
        if longer is not None:
            is_bad[:alive] |= longer
        if (stop > last[:alive]).any():
            is_bad[:alive] |= stop > last[:alive]
            np.minimum(stop, last[:alive], out=stop)
        at[:alive] = stop
        step += 1
    for index in range(alive):
        place, count = int(slot[index]) + step, -int(descending[index]) - step
        found, at[index] = _chain_of_one(data, int(at[index]), count)
        begins[place : place + len(found)] = found
    adds_up = np.empty(len(order), np.bool_)
    adds_up[order] = (at == last) & ~is_bad
    return begins, adds_up


def _chain_of_one(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    """Where the next records of one batch begin, and where the last one ends; -1 if that cannot be told."""
    found = []
    try:
        for _ in range(count):
            found.append(at)
            byte = data[at]
            if byte < 0x80:
                at += 1 + (byte >> 1)
                continue
            second = data[at + 1]
            if second >= 0x80:
                return found, -1
            at += 2 + ((byte & 0x7F | second << 7) >> 1)
    except IndexError:
        return found, -1
    return found, at


def _stops(begins: Positions, ends: Positions, counts: Positions) -> Positions:
    """Where each record ends: where the next one begins, or its batch ends."""
    stops = np.empty_like(begins)
    stops[:-1] = begins[1:]
    stops[np.cumsum(counts) - 1] = ends
    return stops


def _parts(
    gather: Gather, begins: Positions, stops: Positions, batch: Positions, batches: Batches
) -> tuple[Records, Mask]:
    """What stands in the records, and which of them do not look like one."""
    length, body, _ = gather.short_uvarint(begins)
    timestamp_delta, at, longer_timestamp = gather.varint(body + 1)
    offset_delta, at, longer_offset = gather.varint(at)
    key_size, key, longer_key = gather.varint(at)
    if len(key_size) and key_size.max() > 0:
        key_end = np.minimum(key + np.clip(key_size, 0, _LONGEST), stops)
    else:
        key_end = key
    value_size, value, longer_value = gather.varint(key_end)
    end = value + value_size
    span = (batches.end_offset - batches.base_offset)[batch]
    # A null value is no metadata record: the codec says so. An odd length is a negative one.
    is_odd = (length & 1 != 0) | (length < 2 * (_SHORTEST_RECORD - 1)) | (value_size < 0) | (end + 1 != stops)
    is_odd |= (offset_delta < 0) | (offset_delta >= span)
    is_odd |= gather.bytes[np.clip(end, 0, stops)] != 0
    for longer in (longer_timestamp, longer_offset, longer_key, longer_value):
        if longer is not None:
            is_odd |= longer
    offset = batches.base_offset[batch] + offset_delta
    timestamp = batches.base_timestamp[batch] + timestamp_delta
    return Records(batch, offset, timestamp, key, key_size, value, end), is_odd
