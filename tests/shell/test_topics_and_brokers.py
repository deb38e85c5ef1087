"""Topics, partitions and brokers from the command line, against daemons in processes of their own."""

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

FIRST, SECOND, THIRD = BROKERS = (101, 102, 103)


@pytest.fixture
def stand_ins(cluster: Cluster) -> Iterator[list[BrokerStandIn]]:
    with brokers(cluster, BROKERS, ("a", "a", "b")) as started:
        yield started


def quorumd(cluster: Cluster, *arguments: str | Path, fails: bool = False) -> str:
    """What a command says on stdout; it exits with 0, or with 1 and a reason."""
    done = run_quorumd(*arguments, "--bootstrap-server", cluster.bootstrap)
    assert (done.returncode, bool(done.stderr)) == (int(fails), fails), done
    return done.stdout


def told(cluster: Cluster, *arguments: str | Path, fails: bool = False) -> Any:
    """The JSON that a command prints."""
    return json.loads(quorumd(cluster, *arguments, "--output", "json", fails=fails))


def plan(path: Path, *partitions: tuple[int, list[int]]) -> Path:
    moves = [{"topic": "orders", "partition": n, "replicas": replicas} for n, replicas in partitions]
    path.write_text(json.dumps({"version": 1, "partitions": moves}))
    return path


def catch_up(cluster: Cluster, leader: BrokerStandIn, partition_epoch: int, isr: Sequence[int]) -> None:
    """The leader of partition 0 says who is in sync with it now."""

    async def propose() -> int:
        async with AdminClient(cluster.addresses) as admin:
            (topic,) = await admin.describe_topics(["orders"])
            data = PartitionData(0, topic.partitions[0].leader_epoch)
            data.partition_epoch = partition_epoch
            data.new_isr_with_epochs = [BrokerState(broker_id) for broker_id in isr]
            asked = TopicData("", topic.topic_id, [data])
            answer: Any = await admin.send(
                AlterPartitionRequest(leader.broker_id, leader.epoch, [asked]), "leader"
            )
            return int(answer.error_code or answer.topics[0].partitions[0].error_code)

    assert asyncio.run(propose()) in (0, 108), "accepted, or accepted and led by another now"


@pytest.mark.usefixtures("stand_ins")
def test_a_topic_is_made_grows_and_is_deleted(cluster: Cluster) -> None:
    create = ("topics", "create", "orders", "--partitions", "2", "--replication-factor", "2")
    made = told(cluster, *create)
    assert (made["created"], made["partitions"], made["replicationFactor"]) == (True, 2, 2)
    assert quorumd(cluster, *create, fails=True) == ""
    assert not told(cluster, *create, "--if-not-exists")["created"]
    grown = quorumd(cluster, "topics", "add-partitions", "orders", "--partitions", "3")
    assert grown == "committed: topic 'orders' has 3 partitions\n"
    (row,) = told(cluster, "topics", "list")
    assert (row["topic"], row["partitions"], row["leaderless"]) == ("orders", 3, 0)
    assert told(cluster, "topics", "delete", "orders") == {"deleted": ["orders"]}
    assert told(cluster, "topics", "list") == []


def test_partitions_move_and_go_back(
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
    assert told(cluster, *reassign, "--verify", fails=True) == [moving]
    (described,) = told(cluster, "topics", "describe", "orders")
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
    assert elected == "no partition needs an election\n"

    quorumd(cluster, "partitions", "reassign", "--plan", back, "--execute")
    assert "cancelled: 1 of 1" in quorumd(cluster, "partitions", "reassign", "--plan", back, "--cancel")
    (done,) = told(cluster, *reassign, "--verify")
    assert done["replicas"] == [THIRD, SECOND]
    quorumd(cluster, "topics", "delete", "orders")


@pytest.mark.usefixtures("stand_ins")
def test_what_is_refused_is_told_without_a_traceback(cluster: Cluster, tmp_path: Path) -> None:
    quorumd(cluster, "topics", "create", "orders", "--partitions", "1")
    stranger = plan(tmp_path / "stranger.json", (0, [7]))
    assert quorumd(cluster, "partitions", "reassign", "--plan", stranger, "--execute", fails=True) == ""
    (unknown,) = told(
        cluster, "partitions", "elect", "--preferred", "--topic", "orders", "--partition", "9", fails=True
    )
    assert unknown["error"] == "UNKNOWN_TOPIC_OR_PARTITION (3)"
    assert quorumd(cluster, "topics", "create", "a b", fails=True) == ""
    assert quorumd(cluster, "topics", "create", "wide", "--replication-factor", "4", fails=True) == ""
    quorumd(cluster, "topics", "delete", "orders")


def test_a_topic_is_made_while_the_leader_dies(cluster: Cluster, stand_ins: list[BrokerStandIn]) -> None:
    del stand_ins
    cluster.leader().kill()
    assert told(cluster, "topics", "create", "later", "--partitions", "2")["partitions"] == 2
    cluster.heal()
    quorumd(cluster, "topics", "delete", "later")


def test_brokers_are_shown_and_forgotten(cluster: Cluster, stand_ins: list[BrokerStandIn]) -> None:
    rows = {row["id"]: row for row in told(cluster, "brokers", "list")}
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
    assert told(cluster, "brokers", "describe", "104")["epoch"] == gone.epoch
    assert quorumd(cluster, "brokers", "unregister", "104", fails=True) == ""
    gone.stop(unregister=False)
    assert told(cluster, "brokers", "unregister", "104", "--force") == {"id": 104, "registered": False}
    assert sorted(row["id"] for row in told(cluster, "brokers", "list")) == list(BROKERS)
    assert quorumd(cluster, "brokers", "describe", "104", fails=True) == ""
