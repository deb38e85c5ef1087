"""Numbers of moves that no plan can do with less, from the state, the rules and the bands alone.

`lower_bound` is quick, and exact for most states: what stays where it is cannot be more than what each broker, rack
and partition may keep, one limit at a time. `priced_bound` heeds them together, by what places on brokers are worth;
with the prices of a plan that has the fewest moves it is that number.
"""

from __future__ import annotations

import numpy as np

from quorumd.pipeline.plan.arrays import Ints
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.targets import Bands

_BLOCK = 65_536
_BLOCK_CELLS = 2_000_000
"""Of a matrix of partitions and places in racks at a time."""
_FAR = 1 << 30


def lower_bound(placement: Placement, within: Bands) -> int:
    """In the unit of the weights. `placement` is what is there before the plan, without what is on brokers that
    leave."""
    racks = placement.racks
    here = placement.rack_of >= 0
    rack_of = placement.rack_of[here]

    def by_rack(values: Ints) -> Ints:
        return np.asarray(np.bincount(rack_of, values[here].astype(np.float64), racks)).astype(np.int64)

    loads = placement.loads
    may_stay, must_come, crowded, lacking = _of_partitions(placement)
    fewest = np.maximum(by_rack(within.low), within.rack_low)
    kept = np.minimum(np.minimum(by_rack(np.minimum(loads, within.high)), may_stay), within.rack_high)
    # A rack gets what its brokers lack, or what it lacks itself.
    enter = np.maximum(by_rack(np.maximum(within.low - loads, 0)), np.maximum(fewest - kept, lacking))
    # What replaces a replica that its rack has too many of does not enter that rack.
    instead = np.max(np.maximum(fewest - may_stay, 0) + crowded, initial=0)
    return int(max(within.total - int(kept.sum()), int(enter.sum()), must_come, int(instead)))


def _of_partitions(placement: Placement) -> tuple[Ints, int, Ints, Ints]:
    """What may stay in each rack, what all partitions together must get, what of that cannot enter each rack, and
    what has to enter it."""
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
        come = wanted - np.minimum(stay.sum(1), wanted - lacking.sum(1))
        may_stay += (stay * weights[:, None]).sum(0)
        must_enter += (lacking * weights[:, None]).sum(0)
        must_come += int((come * weights).sum())
        crowded += (np.minimum(np.maximum(counts - most, 0), come[:, None]) * weights[:, None]).sum(0)
    return may_stay, must_come, crowded, must_enter


def priced_bound(placement: Placement, within: Bands, prices: Ints) -> int:
    """As `lower_bound`, from a price of a place on each broker: whatever the prices, no plan can do with less.

    Each partition takes the places that cost it least, a copy costing 1 more. What they pay is not for more places on
    a broker than it may have, nor for fewer than it must: the rest is for copies (the Lagrangian dual).
    """
    paid = 0
    block = max(1, _BLOCK_CELLS // max(placement.rows.shape[1] * placement.racks, 1))
    for start in range(0, len(placement.rows), block):
        part = np.arange(start, min(start + block, len(placement.rows)))
        paid += int((_cheapest_places(placement, prices, part) * placement.weights[part]).sum())
    alive = placement.rack_of >= 0
    return paid - int(np.maximum(prices * within.low, prices * within.high)[alive].sum())


def _cheapest_places(placement: Placement, prices: Ints, part: Ints) -> Ints:
    """What each of these partitions pays, heeding racks: the fewest places in each, then the cheapest of all."""
    rows, wanted = placement.rows[part], placement.wanted[part]
    fewest, most = placement.rules.fewest[wanted], placement.rules.most[wanted]
    deepest = int(most.max(initial=0))
    costs = np.full((len(part), placement.racks, deepest), _FAR, np.int64)
    for rack in range(placement.racks):
        brokers = np.flatnonzero(placement.rack_of == rack)
        # As many others as it may take, even if the cheapest have a replica already.
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
    chosen = np.arange(others.shape[1]) < (wanted - fewest.sum(1))[:, None]
    return np.asarray(due + np.where(chosen, others, 0).sum(1))
