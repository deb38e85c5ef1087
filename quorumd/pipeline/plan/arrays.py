"""Array types of the planner, and deterministic pseudo-random numbers."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = npt.NDArray[np.int32]
"""Replicas, a row per partition: indexes of brokers, the preferred leader first, padded with NONE."""
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

NONE = -1


def mixed(values: npt.NDArray[np.integer], salt: int) -> npt.NDArray[np.uint64]:
    """Scramble numbers with the finalizer of splitmix64, equally on every machine and with every version of numpy."""
    x = values.astype(np.uint64) + np.uint64((salt * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def fractions(values: npt.NDArray[np.integer], salt: int) -> Floats:
    """Scramble numbers to [0, 1)."""
    return (mixed(values, salt) >> np.uint64(11)).astype(np.float64) / 2**53


def rank_within(groups: npt.NDArray[np.integer]) -> Ints:
    """Return the number of preceding elements of the same group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = (
        np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(groups) else np.zeros(0, np.int64)
    )
    lengths = np.diff(np.r_[starts, len(groups)])
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - np.repeat(starts, lengths)
    return ranks


def sum_before(groups: npt.NDArray[np.integer], weights: Ints) -> Ints:
    """Return the cumulative sum of the weights within each group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    running = np.cumsum(weights[order])
    starts = (
        np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(groups) else np.zeros(0, np.int64)
    )
    lengths = np.diff(np.r_[starts, len(groups)])
    before = np.repeat(running[starts] - weights[order][starts], lengths)
    sums = np.empty(len(groups), np.int64)
    sums[order] = running - before
    return sums


def not_in(these: Rows, those: Rows) -> Mask:
    """Return a mask of the brokers in `these` that are not in the same row of `those`."""
    found = these >= 0
    for column in range(those.shape[1]):
        found &= these != those[:, column : column + 1]
    return np.asarray(found)


# NumPy reduces the rows of an array with few columns one at a time: several times slower than adding up its columns.


def any_in_row(mask: Mask) -> Mask:
    """Return True for rows in which any column is set."""
    found = np.zeros(len(mask), bool)
    for column in mask.T:
        found |= column
    return found


def all_in_row(mask: Mask) -> Mask:
    """Return True for rows in which all columns are set."""
    return ~any_in_row(~mask)


def sum_of_row(values: npt.NDArray[np.integer] | Mask) -> Ints:
    """Return the sum of each row; of a mask, the number of its set columns."""
    found = np.zeros(len(values), np.int64)
    for column in values.T:
        found += column
    return found


def least_of_row(values: Ints) -> Ints:
    """Return the least value of each row. There must be at least one column."""
    found = values[:, 0].copy()
    for column in values.T[1:]:
        np.minimum(found, column, out=found)
    return found
