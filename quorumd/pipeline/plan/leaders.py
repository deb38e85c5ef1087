"""Orders replicas so that each broker is the preferred (first) one equally often."""

from __future__ import annotations

import numpy as np

from quorumd.pipeline.plan.arrays import NONE, Ints, Rows
from quorumd.pipeline.plan.choices import balanced_choice
from quorumd.pipeline.plan.targets import even_shares, settled


def leader_targets(leaders: Ints, replicas: Ints, alive: Ints) -> Ints:
    """Return the number of partitions each broker leads: as even as replicas allow, with the fewest changes.

    `leaders` and `replicas` are the current numbers per broker; `alive` are the brokers that may lead.
    """
    found = np.zeros_like(leaders)
    shares = even_shares(replicas[alive], int(leaders.sum()))
    low = np.minimum(np.floor(shares + 1e-9).astype(np.int64), replicas[alive])
    high = np.minimum(np.ceil(shares - 1e-9).astype(np.int64), replicas[alive])
    start = np.clip(leaders[alive], low, high)
    found[alive] = settled(start, low, high, np.ones(len(alive), np.int64), int(leaders.sum()))
    return found


def balanced_leaders(rows: Rows, alive: Ints) -> Rows:
    """Reorder replicas to balance preferred leaders; rows are padded on the right."""
    if not len(rows):
        return rows
    brokers = int(max(rows.max(), alive.max(initial=0))) + 1
    leaders = np.bincount(rows[:, 0], minlength=brokers)
    replicas = np.bincount(rows[rows >= 0], minlength=brokers)
    limits = leader_targets(leaders, replicas, alive)
    first = balanced_choice(rows, np.zeros(len(rows), np.int64), limits)
    changed = np.flatnonzero(first)
    found = rows.copy()
    # Swap the old and the new leader; the order of the others is unchanged.
    found[changed, first[changed]] = rows[changed, 0]
    found[changed, 0] = rows[changed, first[changed]]
    return found


def packed(rows: Rows) -> Rows:
    """Return the rows with empty places last, in otherwise unchanged order."""
    order = np.argsort(rows == NONE, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1)
