"""Properties that every plan must have."""

from __future__ import annotations

import numpy as np

from quorumd.pipeline.plan.arrays import Ints, not_in
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.planning import Outcome
from quorumd.pipeline.plan.state import ClusterState


def loads(outcome: Outcome) -> Ints:
    """Return the final load of each broker."""
    found = np.zeros(len(outcome.broker_index.ids), np.int64)
    for row, weight in zip(outcome.new.tolist(), outcome.weights.tolist(), strict=True):
        for broker in row:
            if broker >= 0:
                found[broker] += weight
    return found


def leads(outcome: Outcome) -> Ints:
    """Return the final number of preferred leaderships of each broker."""
    return np.bincount(outcome.new[:, 0], minlength=len(outcome.broker_index.ids))


def moves(outcome: Outcome) -> int:
    """Return the copied replicas, in units of the weights."""
    return int((not_in(outcome.new, outcome.old).sum(1) * outcome.weights).sum())


def rack_counts(outcome: Outcome) -> Ints:
    zeros = np.zeros(len(outcome.new), np.int64)
    placement = Placement(
        outcome.new.copy(), outcome.wanted, zeros, zeros, outcome.broker_index.rack_of, outcome.rules
    )
    return placement.rack_counts(np.arange(len(outcome.new)))


def check(outcome: Outcome) -> None:
    """Check that no replica is duplicated, missing or on a drained broker, and that racks are as even as possible."""
    for row, wanted in zip(outcome.new.tolist(), outcome.wanted.tolist(), strict=True):
        replicas = [broker for broker in row if broker >= 0]
        assert replicas == row[: len(replicas)], "full from the left"
        assert len(set(replicas)) == len(replicas) == wanted
        assert all(outcome.broker_index.rack_of[broker] >= 0 for broker in replicas)
    counts = rack_counts(outcome)
    assert (counts <= outcome.rules.most[outcome.wanted]).all(), "a rack has too many of a partition"
    assert (counts >= outcome.rules.fewest[outcome.wanted]).all(), "a rack has too few of a partition"


def after(outcome: Outcome) -> ClusterState:
    """Return the state after the plan is carried out."""
    state, ids = outcome.state, outcome.broker_index.ids
    rows = np.where(outcome.new >= 0, ids[outcome.new], -1).astype(np.int32)
    width = max(rows.shape[1], state.replicas.shape[1])
    replicas = np.full((len(state), width), -1, np.int32)
    replicas[:, : state.replicas.shape[1]] = state.replicas
    replicas[outcome.index] = -1
    replicas[outcome.index, : rows.shape[1]] = rows
    names = [state.names[topic] for topic in state.topics]
    return ClusterState.of(names, state.partitions, replicas, replicas[:, 0], state.brokers.values())
