"""Properties of plans of clusters of any shape."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quorumd.pipeline.plan.planning import Changes, Outcome, make_outcome
from quorumd.pipeline.plan.state import ClusterState
from scripts.skewed_states import skewed_state
from tests.support.plan.checks import after, check, leads, loads, moves
from tests.support.plan.exhaustive_placement import every_placement, tiny_cluster
from tests.support.plan.minimum_moves import fewest_moves


def drawn(seed: int, *, most: int = 120) -> tuple[ClusterState, Changes, Random]:
    """A cluster and a planning request."""
    lots = Random(seed)
    racks = [f"r{lots.randrange(lots.randint(1, 6))}" for _ in range(lots.randint(3, 12))]
    factor = lots.randint(1, min(4, len(racks) - 1))
    state = skewed_state(
        lots.randint(1, most),
        racks,
        factor,
        seed=seed,
        skew=lots.choice([0, 0.3, 1]),
        heeds_racks=lots.random() < 0.7,
    )
    leaving = frozenset(lots.sample(range(len(racks)), lots.randint(0, min(3, len(racks) - factor))))
    coming = {len(racks) + n: f"r{lots.randrange(6)}" for n in range(lots.randint(0, 3))}
    alive = len(racks) - len(leaving) + len(coming)
    factors = {"": lots.randint(1, min(5, alive))} if lots.random() < 0.3 else {}
    tolerance = lots.choice([None, None, 0.05, 0.3])
    return state, Changes(leaving, coming, factors=factors, tolerance=tolerance), lots


def is_in_bands(outcome: Outcome) -> bool:
    held, alive = loads(outcome), outcome.broker_index.alive
    return bool((held <= outcome.within.high)[alive].all() and (held >= outcome.within.low)[alive].all())


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_plans_keep_the_rules_and_are_even(seed: int) -> None:
    state, changes, lots = drawn(seed)
    outcome = make_outcome(state, changes, shards=lots.choice([1, 3]))
    check(outcome)
    assert is_in_bands(outcome)
    assert loads(outcome).sum() == outcome.wanted.sum()
    assert moves(outcome) == outcome.bound


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_plan_by_bytes_moves_at_least_its_bound(seed: int) -> None:
    """Also when replicas are too large for any plan within the bands."""
    state, changes, _ = drawn(seed, most=40)
    sizes = np.random.default_rng(seed).lognormal(20, 1.5, len(state)).astype(np.int64)
    outcome = make_outcome(state, replace(changes, sizes=sizes))
    check(outcome)
    assert moves(outcome) >= outcome.bound


@settings(max_examples=40)
@given(st.integers(0, 2**32))
@example(2261766)  # one choice of who leads one partition more was not possible, another one was
def test_plan_of_a_planned_state_is_empty(seed: int) -> None:
    state, changes, _ = drawn(seed)
    planned = after(make_outcome(state, changes))
    again = make_outcome(planned, Changes(changes.remove, changes.add, tolerance=changes.tolerance))
    assert moves(again) == 0
    width = min(again.old.shape[1], again.new.shape[1])
    assert np.array_equal(again.old[:, :width], again.new[:, :width]), "not even another order"


@settings(max_examples=10)
@given(st.integers(0, 2**32), st.sampled_from([1, 4]))
def test_moves_equal_the_bound_with_many_partitions(seed: int, shards: int) -> None:
    lots = Random(seed)
    racks = [f"r{n % 6}" for n in range(lots.randint(18, 30))]
    state = skewed_state(3_000, racks, seed=seed, skew=0.3)
    leaving = frozenset(lots.sample(range(len(racks)), lots.randint(0, 2)))
    coming = {100 + n: f"r{n}" for n in range(lots.randint(0, 4))}
    outcome = make_outcome(state, Changes(leaving, coming), shards=shards)
    check(outcome)
    assert moves(outcome) == outcome.bound
    held, led = loads(outcome)[outcome.broker_index.alive], leads(outcome)[outcome.broker_index.alive]
    assert held.max() - held.min() <= 1
    assert led.max() - led.min() <= 1


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_no_plan_needs_fewer_moves(seed: int) -> None:
    state, changes, lots = drawn(seed, most=40)
    outcome = make_outcome(state, changes, shards=lots.choice([1, 2]))
    fewest = fewest_moves(outcome)
    assert outcome.bound <= fewest <= moves(outcome)
    assert moves(outcome) == fewest


@pytest.mark.parametrize("hundred", range(20))
def test_tiny_plans_are_optimal(hundred: int) -> None:
    """No placement is more even, no equally even one needs fewer moves, and the bound equals the moves."""
    for seed in range(100 * hundred, 100 * (hundred + 1)):
        outcome = make_outcome(*tiny_cluster(seed))
        check(outcome)
        assert is_in_bands(outcome)
        reachable, alive = every_placement(outcome), outcome.broker_index.alive
        even = (reachable.loads >= outcome.within.low[alive]) & (
            reachable.loads <= outcome.within.high[alive]
        )
        fewest = int(reachable.moves[even.all(1)].min())
        assert moves(outcome) == fewest, seed
        assert outcome.bound == fewest, seed
        assert np.ptp(loads(outcome)[alive]) == np.ptp(reachable.loads, axis=1).min(), seed
