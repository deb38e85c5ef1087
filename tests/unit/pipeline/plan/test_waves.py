"""Waves respect the limits per broker, and changes of leaders come last."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorumd.pipeline.plan.arrays import not_in
from quorumd.pipeline.plan.planning import Changes, make_outcome
from quorumd.pipeline.plan.waves import RECORDS_OF_A_REQUEST, waves
from scripts.skewed_states import skewed_state


@settings(max_examples=20)
@given(st.integers(0, 1_000), st.integers(1, 6))
def test_waves_respect_limits_per_broker(seed: int, limit: int) -> None:
    state = skewed_state(150, [f"r{n % 3}" for n in range(9)], seed=seed, skew=0.8)
    outcome = make_outcome(state, Changes(frozenset({2}), {9: "r2"}))
    old, new = outcome.old, outcome.new
    first = (old == 2).any(1)
    found = waves(old, new, old[:, 0].astype(np.int64), first, limit)
    changed = (old != new).any(1)
    assert ((found > 0) == changed).all(), "a wave for each partition that changes, and for no other"
    gets, loses = not_in(new, old), not_in(old, new)
    for wave in range(1, int(found.max()) + 1):
        at = found == wave
        assert max(Counter(new[at][gets[at]].tolist()).values(), default=0) <= limit
        assert max(Counter(old[at][loses[at]].tolist()).values(), default=0) <= limit
        assert max(Counter(old[at & gets.any(1)][:, 0].tolist()).values(), default=0) <= limit
    moved, turned = found[gets.any(1)], found[changed & ~gets.any(1)]
    assert moved.max() < turned.min(initial=1 << 30), "leaders last"


def test_wave_fits_one_kafka_request() -> None:
    old = np.zeros((25_000, 1), np.int32)
    new = np.ones((25_000, 1), np.int32)
    none = np.full(len(old), -1, np.int64)
    for limit in (None, 1_000_000):
        found = waves(old, new, none, np.zeros(len(old), bool), limit)
        assert np.bincount(found).tolist() == [0, RECORDS_OF_A_REQUEST, RECORDS_OF_A_REQUEST, 5_000]


def test_urgent_partitions_are_in_first_waves() -> None:
    old, new = np.zeros((20, 1), np.int32), np.ones((20, 1), np.int32)
    first = np.arange(20) >= 15
    found = waves(old, new, np.full(20, -1, np.int64), first, 5)
    assert found[first].tolist() == [1] * 5


@pytest.mark.parametrize("limit", [None, 3])
def test_unchanged_partitions_have_no_wave(limit: int | None) -> None:
    rows = np.array([[1, 2], [2, 1]], np.int32)
    assert not waves(rows, rows, np.array([1, 2]), np.zeros(2, bool), limit).any()
