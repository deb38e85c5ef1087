"""States of clusters that grew unevenly, for plans to mend; the same for the same seed."""

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
    """Brokers from 0 on in these racks, some of which got far more replicas than others; those of a partition are in
    different racks as far as there are enough, if `heeds_racks`."""
    random = np.random.default_rng(seed)
    count = len(racks)
    names = sorted({rack or "" for rack in racks})
    rack_of = np.array([names.index(rack or "") for rack in racks])
    likely = np.exp(random.normal(0, skew, count))
    rows = np.full((partitions, replication_factor), -1, np.int32)
    for column in range(replication_factor):
        todo = np.arange(partitions)
        # Where racks leave no choice, they are not heeded.
        for attempt in range(200):
            if not len(todo):
                break
            # Of the last broker that is left for a partition, too few may be drawn if it is an unlikely one.
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
