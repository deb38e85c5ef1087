"""Orders replicas so that each broker is the preferred (first) one equally often."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quorumd.pipeline.plan.arrays import NONE, Ints, Rows
from quorumd.pipeline.plan.choices import balanced_choice
from quorumd.pipeline.plan.leader_paths import evened
from quorumd.pipeline.plan.targets import even_shares, settled


class LeaderShares(NamedTuple):
    """The number of partitions that each broker may lead, per broker id; 0 for brokers that may not lead."""

    low: Ints
    high: Ints


def leader_shares(leaders: int, replicas: Ints, alive: Ints) -> LeaderShares:
    """Return shares as even as replicas allow, which differ by one where a broker may lead one more.

    `leaders` is the number of partitions, `replicas` the current number per broker; `alive` are the brokers that may
    lead.
    """
    low, high = np.zeros_like(replicas), np.zeros_like(replicas)
    shares = even_shares(replicas[alive], leaders)
    low[alive] = np.minimum(np.floor(shares + 1e-9).astype(np.int64), replicas[alive])
    high[alive] = np.minimum(np.ceil(shares - 1e-9).astype(np.int64), replicas[alive])
    return LeaderShares(low, high)


def leader_targets(leaders: Ints, shares: LeaderShares, alive: Ints) -> Ints:
    """Return the number of partitions each broker leads within its share, with the fewest changes from `leaders`."""
    found = np.zeros_like(leaders)
    low, high = shares.low[alive], shares.high[alive]
    start = np.clip(leaders[alive], low, high)
    found[alive] = settled(start, low, high, np.ones(len(alive), np.int64), int(leaders.sum()))
    return found


def balanced_leaders(rows: Rows, alive: Ints) -> Rows:
    """Reorder replicas to balance preferred leaders; rows are padded on the right."""
    if not len(rows):
        return rows
    brokers = int(max(rows.max(), alive.max(initial=0))) + 1
    leaders = np.bincount(rows[:, 0], minlength=brokers)
    shares = leader_shares(len(rows), np.bincount(rows[rows >= 0], minlength=brokers), alive)
    first = balanced_choice(rows, np.zeros(len(rows), np.int64), leader_targets(leaders, shares, alive))
    # The replicas may not allow exactly these targets, but others within the shares.
    if (_counts(rows, first, brokers) < shares.low).any():
        first = balanced_choice(rows, first, shares.low)
        first = balanced_choice(rows, first, shares.high)
    may_lead = np.zeros(brokers, bool)
    may_lead[alive] = True
    # Shares are even over all brokers, which the replicas of some of them may not allow.
    first = evened(rows, first, may_lead)
    changed = np.flatnonzero(first)
    found = rows.copy()
    # Swap the old and the new leader; the order of the others is unchanged.
    found[changed, first[changed]] = rows[changed, 0]
    found[changed, 0] = rows[changed, first[changed]]
    return found


def _counts(rows: Rows, chosen: Ints, brokers: int) -> Ints:
    return np.bincount(rows[np.arange(len(rows)), chosen], minlength=brokers)


def packed(rows: Rows) -> Rows:
    """Return the rows with empty places last, in otherwise unchanged order."""
    order = np.argsort(rows == NONE, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1)
