"""Moves replicas in rounds from overloaded brokers to brokers with room.

A round tries many replicas at once. Brokers for them are chosen among those that the racks allow, such that
together they use the available room; replicas that collide are tried again. Few rounds place nearly all.
"""

from __future__ import annotations

import numpy as np

from quorumd.pipeline.plan.arrays import Ints, mixed, sum_before, sum_of_row
from quorumd.pipeline.plan.placement import Placement

_STALLED = 6
"""Consecutive rounds without a move before giving up."""
_FARTHEST = 1 << 16
"""The limit of candidates per replica that a broker has to give up, tried in one round."""


def fill(placement: Placement, room: Ints, *, keep_spread: bool = True) -> None:
    """Add missing replicas, as far as `room` (per broker, reduced in place) and racks allow."""
    stalled = salt = 0
    while stalled < _STALLED:
        missing = placement.wanted > sum_of_row(placement.rows >= 0)
        partitions = np.flatnonzero(missing)
        if not len(partitions) or not room.any():
            return
        columns = np.argmin(placement.rows[partitions], axis=1)
        which, brokers = placement.accepted(partitions, columns, room, salt, keep_spread=keep_spread)
        placement.put(partitions[which], columns[which], brokers)
        np.subtract.at(room, brokers, placement.weights[partitions[which]])
        stalled = 0 if len(which) else stalled + 1
        salt += 2


def shed(placement: Placement, surplus: Ints, room: Ints, *, keep_spread: bool = True) -> None:
    """Move replicas from brokers with a surplus to brokers with room; both are reduced in place.

    Replicas of topics of which the broker has the most move first, heavy ones before light ones.
    """
    stalled = salt = 0
    while stalled < _STALLED and surplus.any() and room.any():
        waiting = _candidates(placement, surplus, salt)
        moved, reach = 0, 1
        while len(waiting[0]) and surplus.any() and room.any():
            tried, taken = _round(placement, waiting, surplus, room, salt, reach, keep_spread)
            # If few replicas can move, trying one candidate at a time would take as many rounds as a broker has
            # replicas.
            reach = min(2 * reach, _FARTHEST) if 2 * taken < tried else 1
            moved += taken
            salt += 2
        stalled = 0 if moved else stalled + 1


def _round(
    placement: Placement,
    waiting: list[Ints],
    surplus: Ints,
    room: Ints,
    salt: int,
    reach: int,
    keep_spread: bool,
) -> tuple[int, int]:
    """Try the first candidates of each broker, up to `reach` times its surplus, and remove them from `waiting`.

    Return the number of tried and of moved replicas.
    """
    partitions, columns, brokers = waiting
    weights = placement.weights[partitions]
    useful = weights <= surplus[brokers]
    running = np.cumsum(np.where(useful, weights, 0))
    starts = np.flatnonzero(np.r_[True, brokers[1:] != brokers[:-1]])
    before = np.repeat(
        running[starts] - np.where(useful, weights, 0)[starts], np.diff(np.r_[starts, len(brokers)])
    )
    tried = useful & (running - before <= surplus[brokers] * reach)
    keep = ~tried & useful
    if not tried.any():
        waiting[:] = [partitions[:0], columns[:0], brokers[:0]]
        return 0, 0
    chosen = np.flatnonzero(tried)
    _, first = np.unique(partitions[chosen], return_index=True)
    keep[np.delete(chosen, first)] = True
    chosen = chosen[np.sort(first)]
    going, at, source = partitions[chosen], columns[chosen], brokers[chosen]
    which, targets = placement.accepted(going, at, room, salt, keep_spread=keep_spread)
    within = sum_before(source[which], placement.weights[going[which]]) <= surplus[source[which]]
    which, targets = which[within], targets[within]
    placement.put(going[which], at[which], targets)
    moved = placement.weights[going[which]]
    np.subtract.at(surplus, source[which], moved)
    np.subtract.at(room, targets, moved)
    waiting[:] = [partitions[keep], columns[keep], brokers[keep]]
    return len(chosen), len(which)


def _candidates(placement: Placement, surplus: Ints, salt: int) -> list[Ints]:
    """Return the places of replicas on brokers with a surplus, and the broker of each, in order of preference."""
    rows = placement.rows
    wanted = np.r_[surplus > 0, False]
    partitions, columns = np.nonzero(wanted[rows])
    brokers = rows[partitions, columns].astype(np.int64)
    weights = placement.weights[partitions]
    if len(weights) and int(weights.max()) > int(weights.min()):
        order = np.lexsort((mixed(partitions, salt), -weights, brokers))
    else:
        here = placement.of_topic[placement.topics[partitions] * placement.brokers + brokers].astype(np.int64)
        scattered = (mixed(partitions * rows.shape[1] + columns, salt) >> np.uint64(40)).astype(np.int64)
        order = np.argsort((brokers << 40) | ((0xFFFF - np.minimum(here, 0xFFFF)) << 24) | scattered)
    return [partitions[order], columns[order], brokers[order]]
