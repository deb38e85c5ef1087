"""Rounds of many moves respect room, and never add replicas of a topic beyond its current maximum per broker."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from quorumd.pipeline.plan.moves import fill, shed
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.targets import RackRules
from scripts.skewed_states import skewed_state

RACKS = [f"r{n % 4}" for n in range(16)]
RACK_OF = np.arange(16, dtype=np.int64) % 4


def placement_of(seed: int, width: int = 3) -> Placement:
    state = skewed_state(400, RACKS, 3, seed=seed, topics=60)
    wanted = np.full(400, width, np.int64)
    rows = np.full((400, width), -1, np.int32)
    rows[:, :3] = state.replicas
    _, topics = np.unique(state.topics, return_inverse=True)
    rules = RackRules.of(np.bincount(RACK_OF), wanted)
    return Placement(rows, wanted, np.ones(400, np.int64), topics.astype(np.int64), RACK_OF, rules)


def check(placement: Placement) -> None:
    """Check that the derived arrays of a placement match its rows."""
    fresh = Placement(
        placement.rows.copy(),
        placement.wanted,
        placement.weights,
        placement.topics,
        placement.rack_of,
        placement.rules,
    )
    assert np.array_equal(fresh.loads, placement.loads)
    assert np.array_equal(fresh.of_topic, placement.of_topic)
    for row in placement.rows.tolist():
        held = [broker for broker in row if broker >= 0]
        assert len({RACK_OF[broker] for broker in held}) == len(held)


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_surplus_replicas_find_room_and_keep_spread(seed: int) -> None:
    placement = placement_of(seed)
    before = placement.loads.copy()
    surplus, room = np.maximum(before - 75, 0), np.maximum(75 - before, 0)
    left, free = surplus.copy(), room.copy()
    shed(placement, left, free)
    check(placement)
    assert np.array_equal(placement.loads, before - (surplus - left) + (room - free))
    assert (left >= 0).all()
    assert (free >= 0).all()
    assert left.sum() < surplus.sum() / 10, "nearly all of it"
    counts = placement.of_topic.reshape(-1, 16).max(1)
    assert (counts <= placement.limits).all()


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_missing_replicas_are_filled(seed: int) -> None:
    placement = placement_of(seed, width=4)
    before = placement.loads.copy()
    room = np.full(16, 60, np.int64)
    fill(placement, room)
    check(placement)
    assert np.array_equal(placement.loads - before, 60 - room)
    assert (placement.rows >= 0).sum() > 1_500
    counts = placement.of_topic.reshape(-1, 16).max(1)
    assert (counts <= placement.limits).all()
