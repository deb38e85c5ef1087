"""`quorumd topics`: requests and output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quorumd.cli import topics
from quorumd.cli.root import run
from quorumd.client.admin import TopicPartition
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.protocol.messages.create_topics_response import CreatableTopicResult
from quorumd.protocol.messages.describe_configs_response import DescribeConfigsResourceResult
from tests.support.client.fake_admin import SERVER, TOPIC_ID, FakeAdmin, partition
from tests.support.text import cells, shows

EXISTS = RequestFailed("topic 'orders': it is there", ErrorCode.TOPIC_ALREADY_EXISTS)
UNKNOWN = RequestFailed("topic 'orders': it is not there", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Admin(FakeAdmin):
    async def create_topic(self, *arguments: Any, **options: Any) -> CreatableTopicResult:
        self.record_call("create", *arguments, options)
        return CreatableTopicResult(arguments[0], TOPIC_ID, 0, None, 0, 12, 3)

    async def delete_topic(self, name: str) -> None:
        self.record_call("delete", name)

    async def add_partitions(self, name: str, total: int, *, validate_only: bool) -> None:
        self.record_call("add", name, total, validate_only)

    async def describe_configs(self, kind: int, name: str) -> list[DescribeConfigsResourceResult]:
        return [
            DescribeConfigsResourceResult("min.insync.replicas", "2", False, 1),
            DescribeConfigsResourceResult("retention.ms", "9", False, 5),
        ]


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    made = Admin()
    monkeypatch.setattr(topics, "run_admin", made.run)
    return made


def test_create_prints_topic(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["topics", "create", "orders", *SERVER, "--partitions", "12", "--replication-factor", "3"]
    assert run([*arguments, "--config", "min.insync.replicas=2", "--config", "retention.ms=9"]) == 0
    configs = {"min.insync.replicas": "2", "retention.ms": "9"}
    options = {"assignments": None, "configs": configs, "validate_only": False}
    assert admin.calls == [("create", "orders", 12, 3, options)]
    out, err = capsys.readouterr()
    assert shows(out, "created", "'orders'", "12 partitions", "replication factor 3")
    assert err == ""


def test_counts_that_the_client_may_not_see_are_not_shown(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def create_topic(*arguments: Any, **options: Any) -> CreatableTopicResult:
        return CreatableTopicResult("orders", TOPIC_ID, 0, None, 29, -1, -1)

    monkeypatch.setattr(admin, "create_topic", create_topic)
    assert run(["topics", "create", "orders", *SERVER]) == 0
    assert capsys.readouterr().out == "created: topic 'orders'\n"


def test_create_as_json(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "create", "orders", *SERVER, "--output", "json"]) == 0
    assert admin.calls[0][1:4] == ("orders", None, None)
    assert json.loads(capsys.readouterr().out) == {
        "created": True,
        "topic": "orders",
        "topicId": str(TOPIC_ID),
        "partitions": 12,
        "replicationFactor": 3,
    }


def test_create_accepts_replica_assignment(admin: Admin) -> None:
    assert run(["topics", "create", "orders", *SERVER, "--replica-assignment", "1:2, 2:1"]) == 0
    assert admin.calls[0][-1]["assignments"] == {0: (1, 2), 1: (2, 1)}


def test_validate_only_reports_no_change(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "create", "orders", *SERVER, "--validate-only"]) == 0
    assert admin.calls[0][-1]["validate_only"] is True
    out = capsys.readouterr().out
    assert shows(out, "can be created", "'orders'")


def test_existing_topic_is_error_unless_if_not_exists(
    admin: Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.errors["create"] = EXISTS
    admin.topics["orders"] = [partition(0, [1, 2])]
    assert run(["topics", "create", "orders", *SERVER]) == 1
    assert capsys.readouterr() == ("", f"error: {EXISTS}\n")
    assert run(["topics", "create", "orders", *SERVER, "--if-not-exists"]) == 0
    assert shows(
        capsys.readouterr().out, "already exists", "'orders'", "1 partition,", "replication factor 2"
    )


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["--partitions", "0"], "0 is not in the range"),
        (["--replica-assignment", "1:2", "--partitions", "1"], "cannot be combined"),
        (["--replica-assignment", "1:x"], "'1:x'"),
        (["--replica-assignment", "1:2,2:2"], "'2:2'"),
        (["--config", "a"], "KEY=VALUE"),
    ],
)
def test_contradictory_options_are_rejected_before_any_request(
    admin: Admin, capsys: pytest.CaptureFixture[str], arguments: list[str], wrong: str
) -> None:
    assert run(["topics", "create", "orders", *SERVER, *arguments]) == 2
    assert wrong in capsys.readouterr().err
    assert admin.calls == []


def test_list_shows_under_replicated_and_leaderless_partitions(
    admin: Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.topics["payments"] = [partition(0, [1, 2, 3]), partition(1, [2, 3], [2]), partition(2, [3], [], -1)]
    admin.topics["orders"] = [partition(0, [1])]
    assert run(["topics", "list", *SERVER]) == 0
    assert cells(capsys.readouterr().out) == [
        ["Topic", "Partitions", "ReplicationFactor", "UnderReplicated", "Leaderless"],
        ["orders", "1", "1", "0", "0"],
        ["payments", "3", "3", "2", "1"],
    ]
    assert run(["topics", "list", *SERVER, "--output", "json"]) == 0
    assert [row["leaderless"] for row in json.loads(capsys.readouterr().out)] == [0, 1]


@pytest.mark.parametrize("command", [["list"], ["describe", "orders"]])
@pytest.mark.parametrize(
    ("error", "code"), [(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0), (ErrorCode.UNKNOWN_SERVER_ERROR, 1)]
)
def test_topics_are_shown_without_the_right_to_list_reassignments(
    admin: Admin, capsys: pytest.CaptureFixture[str], command: list[str], error: ErrorCode, code: int
) -> None:
    def refuse() -> None:
        raise RequestFailed("refused", error)

    admin.topics = {"orders": []}
    admin.before_listing = refuse
    assert run(["topics", *command, *SERVER]) == code
    assert ("orders" in capsys.readouterr().out) == (code == 0)


def test_describe_shows_configs_and_partitions(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.topics["orders"] = [partition(1, [2, 3], [], -1), partition(0, [1, 2])]
    admin.topics["orders"][0].eligible_leader_replicas = [2, 3]
    assert run(["topics", "describe", "orders", *SERVER]) == 0
    topic, *partitions = capsys.readouterr().out.splitlines(keepends=True)
    assert shows(topic, "Topic: orders", f"TopicId: {TOPIC_ID}", "Partitions: 2", "ReplicationFactor: 2")
    assert topic.endswith("Configs: min.insync.replicas=2\n")
    assert cells("".join(partitions)) == [
        ["Partition", "Leader", "Epoch", "Replicas", "Isr", "Elr", "LastKnownElr"],
        ["0", "1", "5", "[1,2]", "[1,2]", "[]", "[]"],
        ["1", "none", "5", "[2,3]", "[]", "[2,3]", "[]"],
    ]


def test_describe_shows_ongoing_reassignment(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.topics["orders"] = [partition(0, [4, 2, 1], [1, 2])]
    admin.moving[TopicPartition("orders", 0)] = ([4], [1])
    assert run(["topics", "describe", "orders", *SERVER]) == 0
    topic, header, row = capsys.readouterr().out.splitlines()
    assert "ReplicationFactor: 2" in topic
    assert header.split()[-2:] == ["Adding", "Removing"]
    assert row.split()[-2:] == ["[4]", "[1]"]
    assert run(["topics", "describe", "orders", *SERVER, "--output", "json"]) == 0
    (described,) = json.loads(capsys.readouterr().out)
    assert described["configs"] == {"min.insync.replicas": "2"}
    assert (described["partitions"][0]["adding"], described["partitions"][0]["isr"]) == ([4], [1, 2])


def test_adding_replica_is_not_under_replication(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.topics["orders"] = [partition(0, [4, 1, 2], [1, 2])]
    admin.moving[TopicPartition("orders", 0)] = ([4], [])
    assert run(["topics", "list", *SERVER, "--output", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["replicationFactor"], row["underReplicated"]) == (2, 0)


def test_unknown_topic_is_reported(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "describe", "orders", *SERVER]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert shows(err, "error: ", "'orders'", "unknown")


def test_add_partitions_extends_topic(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    grow = ["topics", "add-partitions", "orders", *SERVER, "--partitions", "24"]
    assert run(grow) == 0
    assert run([*grow, "--validate-only"]) == 0
    assert run([*grow, "--output", "json"]) == 0
    assert admin.calls[:2] == [("add", "orders", 24, False), ("add", "orders", 24, True)]
    reported = capsys.readouterr().out.split("\n", 2)
    assert shows(reported[0], "committed", "'orders'", "24 partitions")
    assert shows(reported[1], "valid", "'orders'", "24 partitions")
    assert json.loads(reported[2]) == {"topic": "orders", "partitions": 24, "added": True}


def test_delete_sends_one_request_per_topic(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "delete", "orders", "payments", "orders", *SERVER]) == 0
    assert admin.calls == [("delete", "orders"), ("delete", "payments")]
    assert shows(capsys.readouterr().out, "deleted", "orders", "payments")
    assert run(["topics", "delete", "orders", *SERVER, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"deleted": ["orders"]}


def test_deleting_unknown_topic_is_error_unless_if_exists(
    admin: Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.errors["delete"] = UNKNOWN
    assert run(["topics", "delete", "orders", *SERVER]) == 1
    assert capsys.readouterr() == ("", f"error: {UNKNOWN}\n")
    assert run(["topics", "delete", "orders", *SERVER, "--if-exists"]) == 0
    out, err = capsys.readouterr()
    assert shows(out, "nothing to delete")
    assert err == ""


def test_failed_deletion_does_not_prevent_others(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def delete(name: str) -> None:
        if name == "orders":
            raise UNKNOWN

    monkeypatch.setattr(admin, "delete_topic", delete)
    assert run(["topics", "delete", "orders", "payments", *SERVER]) == 1
    out, err = capsys.readouterr()
    assert shows(out, "deleted", "payments")
    assert "orders" not in out
    assert err == f"error: {UNKNOWN}\n"
