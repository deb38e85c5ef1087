"""Releases replicas that cannot stay: on drained brokers, or too many in a rack or in total."""

from __future__ import annotations

import numpy as np

from quorumd.pipeline.plan.arrays import NONE, Ints, Mask, any_in_row, sum_of_row
from quorumd.pipeline.plan.choices import balanced_choice
from quorumd.pipeline.plan.placement import Placement

_BLOCK = 65_536


def release(placement: Placement, targets: Ints) -> None:
    """Remove replicas that cannot stay; given a choice, from brokers above their target."""
    waiting = np.arange(len(placement.rows))
    while len(waiting):
        options = np.full((len(waiting), placement.rows.shape[1]), NONE, np.int32)
        for start in range(0, len(waiting), _BLOCK):
            part = waiting[start : start + _BLOCK]
            options[start : start + _BLOCK] = np.where(_surplus(placement, part), placement.rows[part], NONE)
        some = any_in_row(options >= 0)
        waiting, options = waiting[some], options[some]
        if not len(waiting):
            return
        surplus = np.maximum(placement.loads - targets, 0)
        typical = max(int(placement.weights[waiting].mean()), 1)
        fullest = np.argmax(np.where(options >= 0, (placement.loads - targets)[options], -(1 << 62)), axis=1)
        columns = balanced_choice(options, fullest.astype(np.int64), -(-surplus // typical))
        placement.put(waiting, columns, np.full(len(waiting), NONE, np.int64))


def _surplus(placement: Placement, partitions: Ints) -> Mask:
    """Return a mask of the replicas of each partition of which one has to move: (partitions, columns)."""
    rows = placement.rows[partitions]
    here = rows >= 0
    counts = placement.rack_counts(partitions)
    wanted = placement.wanted[partitions]
    fewest, most = placement.rules.fewest[wanted], placement.rules.most[wanted]
    crowded: Mask = np.asarray(counts > most)
    missing = sum_of_row(np.maximum(fewest - counts, 0))
    too_many_partitions = wanted - sum_of_row(here) < missing
    some_crowded = np.asarray(any_in_row(crowded))
    source = np.where(some_crowded[:, None], crowded, too_many_partitions[:, None] & (counts > fewest))
    racks = np.where(here, placement.rack_of[rows], 0)
    return np.asarray(here & np.take_along_axis(source, racks, axis=1))
