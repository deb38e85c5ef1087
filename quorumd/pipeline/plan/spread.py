"""Swaps the targets of two moved replicas if a broker would have too many replicas of a topic."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quorumd.pipeline.plan.arrays import Ints, Rows, mixed, not_in
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.repair import may_take

_TRADES = 5_000
_PARTNERS = 20_000
"""The number of replicas examined for a trade."""


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
        moved &= (placement.rows != after) | ~(original == before).any(1)[:, None]
    partitions, columns = np.nonzero(moved)
    order = np.argsort(mixed(partitions, 1), kind="stable")
    partitions, columns = partitions[order], columns[order]
    crowded = _count(placement, partitions, columns) > placement.limits[placement.topics[partitions]]
    for index in np.flatnonzero(crowded)[:_TRADES].tolist():
        _trade(placement, partitions, columns, index)


def _count(placement: Placement, partitions: Ints, columns: Ints) -> Ints:
    """Return the number of replicas of the same topic on the broker of each place."""
    brokers = placement.rows[partitions, columns]
    keys = placement.topics[partitions] * placement.brokers + brokers
    return np.asarray(placement.of_topic[keys]).astype(np.int64)


def _trade(placement: Placement, partitions: Ints, columns: Ints, index: int) -> None:
    """Swap the target of the replica at `index` with that of another moved replica."""
    one, column = partitions[[index]], columns[[index]]
    topic, here = int(placement.topics[one[0]]), int(placement.rows[one[0], column[0]])
    if placement.of_topic[topic * placement.brokers + here] <= placement.limits[topic]:
        return
    others, at = partitions[:_PARTNERS], columns[:_PARTNERS]
    there = placement.rows[others, at].astype(np.int64)
    rack_allows = placement.allowed_racks(one, column)[0][placement.rack_of[there]]
    goes = rack_allows & ~np.isin(there, placement.rows[one[0]])
    goes &= placement.of_topic[topic * placement.brokers + there] < placement.limits[topic]
    topics = placement.topics[others]
    comes = (topics != topic) & may_take(placement, others, at, here)
    comes &= placement.of_topic[topics * placement.brokers + here] < placement.limits[topics]
    found = np.flatnonzero(goes & comes)
    if len(found):
        other = found[:1]
        placement.put(one, column, there[other])
        placement.put(others[other], at[other], np.array([here]))
