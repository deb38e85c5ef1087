"""Makes a plan from a state and the requested changes."""

from __future__ import annotations

from collections.abc import Mapping

from quorumd.errors import ConfigError
from quorumd.pipeline.plan.files import Plan
from quorumd.pipeline.plan.planning import Changes, make_outcome
from quorumd.pipeline.plan.shards import Runner, in_process
from quorumd.pipeline.plan.state import ClusterState
from quorumd.pipeline.plan.tables import brokers_table, figures, moves_table, sizes_table

PARTITIONS_OF_A_SHARD = 100_000
MOVE_LIMIT = 50
"""Default limit of the replicas that a broker receives, removes and sends in a wave."""


def make_plan(
    state: ClusterState,
    changes: Changes,
    *,
    move_limit: int | None = MOVE_LIMIT,
    shards: int | None = None,
    runner: Runner = in_process,
    made_from: Mapping[str, object] | None = None,
) -> Plan:
    """Make a plan for the state.

    The plan depends on the number of `shards` (None: chosen by size), but not on the `runner` that executes them.
    `made_from` is stored with the plan. Raises ConfigError for impossible changes.
    """
    if not len(state):
        raise ConfigError("there are no partitions in this state: nothing to plan")
    count = shards if shards is not None else shards_for(len(state))
    outcome = make_outcome(state, changes, shards=count, runner=runner)
    moves = moves_table(outcome, move_limit)
    origin = {**(made_from or {}), "move_limit": move_limit, "shards": count}
    return Plan(moves, brokers_table(outcome), figures(outcome, moves), origin, sizes_table(outcome))


def shards_for(partitions: int) -> int:
    """Return the number of shards for a number of partitions: small shards fit the CPU caches."""
    return -(-partitions // PARTITIONS_OF_A_SHARD)


def fenced_brokers(state: ClusterState, changes: Changes) -> list[int]:
    """Return fenced brokers that the changes do not remove."""
    leaving = changes.remove | changes.replace.keys()
    return [id for id, broker in state.brokers.items() if broker.fenced and id not in leaving]


def cordoned_brokers(state: ClusterState, changes: Changes) -> list[int]:
    """Return cordoned brokers that the changes do not remove."""
    leaving = changes.remove | changes.replace.keys()
    return [id for id, broker in state.brokers.items() if broker.cordoned and id not in leaving]
