"""The work on many partitions in shards of topics, each with its part of what brokers give and take.

A shard holds whole topics: how a topic is spread over brokers is seen within it. What brokers give in a shard is what
they have in it, of all they give; what they may take is split by what shards have to place. The shards do not know of
each other, so a few moves are left over for afterwards; the same number of shards gives the same plan wherever they
are worked on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

import numpy as np

from quorumd.pipeline.plan.arrays import Ints, Rows
from quorumd.pipeline.plan.moves import fill, shed
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.targets import RackRules


@dataclass(frozen=True, slots=True)
class Shard:
    """Some topics, and what brokers give and take of them. Arrays as in Placement; `index` of its partitions."""

    index: Ints
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
"""Plans shards and returns their new rows with the indexes of these, in any order."""


def in_process(shards: Iterable[Shard]) -> Iterable[tuple[Ints, Rows]]:
    """One after the other, here."""
    return ((shard.index, work_on(shard)) for shard in shards)


def work_on(shard: Shard) -> Rows:
    """The rows of a shard after what brokers give is with those that take it."""
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
    """Fill up partitions that lack replicas, then move what brokers have too much of; both are used up."""
    fill(placement, room, keep_spread=keep_spread)
    shed(placement, surplus, room, keep_spread=keep_spread)


def shard_of_topics(names: Iterable[str], shards: int) -> Ints:
    """Which shard each topic is in: by the CRC-32 of its name, which Spark has as `crc32` too."""
    return np.array([crc32(name.encode()) % shards for name in names], np.int64)


def split(placement: Placement, shard_of: Ints, shards: int, targets: Ints) -> Iterable[Shard]:
    """`shard_of` is the shard of each partition."""
    surplus = np.where(placement.rack_of >= 0, np.maximum(placement.loads - targets, 0), 0)
    room = np.maximum(targets - placement.loads, 0)
    held = np.zeros((shards, placement.brokers), np.int64)
    open_ = np.zeros(shards, np.int64)
    here = placement.rows >= 0
    of_row = np.broadcast_to(shard_of[:, None], here.shape)[here]
    weights = np.broadcast_to(placement.weights[:, None], here.shape)[here]
    np.add.at(held, (of_row, placement.rows[here]), weights)
    np.add.at(open_, shard_of, (placement.wanted - here.sum(1)) * placement.weights)
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
    """Each broker's total split over shards by their parts, in whole numbers of the same sum: (shards, brokers)."""
    sums = np.maximum(parts.sum(0), 1)
    # Rounded at another place for each broker, or the first shards would always come off worse.
    phase = (np.arange(len(totals)) * 0.6180339887498949) % 1
    edges = np.floor(np.cumsum(parts, axis=0) / sums * totals + phase).astype(np.int64)
    edges[-1] = np.floor(totals + phase)
    return np.asarray(np.diff(edges, axis=0, prepend=0))
