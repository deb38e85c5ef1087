"""The directory of a plan: Kafka's JSON, rollback, and errors for other directories."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quorumd.cli.partitions.reassignment_plan import read_plan
from quorumd.client.admin import TopicPartition
from quorumd.errors import ConfigError, InputIncomplete
from quorumd.pipeline.plan.comparison import compared, of_waves, replicas_on
from quorumd.pipeline.plan.files import Plan, read_plan_directory, rollback_file, wave_file, write_plan
from quorumd.pipeline.plan.planner import make_plan
from quorumd.pipeline.plan.planning import Changes, make_outcome
from quorumd.pipeline.plan.state import ClusterState
from quorumd.pipeline.tables.schemas import PLAN_BROKERS, PLAN_MOVES
from scripts.skewed_states import skewed_state
from tests.support.plan.checks import after

STATE = skewed_state(60, [f"r{n % 3}" for n in range(6)], skew=1)
CHANGES = Changes(frozenset({1}), {6: "r1"})


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(STATE, CHANGES, move_limit=4, made_from={"state": "a test"})


def replicas(state: ClusterState) -> dict[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition(state.names[topic], number): tuple(broker for broker in row if broker >= 0)
        for topic, number, row in zip(
            state.topics.tolist(), state.partitions.tolist(), state.replicas.tolist(), strict=True
        )
    }


def test_tables_match_schemas(plan: Plan) -> None:
    assert plan.moves.schema == PLAN_MOVES.arrow()
    assert plan.brokers.schema == PLAN_BROKERS.arrow()
    assert plan.moves["bytes"].null_count == plan.moves.num_rows


def test_waves_reach_plan_and_rollback_reverts_it(plan: Plan, tmp_path: Path) -> None:
    write_plan(plan, tmp_path / "plan")
    now = replicas(STATE)
    before = dict(now)
    for wave in range(1, plan.waves + 1):
        back = read_plan(rollback_file(tmp_path / "plan", wave))
        assert {where: now[where] for where in back} == back, "the way back of what is changed now"
        now |= read_plan(wave_file(tmp_path / "plan", wave))
    assert now == replicas(after(make_outcome(STATE, CHANGES)))
    for wave in range(plan.waves, 0, -1):
        now |= read_plan(rollback_file(tmp_path / "plan", wave))
    assert now == before


def test_reassignment_json_is_kafka_format(plan: Plan, tmp_path: Path) -> None:
    write_plan(plan, tmp_path / "plan")
    document = json.loads(wave_file(tmp_path / "plan", 1).read_text())
    assert document["version"] == 1
    first = document["partitions"][0]
    assert set(first) == {"topic", "partition", "replicas", "log_dirs"}
    assert first["log_dirs"] == ["any"] * len(first["replicas"])


def test_plan_survives_round_trip(plan: Plan, tmp_path: Path) -> None:
    write_plan(plan, tmp_path / "plan")
    found = read_plan_directory(tmp_path / "plan")
    assert found.moves.equals(plan.moves)
    assert found.brokers.equals(plan.brokers)
    assert found.figures == json.loads(json.dumps(plan.figures))
    assert found.made_from["state"] == "a test"


def test_figures_match_tables(plan: Plan) -> None:
    adds = sum(len(ids) for ids in plan.moves["adds"].to_pylist())
    assert plan.figures["moves"] == adds == plan.figures["lower_bound"]
    brokers = plan.brokers.to_pylist()
    alive = [row for row in brokers if row["broker"] != 1]
    assert plan.figures["after"]["replicas_max"] == max(row["replicas_after"] for row in alive)
    assert plan.figures["before"]["leaders_max"] == max(row["leaders_before"] for row in alive)
    assert all(row["replicas_after"] == row["replicas_target"] for row in brokers)
    assert {row["broker"]: row["replicas_after"] for row in brokers}[1] == 0


def test_non_empty_directory_is_rejected(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(ConfigError, match="already exists"):
        write_plan(plan, tmp_path)


@pytest.mark.parametrize("damage", ["plan.json", "moves.parquet", "brokers.parquet"])
def test_incomplete_plan_directory_is_reported(plan: Plan, tmp_path: Path, damage: str) -> None:
    write_plan(plan, tmp_path / "plan")
    (tmp_path / "plan" / damage).unlink()
    with pytest.raises(InputIncomplete, match=str(tmp_path / "plan")):
        read_plan_directory(tmp_path / "plan")
    (tmp_path / "plan" / damage).write_text("[]")
    with pytest.raises(InputIncomplete, match=str(tmp_path / "plan")):
        read_plan_directory(tmp_path / "plan")
    (tmp_path / "plan" / damage).write_text("{}")
    with pytest.raises(InputIncomplete, match=str(tmp_path / "plan")):
        read_plan_directory(tmp_path / "plan")


@pytest.mark.parametrize("figure", ["waves", "before", "made_from", "lower_bound"])
def test_missing_or_invalid_figure_is_named(plan: Plan, tmp_path: Path, figure: str) -> None:
    write_plan(plan, tmp_path)
    document = json.loads((tmp_path / "plan.json").read_text())
    for damaged in ({**document, figure: "many"}, {k: v for k, v in document.items() if k != figure}):
        (tmp_path / "plan.json").write_text(json.dumps(damaged))
        with pytest.raises(InputIncomplete, match=rf"plan\.json: {figure}: "):
            read_plan_directory(tmp_path)


def test_state_is_compared_with_plan(plan: Plan) -> None:
    untouched = of_waves(compared(plan.moves, STATE))
    assert all(row["not_begun"] == row["partitions"] for row in untouched)
    planned = after(make_outcome(STATE, CHANGES))
    assert compared(plan.moves, planned).is_done
    moved = planned.replicas.copy()
    (row,) = (
        at
        for at, where in enumerate(replicas(planned))
        if where == (plan.moves["topic"][0].as_py(), plan.moves["partition"][0].as_py())
    )
    moved[row] = moved[row, ::-1]
    names = [planned.names[topic] for topic in planned.topics]
    other = ClusterState.of(
        names[:-1] if row < len(names) - 1 else names,
        planned.partitions[: len(names) - (row < len(names) - 1)],
        moved[: len(names) - (row < len(names) - 1)],
        moved[: len(names) - (row < len(names) - 1), 0],
        planned.brokers.values(),
    )
    found = compared(plan.moves, other)
    assert not found.is_done
    (difference,) = (each for each in found.differences().to_pylist() if each["verdict"] == "superseded")
    assert difference["now"] == moved[row].tolist()


def test_partition_is_done_once_its_replicas_are_in_sync(plan: Plan) -> None:
    planned = after(make_outcome(STATE, CHANGES))
    topic, number = plan.moves["topic"][0].as_py(), plan.moves["partition"][0].as_py()
    (row,) = (at for at, where in enumerate(replicas(planned)) if where == (topic, number))
    assigned = np.c_[planned.assigned, np.full(len(planned), -1, np.int32)]
    assigned[row, -1] = 77
    moving = replace(planned, assigned=assigned, settled=np.arange(len(planned)) != row)
    found = compared(plan.moves, moving)
    assert not found.is_done
    (difference,) = found.differences().to_pylist()
    assert difference["verdict"] == "in_progress"
    assert replicas_on(77, moving) == [
        {
            "topic": topic,
            "partition": number,
            "replicas": [replica for replica in assigned[row].tolist() if replica >= 0],
            "settled": False,
        }
    ]
    assert replicas_on(78, moving) == []
