"""Plans for a live cluster, executed wave by wave and rolled back by quorumd's own commands."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorumd.client.admin import AdminClient
from quorumd.pipeline.plan.loading import state_of_cluster, state_of_logs
from tests.support.plan.placement import placed
from tests.support.processes.daemons import Cluster, run_quorumd
from tests.support.processes.fake_broker import BrokerStandIn, brokers
from tests.support.processes.replicating_brokers import copying
from tests.support.text import shows

BROKERS = (101, 102, 103, 104, 105, 106)
RACKS = ("a", "b", "c", "a", "b", "c")
CROWDED = "101:102:103,102:103:101,103:101:102,101:102:103"


@pytest.fixture
def stand_ins(cluster: Cluster) -> Iterator[list[BrokerStandIn]]:
    with brokers(cluster, BROKERS, RACKS) as started:
        for topic in ("orders", "payments"):
            made = run_quorumd(
                *("topics", "create", topic, "--replica-assignment", CROWDED),
                *("--bootstrap-server", cluster.bootstrap),
            )
            assert made.returncode == 0, made
        yield started
        for topic in ("orders", "payments"):
            run_quorumd("topics", "delete", topic, "--bootstrap-server", cluster.bootstrap)


def plan(*arguments: str | Path, exits: int = 0) -> subprocess.CompletedProcess[str]:
    done = run_quorumd("pipeline", "plan", *arguments)
    assert done.returncode == exits, done
    assert "Traceback" not in done.stderr
    return done


def rows(*arguments: str | Path, exits: int = 0) -> Any:
    return json.loads(plan(*arguments, "--output", "json", exits=exits).stdout)


def test_plan_is_applied_in_waves_and_rolled_back(
    cluster: Cluster, stand_ins: list[BrokerStandIn], tmp_path: Path
) -> None:
    directory, live = tmp_path / "plan", ("--bootstrap-server", cluster.bootstrap)
    made = rows("make", *live, "--remove", "103", "--move-limit", "2", "--out", directory)
    assert made["moves"] == made["lower_bound"] == 16
    assert made["waves"] > 1
    before = placed(cluster)
    shown = rows("apply", directory, *live)
    assert sum(row["to_do"] for row in shown) == made["changed_partitions"]
    assert placed(cluster) == before, "not executed without --execute"
    assert all(row["not_begun"] == row["partitions"] for row in rows("verify", directory, *live, exits=1))
    with copying(cluster, stand_ins):
        rows("apply", directory, *live, "--execute", "--wave", "1")
        assert rows("verify", directory, *live, exits=1)[0]["done"]
        done = rows("apply", directory, *live, "--execute")
        assert all(row["done"] == row["partitions"] for row in done), "the remaining waves"
        rows("verify", directory, *live)
        assert not any(103 in replicas for replicas in placed(cluster).values())
        again = rows("make", *live, "--remove", "103", "--out", tmp_path / "again")
        assert (again["moves"], again["changed_partitions"], again["waves"]) == (0, 0, 0)
        rows("rollback", directory, *live, "--execute")
    assert placed(cluster) == before


def test_partitions_changed_since_the_plan_are_not_touched(
    cluster: Cluster, stand_ins: list[BrokerStandIn], tmp_path: Path
) -> None:
    directory, live = tmp_path / "plan", ("--bootstrap-server", cluster.bootstrap)
    rows("make", *live, "--out", directory)
    changed = json.loads((directory / "waves" / "0001.json").read_text())["partitions"][0]
    other = [broker for broker in BROKERS if broker not in changed["replicas"]][:2]
    (tmp_path / "other.json").write_text(
        json.dumps(
            {
                "version": 1,
                "partitions": [
                    {"topic": changed["topic"], "partition": changed["partition"], "replicas": other}
                ],
            }
        )
    )
    with copying(cluster, stand_ins):
        moved = run_quorumd(
            *("partitions", "reassign", "--plan", tmp_path / "other.json", "--execute", "--wait"),
            *("--bootstrap-server", cluster.bootstrap),
        )
        assert moved.returncode == 0, moved
        refused = plan("apply", directory, *live, "--execute", exits=1)
        name = f"{changed['topic']}-{changed['partition']}"
        assert shows(refused.stderr, "changed", name)
        found = rows("verify", directory, *live, "--differences", exits=1)
        assert [row["now"] for row in found if row["verdict"] == "superseded"] == [other]
        rows("apply", directory, *live, "--execute", "--force")
        rows("verify", directory, *live)


@pytest.mark.usefixtures("stand_ins")
def test_live_cluster_and_its_log_give_the_same_state(cluster: Cluster) -> None:
    async def describe() -> Any:
        async with AdminClient(cluster.addresses) as admin:
            return await state_of_cluster(admin)

    live = asyncio.run(describe())
    logged = state_of_logs({1: str(cluster.leader().partition_directory.parent)})
    assert live.names == logged.names == ("orders", "payments")
    assert live.replicas.tolist() == logged.replicas.tolist()
    assert live.leaders.tolist() == logged.leaders.tolist()
    assert {id: broker.rack for id, broker in live.brokers.items()} == dict(zip(BROKERS, RACKS, strict=True))
    assert live.brokers == logged.brokers
