"""Replicas of very different weights are moved or exchanged until no step evens the brokers out."""

from __future__ import annotations

import numpy as np
import pytest

from quorumd.pipeline.plan.planning import Changes, Outcome, make_outcome
from quorumd.pipeline.plan.state import BrokerState, ClusterState, padded_rows
from tests.support.plan.checks import check, loads


def plan_of(held: list[list[int]], racks: str = "") -> Outcome:
    """Plan for partitions with one replica each: the sizes on each broker."""
    brokers = [broker for broker, sizes in enumerate(held) for _ in sizes]
    sizes = np.array([size for each in held for size in each], np.int64)
    topics = [f"t{number}" for number in range(len(sizes))]
    state = ClusterState.of(
        topics, [0] * len(sizes), padded_rows([[broker] for broker in brokers]), brokers,
        [BrokerState(broker, racks[broker] if racks else None) for broker in range(len(held))],
    )  # fmt: skip
    order = np.argsort(np.array(topics))
    return make_outcome(state, Changes(sizes=sizes[order]))


@pytest.mark.parametrize(
    ("held", "even"),
    [
        pytest.param([[600, 400], [40], [20, 20]], [80, 400, 600], id="replicas larger than a share"),
        pytest.param([[8, 8], [5, 5]], [13, 13], id="an exchange"),
        pytest.param([[9, 9, 9], [], []], [9, 9, 9], id="empty brokers"),
        pytest.param([[100], [1]], [1, 100], id="nothing to improve"),
        pytest.param([[30, 30, 30, 30], [30]], [60, 90], id="an odd number of equal replicas"),
    ],
)
def test_loads_are_as_even_as_whole_replicas_permit(held: list[list[int]], even: list[int]) -> None:
    outcome = plan_of(held)
    check(outcome)
    assert sorted(loads(outcome).tolist()) == even


def test_state_within_its_bands_is_not_changed() -> None:
    outcome = plan_of([[100, 101], [101, 101], [99, 101]])
    assert np.array_equal(outcome.old, outcome.new)
