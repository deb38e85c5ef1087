"""Where two copies of a log differ, to the batch.

Digests say which buckets differ; only those are read again. Copies may begin and end at different offsets: what only
one of them has is no difference. Raft promises that batches of the same offset and epoch are the same, and with them
all before (log matching, Raft paper 5.3).
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
"""The batches of a copy that begin in a bucket."""

_MOST_READ_OF_A_RUN: Final = 8
"""Of more buckets than that which differ one after the other, only the first and the last ones are read."""
_MOST_RUNS_READ: Final = 64
"""Where copies differ at more places than that, the later ones are told by the bucket."""
_NOT_THERE: Final = -1


class Difference(NamedTuple):
    """Offsets from `offset_lo` to below `offset_hi` at which two copies hold other batches."""

    offset_lo: int
    offset_hi: int
    epochs: tuple[int, int]
    """Of the batch that each of them has at `offset_lo`, -1 for none."""
    reaches_end: bool
    """They do not agree again before one of them ends."""

    def of_other(self) -> Difference:
        """The same from the other copy's point of view."""
        return self._replace(epochs=(self.epochs[1], self.epochs[0]))


def differences(one: Copy, two: Copy, reread: Reread) -> list[Difference]:
    """All of them, in order, those next to each other joined."""
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
    """Zeros for buckets in which it has no batch."""
    found = np.zeros((len(buckets), 3), np.int64)
    here = np.isin(buckets, copy.buckets)
    found[here] = copy.digests[np.searchsorted(copy.buckets, buckets[here])]
    return found


def _runs(buckets: npt.NDArray[np.int64]) -> list[list[int]]:
    """Buckets one after the other."""
    if not len(buckets):
        return []
    return [run.tolist() for run in np.split(buckets, np.flatnonzero(np.diff(buckets) != 1) + 1)]


def _of_bucket(one: Copy, two: Copy, bucket: int, start: int, end: int, reread: Reread) -> list[Difference]:
    ours, theirs = (_batches(reread(copy, bucket), start, end) for copy in (one, two))
    return [
        *(Difference(batch[0], batch[1], (batch[2], _NOT_THERE), False) for batch in ours - theirs),
        *(Difference(batch[0], batch[1], (_NOT_THERE, batch[2]), False) for batch in theirs - ours),
    ]


def _whole_bucket(bucket: int) -> Difference:
    return Difference(bucket << BUCKET_BITS, (bucket + 1) << BUCKET_BITS, (_NOT_THERE, _NOT_THERE), False)


def _batches(pieces: Iterable[Batches], start: int, end: int) -> set[tuple[int, ...]]:
    """What batches are compared by, of those that both copies reach: offsets, epoch, computed CRC and size."""
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
