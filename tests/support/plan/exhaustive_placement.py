"""All possible loads of the brokers of a tiny cluster, and the fewest moves to each, by enumeration.

Every placement of every partition that its racks allow is tried, one partition after the other. Only the rack
rules of the planner are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from random import Random

import numpy as np

from quorumd.pipeline.plan.arrays import Ints
from quorumd.pipeline.plan.planning import Changes, Outcome
from quorumd.pipeline.plan.state import BrokerState, ClusterState, padded_rows

_FAR = 1 << 20


@dataclass(frozen=True, slots=True)
class Reachable:
    """The possible outcomes of plans."""

    loads: Ints
    """The possible loads of the remaining brokers, with a row per outcome and a column per broker."""
    moves: Ints
    """The fewest moves to each outcome."""


def every_placement(outcome: Outcome) -> Reachable:
    """Enumerate the cluster of a plan."""
    alive, rack_of = outcome.broker_index.alive.tolist(), outcome.broker_index.rack_of
    base = len(outcome.old) + 1
    digit = {broker: base**place for place, broker in enumerate(alive)}
    # The index of `moves` encodes the loads, with a digit per broker.
    moves = np.full(base ** len(alive), _FAR)
    moves[0] = 0
    for row, wanted in zip(outcome.old.tolist(), outcome.wanted.tolist(), strict=True):
        following = np.full_like(moves, _FAR)
        for chosen in combinations(alive, wanted):
            counts = np.bincount(rack_of[list(chosen)], minlength=outcome.rules.most.shape[1])
            exceeds = counts > outcome.rules.most[wanted]
            if exceeds.any() or (counts < outcome.rules.fewest[wanted]).any():
                continue
            added = sum(digit[broker] for broker in chosen)
            copied = wanted - sum(broker in row for broker in chosen)
            np.minimum(following[added:], moves[: len(moves) - added] + copied, out=following[added:])
        moves = following
    found = np.flatnonzero(moves < _FAR)
    return Reachable(
        np.stack([found // digit[broker] % base for broker in alive], axis=1).astype(np.int64), moves[found]
    )


def tiny_cluster(seed: int) -> tuple[ClusterState, Changes]:
    """Return up to 6 brokers in up to 4 racks with up to 6 partitions of up to 3 replicas, placed regardless of
    racks, and the requested changes."""
    random = Random(seed)
    count, racks = random.randint(1, 6), random.randint(1, 4)
    brokers = [BrokerState(n, f"r{random.randrange(racks)}" if racks > 1 else None) for n in range(count)]
    factor = random.randint(1, min(3, count))
    likely = [random.choice([1, 1, 3]) for _ in range(count)]
    rows = []
    for _ in range(random.randint(1, 6)):
        width = factor if random.random() < 0.8 else random.randint(1, min(3, count))
        row: list[int] = []
        while len(row) < width:
            broker = random.choices(range(count), likely)[0]
            row += [broker] if broker not in row else []
        rows.append(row)
    kind = random.choice(["balance", "remove", "add", "factor"])
    drained = random.randint(0, count - max(map(len, rows))) if kind == "remove" else 0
    remove = frozenset(random.sample(range(count), drained))
    adds = kind in ("remove", "add") and count < 6 and random.random() < 0.7
    add = {count: f"r{random.randrange(racks)}" if racks > 1 else None} if adds else {}
    factors = {"": random.randint(1, min(3, count))} if kind == "factor" else {}
    names = [f"t{random.randrange(3)}" for _ in rows]
    state = ClusterState.of(names, range(len(rows)), padded_rows(rows), [row[0] for row in rows], brokers)
    return state, Changes(remove, add, factors=factors)
