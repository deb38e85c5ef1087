"""Chooses one broker per row, such that no broker is chosen more often than its limit.

Where a broker is chosen too often, rows change their choice, directly or along a chain of brokers. This finds a
solution whenever there is one.
"""

from __future__ import annotations

import numpy as np

from quorumd.pipeline.plan.arrays import NONE, Ints, Rows, least_of_row, mixed, rank_within

_FAR = 1 << 30
_ROUNDS = 2_000


def balanced_choice(options: Rows, chosen: Ints, limits: Ints) -> Ints:
    """Return the column of the chosen broker per row, with few changes from `chosen`.

    `options` are brokers, NONE for none; `limits` is how often each broker may be chosen. Brokers stay above their
    limits if no chain leads to one below.
    """
    chosen = chosen.copy()
    each = np.arange(len(options))
    for turn in range(_ROUNDS):
        at = options[each, chosen].astype(np.int64)
        counts = np.bincount(at, minlength=len(limits))
        excess = counts - limits
        if not (excess > 0).any():
            break
        distance = _distances(options, at, excess)
        going = np.flatnonzero((excess > 0)[at] & (distance[at] < _FAR))
        if not len(going):
            break
        _pass_on(options, chosen, at, going, excess, distance, turn)
    return chosen


def _distances(options: Rows, at: Ints, excess: Ints) -> Ints:
    """Return the number of rows in the shortest chain from each broker to one below its limit."""
    distance = np.where(excess < 0, 0, _FAR)
    padded = np.r_[distance, _FAR]
    while True:
        nearest = least_of_row(padded[options])
        further = padded.copy()
        np.minimum.at(further, at, np.minimum(nearest + 1, _FAR))
        if (further == padded).all():
            return np.asarray(further[:-1])
        padded = further


def _pass_on(
    options: Rows, chosen: Ints, at: Ints, going: Ints, excess: Ints, distance: Ints, turn: int
) -> None:
    """Let rows of brokers above their limits choose brokers closer to one with room."""
    going = going[np.argsort(mixed(going, turn), kind="stable")]
    padded = np.r_[distance, _FAR]
    away = padded[options[going]]
    # Among equally close brokers, choose the broker with the most room.
    slack = np.clip(np.r_[-excess, NONE], -(1 << 15), (1 << 15) - 1)[options[going]]
    column = np.argmin(away * (1 << 17) - slack, axis=1)
    pick = np.arange(len(going))
    nearer = away[pick, column] < padded[at[going]]
    going, column = going[nearer], column[nearer]
    allowed = rank_within(at[going]) < excess[at[going]]
    going, column = going[allowed], column[allowed]
    target = options[going, column].astype(np.int64)
    # A broker below its limit accepts up to its room; an intermediate one accepts a few at a time.
    allowed = rank_within(target) < np.where(excess[target] < 0, -excess[target], 1 + excess.max() // 4)
    chosen[going[allowed]] = column[allowed]
