"""Making a plan: the state and what shall change in, tables and figures out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quorumd.errors import ConfigError
from quorumd.pipeline.plan.files import Plan
from quorumd.pipeline.plan.planning import Changes, make_outcome
from quorumd.pipeline.plan.shards import Runner, in_process
from quorumd.pipeline.plan.state import ClusterState
from quorumd.pipeline.plan.tables import brokers_table, figures, moves_table

PARTITIONS_OF_A_SHARD = 100_000
MOVE_LIMIT = 50
"""Replicas that a broker gets, loses and sends in a wave, unless said."""


def make_plan(
    state: ClusterState,
    changes: Changes,
    *,
    move_limit: int | None = MOVE_LIMIT,
    shards: int | None = None,
    runner: Runner = in_process,
    made_from: Mapping[str, Any] | None = None,
) -> Plan:
    """A plan for the state. `shards` makes the plan what it is (None: as many as suit the size), `runner` only where
    it is made. `made_from` is written down with the plan. Raises ConfigError for changes that cannot be."""
    if not len(state):
        raise ConfigError("there are no partitions in this state: nothing to plan")
    count = shards if shards is not None else shards_for(len(state))
    outcome = make_outcome(state, changes, shards=count, runner=runner)
    moves = moves_table(outcome, move_limit)
    told = {**(made_from or {}), "move_limit": move_limit, "shards": count}
    return Plan(moves, brokers_table(outcome), figures(outcome, moves), told)


def shards_for(partitions: int) -> int:
    """How many shards suit so many partitions: small ones stay in the caches."""
    return -(-partitions // PARTITIONS_OF_A_SHARD)


def fenced_brokers(state: ClusterState, changes: Changes) -> list[int]:
    """Brokers that are down and not told to be empty: what shall be with them must be said."""
    leaving = changes.remove | changes.replace.keys()
    return [id for id, broker in state.brokers.items() if broker.fenced and id not in leaving]


def cordoned_brokers(state: ClusterState, changes: Changes) -> list[int]:
    """Brokers that no reassignment may name, and that are not told to be empty."""
    leaving = changes.remove | changes.replace.keys()
    return [id for id, broker in state.brokers.items() if broker.cordoned and id not in leaving]
