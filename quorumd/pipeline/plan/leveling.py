"""Evens out the loads of brokers whose replicas have different weights.

If there are few large replicas, no broker may have room for one within its band, although moving it would still leave
the fullest broker with less. Every step moves one replica, or exchanges two, such that the sum of the squared loads
decreases the most. Leveling ends when all brokers are within their bands, or no step decreases the sum.
"""

from __future__ import annotations

import numpy as np

from quorumd.pipeline.plan.arrays import NONE, Ints, Mask, any_in_row
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.targets import Bands

_STEPS = 2_000
_CELLS = 4_000_000
"""Pairs of replicas, or of replicas and brokers, to compare in a step; the heaviest replicas come first."""


def level(placement: Placement, within: Bands) -> None:
    """Change the placement in place, within the limits of racks and of topics."""
    alive = np.flatnonzero(placement.rack_of >= 0)
    steps = 0
    stuck: set[tuple[int, int]] = set()
    while steps < _STEPS:
        pair = _next_pair(placement.loads, alive, within, stuck)
        if pair is None:
            return
        if _move(placement, *pair) or _exchange(placement, *pair):
            stuck.clear()
            steps += 1
        else:
            stuck.add(pair)


def _next_pair(
    loads: Ints, alive: Ints, within: Bands, stuck: set[tuple[int, int]]
) -> tuple[int, int] | None:
    """Return the two brokers with the largest difference that are not stuck, if one is outside of its band."""
    over = np.maximum(loads - within.high, 0)
    under = np.maximum(within.low - loads, 0)
    if not over[alive].any() and not under[alive].any():
        return None
    ascending = alive[np.argsort(loads[alive], kind="stable")]
    best: tuple[int, int] | None = None
    widest = 1
    for giver in ascending[::-1].tolist():
        if loads[giver] - loads[ascending[0]] <= widest:
            break
        for taker in ascending.tolist():
            difference = int(loads[giver] - loads[taker])
            if difference <= widest:
                break
            if (over[giver] or under[taker]) and (giver, taker) not in stuck:
                best, widest = (giver, taker), difference
                break
    return best


def _held(placement: Placement, broker: int, other: int) -> tuple[Ints, Ints]:
    """Return the places of a broker's replicas whose partitions have none on the other broker, heaviest first."""
    rows, columns = np.nonzero(placement.rows == broker)
    free = ~any_in_row(placement.rows[rows] == other)
    rows, columns = rows[free], columns[free]
    order = np.argsort(-placement.weights[rows], kind="stable")
    return rows[order], columns[order]


def _may_take(placement: Placement, rows: Ints, columns: Ints, broker: int) -> Mask:
    """Return True for places whose replica the rack of the broker may take."""
    return np.asarray(placement.allowed_racks(rows, columns)[:, placement.rack_of[broker]])


def _move(placement: Placement, giver: int, taker: int) -> bool:
    """Move the replica whose weight is nearest to half of the difference between the brokers' loads."""
    rows, columns = _held(placement, giver, taker)
    topics = placement.topics[rows]
    has_room = placement.of_topic[topics * placement.brokers + taker] < placement.limits[topics]
    gains = _gains(placement, giver, taker, placement.weights[rows])
    fits = np.flatnonzero((gains > 0) & has_room & _may_take(placement, rows, columns, taker))
    if not len(fits):
        return False
    best = fits[[np.argmax(gains[fits])]]
    placement.put(rows[best], columns[best], np.array([taker]))
    return True


def _exchange(placement: Placement, giver: int, taker: int) -> bool:
    """Exchange the replicas whose difference in weight is nearest to half of the difference between the loads."""
    rows, columns = _held(placement, giver, taker)
    others, places = _held(placement, taker, giver)
    fits, theirs = _may_take(placement, rows, columns, taker), _may_take(placement, others, places, giver)
    most = int(_CELLS**0.5)
    rows, columns, others, places = (
        rows[fits][:most], columns[fits][:most], others[theirs][-most:], places[theirs][-most:],
    )  # fmt: skip
    if not len(rows) or not len(others):
        return False
    gains = _gains(placement, giver, taker, placement.weights[rows][:, None] - placement.weights[others])
    topics, of_others = placement.topics[rows][:, None], placement.topics[others]
    counts = placement.of_topic.reshape(-1, placement.brokers)
    full = (counts[topics, taker] >= placement.limits[topics]) | (
        counts[of_others, giver] >= placement.limits[of_others]
    )
    gains[full & (topics != of_others)] = 0
    best = int(np.argmax(gains))
    if gains.flat[best] <= 0:
        return False
    one, other = np.unravel_index(best, gains.shape)
    both = np.array([rows[one], others[other]])
    at = np.array([columns[one], places[other]])
    placement.put(both, at, np.full(2, NONE, np.int64))
    placement.put(both, at, np.array([taker, giver]))
    return True


def _gains(placement: Placement, giver: int, taker: int, weights: Ints) -> Ints:
    """Return half of the decrease of the sum of squared loads if these weights are moved."""
    return np.asarray(weights * (placement.loads[giver] - placement.loads[taker] - weights))
