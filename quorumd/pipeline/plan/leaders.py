"""The order of replicas: the first one is the preferred leader, and each broker shall be that equally often."""

from __future__ import annotations

import numpy as np

from quorumd.pipeline.plan.arrays import NONE, Ints, Rows
from quorumd.pipeline.plan.choices import balanced_choice
from quorumd.pipeline.plan.targets import even_shares, settled


def leader_targets(leaders: Ints, replicas: Ints, alive: Ints) -> Ints:
    """How many partitions each broker shall lead, as even as its replicas allow, with the fewest changes.

    `leaders` and `replicas` are what each has now; `alive` are the brokers that may lead.
    """
    found = np.zeros_like(leaders)
    shares = even_shares(replicas[alive], int(leaders.sum()))
    low = np.minimum(np.floor(shares + 1e-9).astype(np.int64), replicas[alive])
    high = np.minimum(np.ceil(shares - 1e-9).astype(np.int64), replicas[alive])
    start = np.clip(leaders[alive], low, high)
    found[alive] = settled(start, low, high, np.ones(len(alive), np.int64), int(leaders.sum()))
    return found


def balanced_leaders(rows: Rows, alive: Ints) -> Rows:
    """The same replicas in another order where that balances preferred leaders; rows are full from the left."""
    if not len(rows):
        return rows
    brokers = int(max(rows.max(), alive.max(initial=0))) + 1
    leaders = np.bincount(rows[:, 0], minlength=brokers)
    replicas = np.bincount(rows[rows >= 0], minlength=brokers)
    limits = leader_targets(leaders, replicas, alive)
    first = balanced_choice(rows, np.zeros(len(rows), np.int64), limits)
    changed = np.flatnonzero(first)
    found = rows.copy()
    # The old leader takes the place of the new one: the rest of the order stays.
    found[changed, first[changed]] = rows[changed, 0]
    found[changed, 0] = rows[changed, first[changed]]
    return found


def packed(rows: Rows) -> Rows:
    """The same rows with the empty places last, the order of the others kept."""
    order = np.argsort(rows == NONE, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1)
