"""Preferred leaders are as even as any choice on the same replicas, by an exact matching."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from quorumd.pipeline.plan.arrays import NONE, Rows
from quorumd.pipeline.plan.leaders import balanced_leaders
from tests.support.plan.exact_leaders import smallest_maximum_and_largest_minimum


def drawn(seed: int) -> tuple[Rows, list[int]]:
    """Replicas with mixed replication factors, and the brokers that may lead, one of them in each row."""
    lots = Random(seed)
    brokers = lots.randint(2, 9)
    alive = sorted(lots.sample(range(brokers), lots.randint(max(1, brokers - 2), brokers)))
    widest = lots.randint(1, min(4, brokers))
    skewed = [lots.random() ** 3 + 0.01 for _ in range(brokers)]
    rows = []
    for _ in range(lots.randint(1, 30)):
        factor = lots.randint(1, widest)
        row = [lots.choice(alive)]
        while len(row) < factor:
            (broker,) = lots.choices(range(brokers), skewed)
            if broker not in row:
                row.append(broker)
        lots.shuffle(row)
        rows.append(row + [NONE] * (widest - factor))
    return np.array(rows, np.int32), alive


@pytest.mark.parametrize("first", range(0, 10_000, 500))
def test_leaders_are_as_even_as_possible(first: int) -> None:
    for seed in range(first, first + 500):
        rows, alive = drawn(seed)
        made = balanced_leaders(rows, np.array(alive, np.int64))
        assert np.array_equal(np.sort(made, axis=1), np.sort(rows, axis=1)), seed
        counts = np.bincount(made[:, 0], minlength=max(alive) + 1)[alive]
        expected = smallest_maximum_and_largest_minimum(rows.tolist(), alive)
        assert (counts.max(), counts.min()) == expected, seed
