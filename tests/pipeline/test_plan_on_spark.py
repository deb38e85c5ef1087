"""Shards planned by Spark give the same plan as a single process."""

from __future__ import annotations

from pyspark.sql import SparkSession

from quorumd.pipeline.plan.planner import make_plan
from quorumd.pipeline.plan.planning import Changes
from quorumd.pipeline.plan.spark_shards import on_spark
from scripts.skewed_states import skewed_state


def test_plan_equals_plan_of_one_process(spark: SparkSession) -> None:
    state = skewed_state(4_000, [f"r{n % 4}" for n in range(20)])
    changes = Changes(frozenset({3}), {20: "r3"})
    here = make_plan(state, changes, shards=6)
    there = make_plan(state, changes, shards=6, runner=on_spark(spark))
    assert there.moves.equals(here.moves)
    assert there.brokers.equals(here.brokers)
    assert there.figures == here.figures
    assert here.figures["moves"] == here.figures["lower_bound"]
