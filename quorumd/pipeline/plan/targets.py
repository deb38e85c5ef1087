"""Computes the target number of replicas per broker: as even as the racks allow, with the fewest moves.

A rack takes one replica of a partition or, with fewer racks than replicas, as many as an even spread requires;
this bounds the replicas of a rack and so of its brokers. Within the bounds, all brokers get the same share; shares
that a rack cannot take go to the others. Finally shares are rounded up or down, whichever costs a broker no move,
such that the sum is right.

Weights are replicas or bytes; the bounds of racks have the same unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from quorumd.errors import ConfigError
from quorumd.pipeline.plan.arrays import Floats, Ints

_ROUNDS = 500
_CLOSE = 1e-9
_NEAR = 1e-6
"""A share this close to an integer counts as that integer: shares are divided by far fewer than a million brokers."""


def rack_bounds(sizes: Ints, replication_factor: int) -> tuple[Ints, Ints]:
    """Return the minimum and maximum of replicas of a partition in each rack; `sizes` are the brokers per rack.

    Raises ConfigError if there are fewer brokers than replicas.
    """
    if replication_factor > int(sizes.sum()):
        raise ConfigError(
            f"{replication_factor} replicas of a partition need as many brokers, but only {int(sizes.sum())} remain"
        )
    level = 0
    while level < int(sizes.max()) and int(np.minimum(sizes, level + 1).sum()) <= replication_factor:
        level += 1
    fewest = np.minimum(sizes, level)
    most = fewest if int(fewest.sum()) == replication_factor else np.minimum(sizes, level + 1)
    return fewest, most


@dataclass(frozen=True, slots=True)
class RackRules:
    """The bounds of replicas of one partition, by replication factor (rows) and rack (columns)."""

    fewest: Ints
    most: Ints

    @classmethod
    def of(cls, sizes: Ints, factors: Ints) -> RackRules:
        """Return the rules for these replication factors; rows of others are zero. Raises ConfigError."""
        height = int(factors.max(initial=0)) + 1
        fewest, most = np.zeros((height, len(sizes)), np.int64), np.zeros((height, len(sizes)), np.int64)
        for factor in np.unique(factors):
            if factor:
                fewest[factor], most[factor] = rack_bounds(sizes, int(factor))
        return cls(fewest, most)


@dataclass(frozen=True, slots=True)
class Bands:
    """The bounds of the final load of each broker and rack. `share` is the exact share of a broker."""

    low: Ints
    high: Ints
    rack_low: Ints
    rack_high: Ints
    share: Floats
    total: int

    def reaching(self, loads: Ints) -> Bands:
        """Extend the bands to these loads, since limits that cannot be reached must not bind."""
        return replace(self, low=np.minimum(self.low, loads), high=np.maximum(self.high, loads))


def bands(
    rack_of: Ints, rules: RackRules, weight_by_factor: Mapping[int, int], tolerance: float, *, whole: bool
) -> Bands:
    """Compute the bands.

    `rack_of` is the rack of each broker, -1 for one to drain; `weight_by_factor` is the weight of one replica of
    all partitions, by replication factor. With `whole`, the weight of a replica is 1.
    """
    racks = rules.most.shape[1]
    sizes = np.bincount(rack_of[rack_of >= 0], minlength=racks)
    factors = np.array(sorted(weight_by_factor), np.int64)
    weights = np.array([weight_by_factor[int(factor)] for factor in factors], np.int64)
    low = weights[:, None] * rules.fewest[factors]
    high = weights[:, None] * rules.most[factors]
    of_rack = rack_shares(sizes, low, high, weights * factors)
    share = np.where(rack_of >= 0, (of_rack / np.maximum(sizes, 1))[np.maximum(rack_of, 0)], 0.0)
    lowest = np.floor(share * (1 - tolerance) + _NEAR)
    highest = np.ceil(share * (1 + tolerance) - _NEAR)
    if whole:
        highest = np.minimum(highest, weights.sum())
    return Bands(
        lowest.astype(np.int64),
        highest.astype(np.int64),
        low.sum(0),
        high.sum(0),
        share,
        int((weights * factors).sum()),
    )


def rack_shares(sizes: Ints, low: Ints, high: Ints, totals: Ints) -> Floats:
    """Return the share of each rack such that brokers get equal loads, as far as the bounds allow.

    `low` and `high` (classes x racks) bound what a rack holds of a class of partitions, `totals` are the weights
    of classes. Classes are distributed evenly on top of the others, one after the other, until nothing changes;
    this converges to the optimum (block coordinate descent on a convex function).
    """
    held = np.zeros(low.shape)
    for _ in range(_ROUNDS if len(totals) > 1 else 1):
        before = held.copy()
        for index, total in enumerate(totals):
            others = held.sum(0) - held[index]
            held[index] = _filled_evenly(sizes, others, low[index], high[index], int(total))
        if np.allclose(held, before, rtol=0, atol=_CLOSE):
            break
    return np.asarray(held.sum(0))


def _filled_evenly(sizes: Ints, others: Floats, low: Ints, high: Ints, total: int) -> Floats:
    """Return clip(sizes * level - others, low, high) at the level with the sum `total`."""
    used = sizes > 0
    size = np.maximum(sizes, 1)
    corners = np.unique(np.r_[((low + others) / size)[used], ((high + others) / size)[used]])

    def at(level: float) -> Floats:
        return np.where(used, np.clip(size * level - others, low, high), 0)

    sums = np.array([at(level).sum() for level in corners])
    right = min(int(np.searchsorted(sums, total - _CLOSE)), len(corners) - 1)
    left = max(right - 1, 0)
    rise = sums[right] - sums[left]
    part = (total - sums[left]) / rise if rise > 0 else 1.0
    return at(float(corners[left] + (corners[right] - corners[left]) * min(max(part, 0.0), 1.0)))


def even_shares(most: Ints, total: int) -> Floats:
    """Distribute `total` over brokers with these maxima, as evenly as possible."""
    ones = np.ones(len(most), np.int64)
    return _filled_evenly(ones, np.zeros(len(most)), 0 * ones, most, total)


def targets(loads: Ints, rack_of: Ints, within: Bands) -> Ints:
    """Return the target of each broker, with the fewest moves from `loads`, within the bands and with the right
    sum.

    A broker keeps its load if its band allows. If the sum is then too large, brokers above their share give up
    first; if it is too small, brokers below are filled first.
    """
    kept = np.clip(loads, within.low, within.high)
    racks = len(within.rack_low)
    used = rack_of >= 0
    sizes = np.bincount(rack_of[used], minlength=racks)

    def by_rack(values: Ints) -> Ints:
        return np.asarray(np.bincount(rack_of[used], values[used].astype(np.float64), racks)).astype(np.int64)

    low, high = by_rack(within.low), by_rack(within.high)
    of_rack = settled(
        np.clip(by_rack(kept), np.minimum(np.maximum(low, within.rack_low), high), within.rack_high),
        np.minimum(np.maximum(low, within.rack_low), high),
        np.maximum(np.minimum(high, within.rack_high), low),
        np.maximum(sizes, 1),
        within.total,
    )
    found = np.zeros_like(loads)
    for rack in range(racks):
        of = np.flatnonzero(rack_of == rack)
        if len(of):
            found[of] = settled(
                kept[of], within.low[of], within.high[of], np.ones(len(of), np.int64), int(of_rack[rack])
            )
    return found


def settled(start: Ints, low: Ints, high: Ints, sizes: Ints, total: int) -> Ints:
    """Change `start` to the sum `total` within [low, high].

    The highest values are lowered to one level in proportion to `sizes`, or the lowest ones raised to one level, as
    far as the bounds allow.
    """
    missing = total - int(start.sum())
    if not missing or not len(start):
        return start

    def at(level: float) -> Ints:
        leveled = np.floor(sizes * level + _CLOSE).astype(np.int64)
        if missing > 0:
            return np.asarray(np.minimum(high, np.maximum(start, leveled)))
        return np.asarray(np.maximum(low, np.minimum(start, leveled)))

    lowest, highest = float((low / sizes).min()) - 1, float((high / sizes).max()) + 1
    for _ in range(100):
        middle = (lowest + highest) / 2
        if int(at(middle).sum()) <= total:
            lowest = middle
        else:
            highest = middle
    found = at(lowest)
    left = total - int(found.sum())
    # The sum gained by one more step of the level, for the missing amount.
    room = np.minimum(high, np.maximum(start, at(highest))) - found if missing > 0 else at(highest) - found
    taken = np.minimum(room, np.maximum(0, left - np.r_[0, np.cumsum(room)[:-1]]))
    found = found + taken
    left -= int(taken.sum())
    if left > 0:
        room = high - found
        found = found + np.minimum(room, np.maximum(0, left - np.r_[0, np.cumsum(room)[:-1]]))
    return np.asarray(found)
