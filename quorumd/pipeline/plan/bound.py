"""Lower bounds of the number of moves, from the state, the rules and the bands alone.

`lower_bound` is fast, and exact for most states: it considers the limits of brokers, racks and partitions
separately. `priced_bound` considers them together, by prices of places on brokers; with the prices of an optimal
plan it equals the number of its moves.
"""

from __future__ import annotations

import numpy as np

from quorumd.pipeline.plan.arrays import Ints, sum_of_row
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.targets import Bands

_BLOCK = 65_536
_BLOCK_CELLS = 2_000_000
"""Cells of a matrix of partitions and rack places per step."""
_FAR = 1 << 30


def lower_bound(placement: Placement, within: Bands) -> int:
    """Return the bound in units of the weights.

    `placement` is the state before the plan, without replicas on removed brokers.
    """
    racks = placement.racks
    here = placement.rack_of >= 0
    rack_of = placement.rack_of[here]

    def by_rack(values: Ints) -> Ints:
        return np.asarray(np.bincount(rack_of, values[here].astype(np.float64), racks)).astype(np.int64)

    loads = placement.loads
    may_stay, must_come, crowded, lacking = _of_partitions(placement)
    fewest = np.maximum(by_rack(within.low), within.rack_low)
    kept = np.minimum(np.minimum(by_rack(np.minimum(loads, within.high)), may_stay), within.rack_high)
    # A rack receives what its brokers lack, or what it lacks itself.
    enter = np.maximum(by_rack(np.maximum(within.low - loads, 0)), np.maximum(fewest - kept, lacking))
    # The replacement of a surplus replica of a rack does not enter that rack.
    instead = np.max(np.maximum(fewest - may_stay, 0) + crowded, initial=0)
    return int(max(within.total - int(kept.sum()), int(enter.sum()), must_come, int(instead)))


def _of_partitions(placement: Placement) -> tuple[Ints, int, Ints, Ints]:
    """Return the weights of replicas that may stay in each rack, of all missing replicas, of missing replicas that
    cannot enter each rack, and of replicas that must enter each rack."""
    may_stay = np.zeros(placement.racks, np.int64)
    crowded = np.zeros(placement.racks, np.int64)
    must_enter = np.zeros(placement.racks, np.int64)
    must_come = 0
    for start in range(0, len(placement.rows), _BLOCK):
        part = np.arange(start, min(start + _BLOCK, len(placement.rows)))
        counts = placement.rack_counts(part)
        wanted, weights = placement.wanted[part], placement.weights[part]
        fewest, most = placement.rules.fewest[wanted], placement.rules.most[wanted]
        stay = np.minimum(counts, most)
        lacking = np.maximum(fewest - counts, 0)
        come = wanted - np.minimum(sum_of_row(stay), wanted - sum_of_row(lacking))
        may_stay += (stay * weights[:, None]).sum(0)
        must_enter += (lacking * weights[:, None]).sum(0)
        must_come += int((come * weights).sum())
        crowded += (np.minimum(np.maximum(counts - most, 0), come[:, None]) * weights[:, None]).sum(0)
    return may_stay, must_come, crowded, must_enter


def priced_bound(placement: Placement, within: Bands, prices: Ints) -> int:
    """Return a lower bound for given prices of a place on each broker; every price gives a valid bound.

    Each partition takes its cheapest places, where a copy costs 1 more. Payments for places up to a broker's upper
    limit and down to its lower limit are subtracted; the rest are copies (the Lagrangian dual).
    """
    paid = 0
    block = max(1, _BLOCK_CELLS // max(placement.rows.shape[1] * placement.racks, 1))
    for start in range(0, len(placement.rows), block):
        part = np.arange(start, min(start + block, len(placement.rows)))
        paid += int((_cheapest_places(placement, prices, part) * placement.weights[part]).sum())
    alive = placement.rack_of >= 0
    return paid - int(np.maximum(prices * within.low, prices * within.high)[alive].sum())


def _cheapest_places(placement: Placement, prices: Ints, part: Ints) -> Ints:
    """Return the cost of each partition: the required places in each rack, then the cheapest of the other places."""
    rows, wanted = placement.rows[part], placement.wanted[part]
    fewest, most = placement.rules.fewest[wanted], placement.rules.most[wanted]
    deepest = int(most.max(initial=0))
    costs = np.full((len(part), placement.racks, deepest), _FAR, np.int64)
    for rack in range(placement.racks):
        brokers = np.flatnonzero(placement.rack_of == rack)
        # Take as many others as allowed, even if the cheapest have a replica already.
        brokers = brokers[np.argsort(prices[brokers], kind="stable")][: deepest + rows.shape[1]]
        here = (rows >= 0) & (placement.rack_of[rows] == rack)
        stay = np.where(here, prices[rows], _FAR)
        taken = (rows[:, :, None] == brokers).any(1)
        options = np.sort(np.c_[stay, np.where(taken, _FAR, prices[brokers] + 1)], axis=1)[:, :deepest]
        costs[:, rack, : options.shape[1]] = options
    depth = np.arange(deepest)
    due = np.where(depth < fewest[:, :, None], costs, 0).sum((1, 2))
    optional = (depth >= fewest[:, :, None]) & (depth < most[:, :, None])
    others = np.sort(np.where(optional, costs, _FAR).reshape(len(part), -1), axis=1)
    chosen = np.arange(others.shape[1]) < (wanted - sum_of_row(fewest))[:, None]
    return np.asarray(due + np.where(chosen, others, 0).sum(1))
