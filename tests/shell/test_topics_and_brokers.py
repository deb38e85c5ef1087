"""Topics, partitions and brokers on the command line, against daemon processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from quorumd.client.admin import AdminClient
from quorumd.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from tests.support.processes.daemons import PATIENCE_S, Cluster, run_quorumd
from tests.support.processes.fake_broker import BrokerStandIn, brokers
from tests.support.text import shows

FIRST, SECOND, THIRD = BROKERS = (101, 102, 103)


@pytest.fixture
def stand_ins(cluster: Cluster) -> Iterator[list[BrokerStandIn]]:
    with brokers(cluster, BROKERS, ("a", "a", "b")) as started:
        yield started


def quorumd(cluster: Cluster, *arguments: str | Path, fails: bool = False) -> str:
    """Run a command and return its stdout; its exit code is 0, or 1 with a reason if `fails`."""
    done = run_quorumd(*arguments, "--bootstrap-server", cluster.bootstrap)
    assert (done.returncode, bool(done.stderr)) == (int(fails), fails), done
    return done.stdout


def quorumd_json(cluster: Cluster, *arguments: str | Path, fails: bool = False) -> Any:
    """Run a command with --output json and return the parsed output."""
    return json.loads(quorumd(cluster, *arguments, "--output", "json", fails=fails))


def plan(path: Path, *partitions: tuple[int, list[int]]) -> Path:
    moves = [{"topic": "orders", "partition": n, "replicas": replicas} for n, replicas in partitions]
    path.write_text(json.dumps({"version": 1, "partitions": moves}))
    return path


def catch_up(cluster: Cluster, leader: BrokerStandIn, partition_epoch: int, isr: Sequence[int]) -> None:
    """Send the new ISR of partition 0 as its leader."""

    async def propose() -> int:
        async with AdminClient(cluster.addresses) as admin:
            (topic,) = await admin.describe_topics(["orders"])
            data = PartitionData(0, topic.partitions[0].leader_epoch)
            data.partition_epoch = partition_epoch
            data.new_isr_with_epochs = [BrokerState(broker_id) for broker_id in isr]
            topic_data = TopicData("", topic.topic_id, [data])
            response: Any = await admin.send(
                AlterPartitionRequest(leader.broker_id, leader.epoch, [topic_data]), "leader"
            )
            return int(response.error_code or response.topics[0].partitions[0].error_code)

    assert asyncio.run(propose()) in (0, 108), "accepted, or accepted with a new leader"


@pytest.mark.usefixtures("stand_ins")
def test_topic_is_created_expanded_and_deleted(cluster: Cluster) -> None:
    create = ("topics", "create", "orders", "--partitions", "2", "--replication-factor", "2")
    made = quorumd_json(cluster, *create)
    assert (made["created"], made["partitions"], made["replicationFactor"]) == (True, 2, 2)
    assert quorumd(cluster, *create, fails=True) == ""
    assert not quorumd_json(cluster, *create, "--if-not-exists")["created"]
    grown = quorumd(cluster, "topics", "add-partitions", "orders", "--partitions", "3")
    assert shows(grown, "committed", "'orders'", "3 partitions")
    (row,) = quorumd_json(cluster, "topics", "list")
    assert (row["topic"], row["partitions"], row["leaderless"]) == ("orders", 3, 0)
    assert quorumd_json(cluster, "topics", "delete", "orders") == {"deleted": ["orders"]}
    assert quorumd_json(cluster, "topics", "list") == []


def test_partitions_are_reassigned_and_moved_back(
    cluster: Cluster, stand_ins: list[BrokerStandIn], tmp_path: Path
) -> None:
    create = ("topics", "create", "orders", "--replica-assignment", "101:102,102:101")
    quorumd(cluster, *create, "--config", "min.insync.replicas=1")
    move, back = plan(tmp_path / "move.json", (0, [THIRD, SECOND])), tmp_path / "back.json"
    reassign = ("partitions", "reassign", "--plan", move)
    server = ("--bootstrap-server", cluster.bootstrap)
    begun = run_quorumd(*reassign, "--execute", "--save", back, "--output", "json", *server)
    (moving,) = json.loads(begun.stdout)
    assert (moving["state"], moving["waitsFor"]) == ("moving", [THIRD])
    assert quorumd_json(cluster, *reassign, "--verify", fails=True) == [moving]
    (described,) = quorumd_json(cluster, "topics", "describe", "orders")
    assert described["configs"] == {"min.insync.replicas": "1"}
    partition = described["partitions"][0]
    assert (partition["leader"], partition["isr"]) == (FIRST, [FIRST, SECOND])
    assert (partition["replicas"], partition["adding"]) == ([THIRD, SECOND, FIRST], [THIRD])

    command = [sys.executable, "-m", "quorumd", *map(str, reassign), "--verify", "--wait", *server]
    waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    catch_up(cluster, stand_ins[0], partition_epoch=1, isr=BROKERS)
    out, err = waiting.communicate(timeout=PATIENCE_S)
    assert (waiting.returncode, "done" in out) == (0, True), err
    elected = quorumd(cluster, "partitions", "elect", "--preferred", "--all")
    assert elected.startswith("no partition")

    quorumd(cluster, "partitions", "reassign", "--plan", back, "--execute")
    assert "cancelled: 1 of 1" in quorumd(cluster, "partitions", "reassign", "--plan", back, "--cancel")
    (done,) = quorumd_json(cluster, *reassign, "--verify")
    assert done["replicas"] == [THIRD, SECOND]
    quorumd(cluster, "topics", "delete", "orders")


@pytest.mark.usefixtures("stand_ins")
def test_errors_are_printed_without_a_traceback(cluster: Cluster, tmp_path: Path) -> None:
    quorumd(cluster, "topics", "create", "orders", "--partitions", "1")
    stranger = plan(tmp_path / "stranger.json", (0, [7]))
    assert quorumd(cluster, "partitions", "reassign", "--plan", stranger, "--execute", fails=True) == ""
    (unknown,) = quorumd_json(
        cluster, "partitions", "elect", "--preferred", "--topic", "orders", "--partition", "9", fails=True
    )
    assert unknown["error"] == "UNKNOWN_TOPIC_OR_PARTITION (3)"
    assert quorumd(cluster, "topics", "create", "a b", fails=True) == ""
    assert quorumd(cluster, "topics", "create", "wide", "--replication-factor", "4", fails=True) == ""
    quorumd(cluster, "topics", "delete", "orders")


def test_topic_is_created_while_the_leader_is_killed(
    cluster: Cluster, stand_ins: list[BrokerStandIn]
) -> None:
    del stand_ins
    cluster.leader().kill()
    assert quorumd_json(cluster, "topics", "create", "later", "--partitions", "2")["partitions"] == 2
    cluster.heal()
    quorumd(cluster, "topics", "delete", "later")


def test_brokers_are_listed_and_unregistered(cluster: Cluster, stand_ins: list[BrokerStandIn]) -> None:
    rows = {row["id"]: row for row in quorumd_json(cluster, "brokers", "list")}
    assert {broker_id: row["rack"] for broker_id, row in rows.items()} == {
        FIRST: "a",
        SECOND: "a",
        THIRD: "b",
    }
    for stand_in in stand_ins:
        row = rows[stand_in.broker_id]
        assert (row["state"], row["epoch"], len(row["listeners"])) == ("running", stand_in.epoch, 1)
    gone = BrokerStandIn(104, cluster, cluster.addresses[0])
    gone.start()
    assert quorumd_json(cluster, "brokers", "describe", "104")["epoch"] == gone.epoch
    assert quorumd(cluster, "brokers", "unregister", "104", fails=True) == ""
    gone.stop(unregister=False)
    assert quorumd_json(cluster, "brokers", "unregister", "104", "--force") == {
        "id": 104,
        "registered": False,
    }
    assert sorted(row["id"] for row in quorumd_json(cluster, "brokers", "list")) == list(BROKERS)
    assert quorumd(cluster, "brokers", "describe", "104", fails=True) == ""
