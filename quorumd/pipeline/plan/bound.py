"""A number of moves that no plan can do with less, from the state and the rules alone.

What stays where it is cannot be more than what each broker, rack and partition may keep; all the rest has to be
copied. Each such limit gives a bound, the largest of them counts. How a plan is made plays no part in it.
"""

from __future__ import annotations

import numpy as np

from quorumd.pipeline.plan.arrays import Ints
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.targets import Bands

_BLOCK = 65_536


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
