"""Finds the starts of batches by following their lengths.

Each length leads to the next batch, which takes 0.25 us per batch in Python: negligible for large batches, but
most of the time if each batch is one record. Small batches are therefore walked in lock step from some hundred
equal parts of the piece. Each walk begins at the first position of its part that looks like a batch, and ends
where the next walk began. If it arrives exactly there, the walks are joined; otherwise that start was wrong and
its walk is discarded.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from quorumd.pipeline.scan.search import (
    LARGEST_BATCH,
    LARGEST_LENGTH,
    LEAST_LENGTH,
    LENGTH_AND_MAGIC,
    LENGTH_END,
    MAGIC_AT,
    PRODUCER,
    PRODUCER_SIZE,
)
from quorumd.protocol.batch_header import HEADER_SIZE, MAGIC

Positions: TypeAlias = npt.NDArray[np.int64]

_SAMPLE: Final = 32
"""The number of batches from which the size of the following ones is estimated."""
_LARGEST_SMALL: Final = 512
"""In bytes. For larger batches, searching for starts takes as long as walking."""
_STEPS: Final = 48
"""The usual number of steps of a walk. With fewer steps, more starts are needed; with more, a step has fewer
walks."""
_LOOK: Final = 4
"""The length of the beginning of a part that is searched for a start, in mean batch sizes."""
_LEAST_WALKS: Final = 24
"""With fewer walks, a step costs more than it saves."""


def chain(view: memoryview, at: int, size: int, most: int) -> Positions:
    """Return the starts of the complete batches from `at`, up to `most` of them, and the end of the last one."""
    walked = _walk(view, at, size, size, min(most, _SAMPLE))
    parts, end, count = [np.array(walked, np.int64)], walked[-1], len(walked)
    if count > _SAMPLE:
        mean = (end - at) // _SAMPLE
        starts = _starts(view, end, min(size, end + most * mean), mean)
        for run in _runs(view, starts, size) if len(starts) else ():
            start = int(run[0])
            if end < start:
                walked = _walk(view, end, size, start, most)
                parts.append(np.array(walked[1:], np.int64))
                end = walked[-1]
            if end == start:
                parts.append(run[1:])
                end = int(run[-1])
        count = sum(map(len, parts))
    parts.append(np.array(_walk(view, end, size, size, most + 1 - count)[1:], np.int64))
    return np.concatenate(parts)[: most + 1]


def _walk(view: memoryview, at: int, size: int, stop: int, most: int) -> list[int]:
    """Return bounds as `chain` does, batch by batch, without batches that begin at or after `stop`."""
    bounds = [at]
    stop = min(stop, size - HEADER_SIZE + 1)
    while at < stop and len(bounds) <= most:
        length, magic = LENGTH_AND_MAGIC(view, at)
        if magic != MAGIC or not LEAST_LENGTH <= length <= LARGEST_LENGTH:
            break
        at += length + LENGTH_END
        if at > size:
            break
        bounds.append(at)
    return bounds


def _starts(view: memoryview, at: int, end: int, mean: int) -> Positions:
    """Return starts of walks for batches of this mean size; empty if there are too few batches."""
    stride, width = mean * _STEPS, mean * _LOOK
    parts = (end - at) // stride
    if mean > _LARGEST_SMALL or parts < _LEAST_WALKS:
        return np.empty(0, np.int64)
    bytes_of = np.ndarray((parts, width + HEADER_SIZE), np.uint8, view, at, (stride, 1))
    last = PRODUCER + PRODUCER_SIZE - 1
    marked = bytes_of[:, MAGIC_AT : MAGIC_AT + width] == MAGIC
    marked &= bytes_of[:, PRODUCER : PRODUCER + width] == 0xFF
    marked &= bytes_of[:, last : last + width] == 0xFF
    part = np.arange(parts)
    first = marked.argmax(axis=1)
    starts: Positions = (at + part * stride + first)[marked[part, first]]
    return starts


def _runs(view: memoryview, starts: Positions, size: int) -> list[Positions]:
    """Return bounds as `chain` does, for the starts that no previous walk has reached, in order."""
    begins, ends = _walks(view, starts, size)
    if not len(begins):
        return []
    magic = np.frombuffer(view, np.int8)[begins + MAGIC_AT]
    are_batches = (magic == MAGIC) & (ends - begins <= LARGEST_BATCH)
    leads_on = are_batches[:-1] & (ends[:-1] == begins[1:])
    cuts = np.flatnonzero(~leads_on) + 1
    return [
        np.append(begins[first:last], ends[last - 1] if are_batches[last - 1] else ())
        for first, last in pairwise([0, *cuts.tolist(), len(begins)])
    ]


def _walks(view: memoryview, starts: Positions, size: int) -> tuple[Positions, Positions]:
    """Walk from each start to the next one; return the start and end of each batch."""
    lengths = np.ndarray((size - HEADER_SIZE + 1,), "<i4", view, LENGTH_END - 4, (1,))
    stops = np.append(starts[1:], len(lengths))
    at = starts
    steps = [at]
    # Walks that are much longer than the others are stopped.
    for _ in range(2 * _STEPS):
        length = lengths[at].byteswap()
        ends = at + (length + np.int64(LENGTH_END))
        continues = (at < stops) & (length >= LEAST_LENGTH) & (ends < len(lengths))
        if np.count_nonzero(continues) < _LEAST_WALKS:
            break
        at = np.where(continues, ends, at)
        steps.append(at)
    ways = np.array(steps).T
    # A walk stays at its end.
    moved = ways[:, :-1] != ways[:, 1:]
    return ways[:, :-1][moved], ways[:, 1:][moved]
