"""Unevenly grown cluster states, as the input of reassignment plans. Equal seeds give equal states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quorumd.pipeline.plan.state import BrokerState, ClusterState


def skewed_state(
    partitions: int,
    racks: Sequence[str | None],
    replication_factor: int = 3,
    *,
    seed: int = 1,
    skew: float = 0.5,
    topics: int | None = None,
    heeds_racks: bool = True,
) -> ClusterState:
    """Build a state with a broker per entry of `racks`, numbered from 0, some with far more replicas than others.

    With `heeds_racks`, the replicas of a partition are in different racks if there are enough racks.
    """
    random = np.random.default_rng(seed)
    count = len(racks)
    names = sorted({rack or "" for rack in racks})
    rack_of = np.array([names.index(rack or "") for rack in racks])
    likely = np.exp(random.normal(0, skew, count))
    rows = np.full((partitions, replication_factor), -1, np.int32)
    for column in range(replication_factor):
        todo = np.arange(partitions)
        # Ignore the racks after 100 attempts: they may leave a partition no broker.
        for attempt in range(200):
            if not len(todo):
                break
            # Ignore the weights after 150 attempts: the only eligible broker of a partition may have a small weight.
            drawn = random.choice(count, len(todo), p=likely / likely.sum() if attempt < 150 else None)
            ok = np.ones(len(todo), bool)
            for before in range(column):
                ok &= rows[todo, before] != drawn
                if heeds_racks and len(names) >= replication_factor and attempt < 100:
                    ok &= rack_of[rows[todo, before]] != rack_of[drawn]
            rows[todo[ok], column] = drawn[ok]
            todo = todo[~ok]
        assert not len(todo)
    topic_count = topics if topics is not None else max(partitions // 20, 1)
    topic = np.sort(random.integers(0, topic_count, partitions))
    numbers = np.arange(partitions) - np.searchsorted(topic, topic)
    brokers = [BrokerState(broker, rack) for broker, rack in enumerate(racks)]
    return ClusterState.of([f"topic-{each}" for each in topic], numbers, rows, rows[:, 0], brokers)
