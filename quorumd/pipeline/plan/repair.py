"""Places the last few replicas, one at a time, along detours if necessary.

A broker above its band gives a replica to one that may take more. If none of its replicas can go there, it uses a
chain of brokers, each of which passes on one of its replicas: preferably one that costs no additional move,
because it moves anyway or returns to a broker that its partition was moved from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from quorumd.pipeline.plan.arrays import NONE, Floats, Ints, Mask, Rows, any_in_row, not_in, sum_of_row
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.targets import Bands

_STEPS = 5_000
_LONGEST = 4
"""The maximum number of brokers in a chain."""
_ATTEMPTS = 1_000
_WORK = 2_000_000
"""The limit of attempts times examined replicas: saving one move in a thousand is not worth minutes."""
_SAMPLE = 200_000
"""The number of unmoved replicas that chains may use."""


class Hop(NamedTuple):
    """One replica, by partition and column, and its new broker."""

    partition: int
    column: int
    target: int


class Repair:
    """Brings brokers into their bands, as far as racks allow. All partitions must have all their replicas."""

    def __init__(self, placement: Placement, original: Rows, within: Bands) -> None:
        self._placement = placement
        self._original = original
        self._within = within

    def fill(self) -> None:
        """Add missing replicas if that takes no more moves than replicas."""
        rows = self._placement.rows
        lacking = self._placement.wanted - sum_of_row(rows >= 0)
        for partition in np.repeat(np.arange(len(rows)), lacking):
            held = (np.array([partition]), np.argmin(rows[[partition]], axis=1))
            chain = self._chain({NONE: held}, self._able_to_take(), only_moved=True)
            self._apply(chain)

    def fill_anyhow(self) -> None:
        """Add missing replicas wherever racks allow, regardless of the load of brokers."""
        placement = self._placement
        lacking = placement.wanted - sum_of_row(placement.rows >= 0)
        alive = placement.rack_of >= 0
        for partition in np.repeat(np.arange(len(placement.rows)), lacking):
            places = np.array([partition]), np.argmin(placement.rows[[partition]], axis=1)
            usable = alive & placement.allowed_racks(*places)[0, placement.rack_of]
            usable[placement.rows[partition][placement.rows[partition] >= 0]] = False
            target = _ordered(self._within.share - placement.loads, usable)[0]
            self._apply([Hop(int(partition), int(places[1][0]), target)])

    def run(self) -> None:
        """Repair until all brokers are within their bands, or no chain helps."""
        hopeless: set[int] = set()
        for _ in range(_STEPS):
            over, under = self._outside(hopeless)
            if not over and not under:
                return
            if over and under and self._pass(over, under, (True,)):
                continue
            if over:
                done = self._pass(over[:1], self._able_to_take(), (True, False))
                broker = over[0]
            else:
                done = self._pass(self._able_to_give(), under[:1], (True, False))
                broker = under[0]
            if not done:
                hopeless.add(broker)

    def save_moves(self, bound: int) -> None:
        """Undo moves while there are more than `bound`, if other replicas can take another path instead."""
        placement = self._placement
        moved = _places(not_in(placement.rows, self._original))
        excess = int(placement.weights[moved[0]].sum()) - bound
        if excess <= 0:
            return
        attempts = min(_ATTEMPTS, _WORK // len(moved[0]))
        for partition, column in list(zip(*(each.tolist() for each in moved), strict=True))[:attempts]:
            for home in self._original[partition].tolist():
                if excess > 0 and home >= 0 and self._taken_back(partition, column, home):
                    excess -= int(placement.weights[partition])
                    break

    def _taken_back(self, partition: int, column: int, home: int) -> bool:
        """Move a replica back to its original broker if no broker gets further out of its band. Return False without
        changes otherwise."""
        placement = self._placement
        away = int(placement.rows[partition, column])
        hop = Hop(partition, column, home)
        places = np.array([partition]), np.array([column])
        if placement.rack_of[home] < 0 or away in self._original[partition]:
            return False
        if not may_take(placement, *places, home)[0]:
            return False
        distance = self._distance()
        self._apply([hop])
        over = placement.loads[home] > self._within.high[home]
        under = placement.loads[away] < self._within.low[away]
        if not over and not under:
            return True
        sources = [home] if over else self._able_to_give()
        targets = [away] if under else self._able_to_take()
        held = {source: _places(placement.rows == source) for source in sources}
        chain = self._chain(held, targets, only_moved=True, is_free=True)
        undo = [Hop(at, place, int(placement.rows[at, place])) for at, place, _ in chain]
        self._apply(chain)
        # A chain of replicas with other weights may be too light.
        if chain and self._distance() <= distance:
            return True
        self._apply([*undo, Hop(partition, column, away)])
        return False

    def _distance(self) -> int:
        """Return the sum of the loads above and below the bands of all brokers."""
        loads, alive = self._placement.loads, self._placement.rack_of >= 0
        outside = np.maximum(loads - self._within.high, self._within.low - loads)
        return int(np.maximum(outside, 0)[alive].sum())

    def _outside(self, hopeless: set[int]) -> tuple[list[int], list[int]]:
        """Return the brokers above and below their bands, the farthest first."""
        loads = self._placement.loads
        alive = self._placement.rack_of >= 0
        over, under = loads - self._within.high, self._within.low - loads
        return tuple(
            [broker for broker in _ordered(outside, alive & (outside > 0)) if broker not in hopeless]
            for outside in (over.astype(np.float64), under.astype(np.float64))
        )  # type: ignore[return-value]  # of two

    def _able_to_take(self) -> list[int]:
        need = self._within.share - self._placement.loads
        return _ordered(need, (self._placement.loads < self._within.high) & (self._placement.rack_of >= 0))

    def _able_to_give(self) -> list[int]:
        need = self._placement.loads - self._within.share
        return _ordered(need, (self._placement.loads > self._within.low) & (self._placement.rack_of >= 0))

    def _pass(self, sources: Sequence[int], targets: Sequence[int], ways: tuple[bool, ...]) -> bool:
        """Let one of the sources give to one of the targets, through a chain if necessary.

        `ways` has the replicas that chains may use, tried in order: only moved replicas (True) or any (False).
        """
        for only_moved in ways:
            held = {source: _places(self._placement.rows == source) for source in sources}
            chain = self._chain(held, targets, only_moved)
            if chain:
                self._apply(chain)
                return True
        return False

    def _apply(self, chain: list[Hop]) -> None:
        for hop in reversed(chain):
            self._placement.put(*(np.array([value]) for value in hop))

    def _chain(
        self,
        held: Mapping[int, tuple[Ints, Ints]],
        targets: Sequence[int],
        only_moved: bool,
        is_free: bool = False,
    ) -> list[Hop]:
        """Return the shortest chain from the source; empty if there is none.

        `held` are places by source: the replicas of a broker, or empty places if the source is NONE. With `is_free`,
        the replica of the source must not cost a move either.
        """
        onward: dict[int, Hop | None] = dict.fromkeys(targets)
        reached = list(targets)
        others: tuple[Ints, Ints] | None = None
        for _ in range(_LONGEST):
            for target in reached:
                for source, places in held.items():
                    chain = self._first_hop(source, places, target, onward, is_free)
                    if chain:
                        return chain
            others = self._passed_on(only_moved) if others is None else others
            further: list[int] = []
            for target in reached:
                for broker, hop in self._hops_to(target, others, only_moved).items():
                    if broker not in onward and broker not in held:
                        onward[broker] = hop
                        further.append(broker)
            if not further:
                return []
            reached = further
        return []

    def _first_hop(
        self,
        source: int,
        held: tuple[Ints, Ints],
        target: int,
        onward: dict[int, Hop | None],
        is_free: bool,
    ) -> list[Hop]:
        """Return the hop from the source to `target` and the following ones; empty if impossible."""
        partitions, columns = held
        following: list[Hop] = []
        hop = onward[target]
        while hop is not None:
            following.append(hop)
            hop = onward[hop.target]
        fits = self._fits(source, partitions, columns, target)
        # Hops that are possible one by one may conflict if two are of one partition.
        for each in following:
            fits &= partitions != each.partition
        weights = self._placement.weights[partitions]
        fits &= self._bearable(source, weights, target, following)
        costs = self._costs(partitions, columns, target)
        if is_free:
            fits &= costs <= 0
        if not fits.any():
            return []
        fits &= costs == costs[fits].min()
        excess = int(self._placement.loads[source] - self._within.high[source]) if source >= 0 else 0
        lack = int(self._within.low[target] - self._placement.loads[target])
        best = _best(fits, weights, excess if excess > 0 else lack)
        return [Hop(int(partitions[best]), int(columns[best]), target), *following]

    def _fits(self, source: int, partitions: Ints, columns: Ints, target: int) -> Mask:
        if source >= 0:
            return may_take(self._placement, partitions, columns, target)
        rack = int(self._placement.rack_of[target])
        if rack < 0:
            return np.zeros(len(partitions), bool)
        allowed = self._placement.allowed_racks(partitions, columns)[:, rack]
        return np.asarray(allowed & ~any_in_row(self._placement.rows[partitions] == target))

    def _bearable(self, source: int, weights: Ints, target: int, following: list[Hop]) -> Mask:
        """Return True for weights that the source can give without moving a broker further out of its band."""
        loads, low, high = self._placement.loads, self._within.low, self._within.high
        given = [int(self._placement.weights[hop.partition]) for hop in following]
        if len({hop.partition for hop in following}) < len(following):
            return np.zeros(len(weights), bool)
        bearable = np.ones(len(weights), bool)
        if source >= 0:
            bearable &= weights <= loads[source] - low[source]
        passing = [target, *(hop.target for hop in following)]
        for index, broker in enumerate(passing):
            arrives = weights if index == 0 else np.full(len(weights), given[index - 1])
            leaves = given[index] if index < len(given) else 0
            after = loads[broker] + arrives - leaves
            bearable &= after <= max(int(high[broker]), int(loads[broker]) if index < len(given) else 0)
            bearable &= after >= min(int(low[broker]), int(loads[broker]))
        return bearable

    def _passed_on(self, only_moved: bool) -> tuple[Ints, Ints]:
        rows = self._placement.rows
        if only_moved:
            changed = np.asarray(any_in_row(not_in(rows, self._original)))
            return _places((rows >= 0) & changed[:, None])
        partitions, columns = np.nonzero(rows >= 0)
        step = max(1, len(partitions) // _SAMPLE)
        return partitions[::step], columns[::step]

    def _costs(self, partitions: Ints, columns: Ints, target: int) -> Ints:
        """Return the additional moves, -1 to 1, if `target` takes each of these replicas."""
        original = self._original[partitions]
        now = self._placement.rows[partitions, columns]
        was_there = any_in_row(original == now[:, None]) & (now >= 0)
        comes_back = np.asarray(any_in_row(original == target))
        return np.asarray(was_there.astype(np.int64) - comes_back)

    def _hops_to(self, target: int, others: tuple[Ints, Ints], only_moved: bool) -> dict[int, Hop]:
        """Return one replica for `target` from each broker that has one."""
        partitions, columns = others
        fits = np.flatnonzero(may_take(self._placement, partitions, columns, target))
        if only_moved:
            fits = fits[self._costs(partitions[fits], columns[fits], target) <= 0]
        holders, first = np.unique(self._placement.rows[partitions[fits], columns[fits]], return_index=True)
        return {
            int(holder): Hop(int(partitions[fits[at]]), int(columns[fits[at]]), target)
            for holder, at in zip(holders, first, strict=True)
        }


def _places(mask: Mask) -> tuple[Ints, Ints]:
    partitions, columns = np.nonzero(mask)
    return partitions, columns


def may_take(placement: Placement, partitions: Ints, columns: Ints, target: int) -> Mask:
    """Return a mask of the replicas, all of fully assigned partitions, that the broker may take."""
    rows = placement.rows[partitions]
    racks = np.where(rows >= 0, placement.rack_of[rows], -1)
    source = racks[np.arange(len(rows)), columns]
    goal = int(placement.rack_of[target])
    wanted = placement.wanted[partitions]
    in_goal = sum_of_row(racks == goal)
    in_source = sum_of_row(racks == source[:, None])
    crosses = (in_goal < placement.rules.most[wanted, goal]) & (
        in_source > placement.rules.fewest[wanted, np.maximum(source, 0)]
    )
    return np.asarray(~any_in_row(rows == target) & ((source == goal) | crosses))


def _ordered(need: Floats, usable: Mask) -> list[int]:
    """Return the usable brokers, the neediest first."""
    order = np.argsort(-need, kind="stable")
    return [int(broker) for broker in order[usable[order]]]


def _best(fits: Mask, weights: Ints, needed: int) -> int:
    """Return the index of the lightest fitting weight of at least `needed`, otherwise of the heaviest fitting one."""
    found = np.flatnonzero(fits)
    enough = found[weights[found] >= needed]
    return int(enough[np.argmin(weights[enough])] if len(enough) else found[np.argmax(weights[found])])
