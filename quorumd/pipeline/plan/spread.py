"""Swaps the targets of two moved replicas if a broker would have too many replicas of a topic."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quorumd.pipeline.plan.arrays import Ints, Mask, Rows, any_in_row, mixed, not_in, sum_of_row
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.repair import may_take

_TRADES = 5_000
_PARTNERS = 20_000
"""The number of replicas examined for a trade."""
_AT_ONCE = 2_000
"""The number examined in one step; most trades have a partner among the first."""


def spread_out(placement: Placement, original: Rows, successors: Mapping[int, int]) -> None:
    """Swap targets until no broker has more of a topic than its limit, as far as that costs nothing.

    All partitions must have all their replicas. Loads and racks stay unchanged, and so do replicas of replaced
    brokers.
    """
    if placement.weights.max(initial=1) > placement.weights.min(initial=1):
        # Swaps of different weights would change loads.
        return
    moved = not_in(placement.rows, original)
    for before, after in successors.items():
        moved &= (placement.rows != after) | ~any_in_row(original == before)[:, None]
    partitions, columns = np.nonzero(moved)
    order = np.argsort(mixed(partitions, 1), kind="stable")
    partitions, columns = partitions[order], columns[order]
    crowded = np.flatnonzero(
        _count(placement, partitions, columns) > placement.limits[placement.topics[partitions]]
    )
    crowded = crowded[_have_a_choice(placement, partitions[crowded], columns[crowded])]
    for index in crowded[:_TRADES].tolist():
        _trade(placement, partitions, columns, index)


def _have_a_choice(placement: Placement, partitions: Ints, columns: Ints) -> Mask:
    """Return True for replicas that racks allow on another broker, without a replica of the partition."""
    sizes = np.bincount(placement.rack_of[placement.rack_of >= 0], minlength=placement.racks)
    allowed = placement.allowed_racks(partitions, columns)
    return np.asarray(sum_of_row((sizes - placement.rack_counts(partitions)) * allowed) > 0)


def _count(placement: Placement, partitions: Ints, columns: Ints) -> Ints:
    """Return the number of replicas of the same topic on the broker of each place."""
    brokers = placement.rows[partitions, columns]
    keys = placement.topics[partitions] * placement.brokers + brokers
    return np.asarray(placement.of_topic[keys]).astype(np.int64)


def _trade(placement: Placement, partitions: Ints, columns: Ints, index: int) -> None:
    """Swap the target of the replica at `index` with the target of another moved replica."""
    one, column = partitions[[index]], columns[[index]]
    topic, here = int(placement.topics[one[0]]), int(placement.rows[one[0], column[0]])
    if placement.of_topic[topic * placement.brokers + here] <= placement.limits[topic]:
        return
    allowed_racks = placement.allowed_racks(one, column)[0]
    for start in range(0, min(len(partitions), _PARTNERS), _AT_ONCE):
        others, at = partitions[start : start + _AT_ONCE], columns[start : start + _AT_ONCE]
        there = placement.rows[others, at].astype(np.int64)
        goes = allowed_racks[placement.rack_of[there]] & ~np.isin(there, placement.rows[one[0]])
        goes &= placement.of_topic[topic * placement.brokers + there] < placement.limits[topic]
        others, at, there = others[goes], at[goes], there[goes]
        topics = placement.topics[others]
        comes = (topics != topic) & may_take(placement, others, at, here)
        comes &= placement.of_topic[topics * placement.brokers + here] < placement.limits[topics]
        if comes.any():
            other = np.flatnonzero(comes)[:1]
            placement.put(one, column, there[other])
            placement.put(others[other], at[other], np.array([here]))
            return
