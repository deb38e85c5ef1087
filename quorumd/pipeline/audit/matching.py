"""Finds the batches in which two copies of a log differ.

Digests identify the buckets that differ; only those are read again. Copies may begin and end at different offsets:
offsets that only one of them has do not count. By log matching (Raft paper 5.3), batches with the same offset and
epoch are equal, and so are all batches before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from quorumd.pipeline.audit.copies import Copy
from quorumd.pipeline.scan.batches import Batches
from quorumd.pipeline.scan.digests import BUCKET_BITS

Reread: TypeAlias = Callable[[Copy, int], Iterable[Batches]]
"""Returns the batches of a copy that begin in a bucket."""

_MOST_READ_OF_A_RUN: Final = 8
"""In a longer run of differing buckets, only the first and the last one are read."""
_MOST_RUNS_READ: Final = 64
"""After this number of runs, differences are reported per bucket."""
_NO_EPOCH: Final = -1


class Difference(NamedTuple):
    """Offsets [offset_lo, offset_hi) at which two copies hold different batches."""

    offset_lo: int
    offset_hi: int
    epochs: tuple[int, int]
    """The epochs of the two batches at `offset_lo`; -1 if there is none."""
    reaches_end: bool
    """True if the copies differ up to the end of the shorter one."""

    def of_other(self) -> Difference:
        """Return the difference with the copies exchanged."""
        return self._replace(epochs=(self.epochs[1], self.epochs[0]))


def differences(one: Copy, two: Copy, reread: Reread) -> list[Difference]:
    """Return the differences of two copies in order; adjacent ones are merged."""
    start = max(one.start_offset, two.start_offset)
    end = min(one.end_offset, two.end_offset)
    if start >= end:
        return []
    found: list[Difference] = []
    for number, run in enumerate(_runs(_different_buckets(one, two, start, end))):
        read = run if len(run) <= _MOST_READ_OF_A_RUN else [run[0], run[-1]]
        if number >= _MOST_RUNS_READ:
            read = []
        for bucket in read:
            found += _of_bucket(one, two, bucket, start, end, reread)
        found += (_whole_bucket(bucket) for bucket in run if bucket not in read)
    return _joined(found, end)


def _different_buckets(one: Copy, two: Copy, start: int, end: int) -> npt.NDArray[np.int64]:
    buckets = np.union1d(one.buckets, two.buckets)
    buckets = buckets[(buckets >= start >> BUCKET_BITS) & (buckets <= (end - 1) >> BUCKET_BITS)]
    differ: npt.NDArray[np.bool_] = (_digests_of(one, buckets) != _digests_of(two, buckets)).any(axis=1)
    different: npt.NDArray[np.int64] = buckets[differ]
    return different


def _digests_of(copy: Copy, buckets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the digests of these buckets; zeros for buckets without a batch."""
    found = np.zeros((len(buckets), 3), np.int64)
    here = np.isin(buckets, copy.buckets)
    found[here] = copy.digests[np.searchsorted(copy.buckets, buckets[here])]
    return found


def _runs(buckets: npt.NDArray[np.int64]) -> list[list[int]]:
    """Group consecutive bucket numbers."""
    if not len(buckets):
        return []
    return [run.tolist() for run in np.split(buckets, np.flatnonzero(np.diff(buckets) != 1) + 1)]


def _of_bucket(one: Copy, two: Copy, bucket: int, start: int, end: int, reread: Reread) -> list[Difference]:
    ours, theirs = (_batches(reread(copy, bucket), start, end) for copy in (one, two))
    return [
        *(Difference(batch[0], batch[1], (batch[2], _NO_EPOCH), False) for batch in ours - theirs),
        *(Difference(batch[0], batch[1], (_NO_EPOCH, batch[2]), False) for batch in theirs - ours),
    ]


def _whole_bucket(bucket: int) -> Difference:
    return Difference(bucket << BUCKET_BITS, (bucket + 1) << BUCKET_BITS, (_NO_EPOCH, _NO_EPOCH), False)


def _batches(pieces: Iterable[Batches], start: int, end: int) -> set[tuple[int, ...]]:
    """Return offsets, epoch, computed CRC and size of the batches that begin in [start, end)."""
    found: set[tuple[int, ...]] = set()
    for piece in pieces:
        columns = (piece.base_offset, piece.end_offset, piece.epoch, piece.crc, piece.size)
        found.update(zip(*(column.tolist() for column in columns), strict=True))
    return {batch for batch in found if start <= batch[0] < end}


def _joined(found: Iterable[Difference], end: int) -> list[Difference]:
    joined: list[Difference] = []
    for each in sorted(found):
        if not joined or each.offset_lo > joined[-1].offset_hi:
            joined.append(each)
            continue
        before = joined[-1]
        epochs = before.epochs
        if each.offset_lo == before.offset_lo:
            epochs = max(epochs[0], each.epochs[0]), max(epochs[1], each.epochs[1])
        joined[-1] = before._replace(offset_hi=max(before.offset_hi, each.offset_hi), epochs=epochs)
    return [
        each._replace(offset_hi=min(each.offset_hi, end), reaches_end=each.offset_hi >= end)
        for each in joined
    ]
