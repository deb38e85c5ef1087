"""Plans in shards of topics, each with its part of the surplus and the room of brokers.

A shard has whole topics, because the spread of a topic is balanced within it. Each shard has the surplus of
brokers in proportion to their replicas in it, and room in proportion to the replicas it has to place. Shards are
independent, so a few moves remain for afterwards. The same number of shards gives the same plan wherever they are
processed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

import numpy as np

from quorumd.pipeline.plan.arrays import Ints, Rows, sum_of_row
from quorumd.pipeline.plan.moves import fill, shed
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.targets import RackRules


@dataclass(frozen=True, slots=True)
class Shard:
    """The partitions of some topics, and the surplus and room of brokers for them. Arrays are as in Placement."""

    index: Ints
    """The indexes of its partitions."""
    rows: Rows
    wanted: Ints
    weights: Ints
    topics: Ints
    rack_of: Ints
    rules: RackRules
    limits: Ints
    surplus: Ints
    room: Ints


Runner: TypeAlias = Callable[[Iterable[Shard]], Iterable[tuple[Ints, Rows]]]
"""Plans shards; returns the partitions of each shard and their new rows, in any order."""


def in_process(shards: Iterable[Shard]) -> Iterable[tuple[Ints, Rows]]:
    """Plan shards one after the other in this process."""
    return ((shard.index, work_on(shard)) for shard in shards)


def work_on(shard: Shard) -> Rows:
    """Return the rows of a shard after moving the surplus of brokers to those with room."""
    placement = Placement(
        shard.rows.copy(),
        shard.wanted,
        shard.weights,
        shard.topics,
        shard.rack_of,
        shard.rules,
        shard.limits,
    )
    exchange(placement, shard.surplus.copy(), shard.room.copy())
    return placement.rows


def exchange(placement: Placement, surplus: Ints, room: Ints, *, keep_spread: bool = True) -> None:
    """Add missing replicas, then move surplus ones; `surplus` and `room` are reduced in place."""
    fill(placement, room, keep_spread=keep_spread)
    shed(placement, surplus, room, keep_spread=keep_spread)


def shard_of_topics(names: Iterable[str], shards: int) -> Ints:
    """Return the shard of each topic: the CRC-32 of its name, which Spark also has as `crc32`."""
    return np.array([crc32(name.encode()) % shards for name in names], np.int64)


def split(placement: Placement, shard_of: Ints, shards: int, targets: Ints) -> Iterable[Shard]:
    """Split a placement; `shard_of` is the shard of each partition."""
    surplus = np.where(placement.rack_of >= 0, np.maximum(placement.loads - targets, 0), 0)
    room = np.maximum(targets - placement.loads, 0)
    held = np.zeros((shards, placement.brokers), np.int64)
    open_ = np.zeros(shards, np.int64)
    here = placement.rows >= 0
    of_row = np.broadcast_to(shard_of[:, None], here.shape)[here]
    weights = np.broadcast_to(placement.weights[:, None], here.shape)[here]
    np.add.at(held, (of_row, placement.rows[here]), weights)
    np.add.at(open_, shard_of, (placement.wanted - sum_of_row(here)) * placement.weights)
    gives = _apportioned(surplus, held)
    needs = gives.sum(1) + open_
    takes = _apportioned(room, np.broadcast_to(needs[:, None], held.shape))
    order = np.argsort(shard_of, kind="stable")
    edges = np.searchsorted(shard_of[order], np.arange(shards + 1))
    for shard in range(shards):
        index = order[edges[shard] : edges[shard + 1]]
        here_too, topics = np.unique(placement.topics[index], return_inverse=True)
        yield Shard(
            index,
            placement.rows[index],
            placement.wanted[index],
            placement.weights[index],
            topics.astype(np.int64),
            placement.rack_of,
            placement.rules,
            placement.limits[here_too],
            gives[shard],
            takes[shard],
        )


def _apportioned(totals: Ints, parts: Ints) -> Ints:
    """Split each broker's total over shards in proportion to `parts`, in integers of the same sum: (shards,
    brokers)."""
    sums = np.maximum(parts.sum(0), 1)
    # Rounded at a different position per broker; otherwise the first shards would always get less.
    phase = (np.arange(len(totals)) * 0.6180339887498949) % 1
    edges = np.floor(np.cumsum(parts, axis=0) / sums * totals + phase).astype(np.int64)
    edges[-1] = np.floor(totals + phase)
    return np.asarray(np.diff(edges, axis=0, prepend=0))
