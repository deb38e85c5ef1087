"""`quorumd partitions reassign`: requests, output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quorumd.cli.partitions import reassign
from quorumd.cli.partitions.reassign import UNMOVED_POLLS, wait_until_done
from quorumd.cli.partitions.reassignment_progress import State
from quorumd.cli.root import run
from quorumd.client.admin import ItemError, TopicPartition
from tests.support.client.fake_admin import SERVER, FakeAdmin, partition
from tests.support.text import shows

FIRST, SECOND, THIRD = (TopicPartition("orders", number) for number in range(3))
PLAN = {FIRST: (4, 2), SECOND: (5, 4), THIRD: (1, 2)}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    """Orders 0 and 1 are moving, and orders 2 has its target replicas."""
    made = FakeAdmin()
    made.topics["orders"] = [
        partition(0, [4, 2, 1], [1, 2], 1),
        partition(1, [5, 4, 1, 2], [1, 2, 5], 1),
        partition(2, [1, 2]),
    ]
    made.moving = {FIRST: ([4], [1]), SECOND: ([4, 5], [1, 2])}
    monkeypatch.setattr(reassign, "run_admin", made.run)
    monkeypatch.setattr(reassign, "POLL_S", 0.0)
    monkeypatch.setattr("quorumd.cli.output.LINE_INTERVAL_S", 0.0)
    return made


@pytest.fixture
def plan(tmp_path: Path) -> str:
    partitions = [
        {"topic": where.topic, "partition": where.partition, "replicas": replicas}
        for where, replicas in PLAN.items()
    ]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(file)


def finish(admin: FakeAdmin, *moved: TopicPartition) -> None:
    for where in moved:
        admin.moving.pop(where, None)
        admin.topics["orders"][where.partition] = partition(where.partition, PLAN[where])


def test_default_mode_changes_nothing(
    admin: FakeAdmin, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["partitions", "reassign", *SERVER, "--plan", plan]) == 0
    assert admin.calls == []
    _, *rows = capsys.readouterr().out.splitlines()
    expected = [
        ("orders-0", "[4,2]", "moving", "broker 4"),
        ("orders-1", "[5,4]", "moving", "broker 4"),
        ("orders-2", "[1,2]", "done"),
    ]
    for row, facts in zip(rows, expected, strict=True):
        assert shows(row, *facts), row


def test_verify_fails_until_all_are_done(
    admin: FakeAdmin, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verify = ["partitions", "reassign", *SERVER, "--plan", plan, "--verify", "--output", "json"]
    assert run(verify) == 1
    out, err = capsys.readouterr()
    assert shows(err, "error: 2 of 3 partitions", "broker 4 (2 partitions)")
    assert [row["state"] for row in json.loads(out)] == ["moving", "moving", "done"]
    assert json.loads(out)[0] == {
        "topic": "orders",
        "partition": 0,
        "state": "moving",
        "target": [4, 2],
        "replicas": [4, 2, 1],
        "waitsFor": [4],
        "leaderless": False,
    }
    finish(admin, FIRST, SECOND)
    assert run(verify) == 0


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda admin: admin.moving.update({FIRST: ([4], [2])}), "moving elsewhere, to [4,1]"),
        (lambda admin: admin.moving.pop(FIRST), "not moved, it has [4,2,1]"),
        (lambda admin: admin.topics["orders"].pop(0), "no such partition"),
        (
            lambda admin: admin.topics["orders"][0].isr_nodes.append(4),
            "moving, waiting for enough replicas in sync",
        ),
    ],
    ids=["another target", "not begun", "not there", "the last step"],
)
def test_partition_may_have_other_replicas(
    admin: FakeAdmin, plan: str, capsys: pytest.CaptureFixture[str], change: object, reported: str
) -> None:
    finish(admin, SECOND)
    assert callable(change)
    change(admin)
    if reported == "no such partition":
        admin.moving.clear()
    assert run(["partitions", "reassign", *SERVER, "--plan", plan, "--verify"]) == 1
    assert reported in capsys.readouterr().out


def test_replica_order_matters(admin: FakeAdmin, plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The first replica is the preferred leader."""
    finish(admin, FIRST, SECOND)
    admin.topics["orders"][2] = partition(2, [2, 1])
    assert run(["partitions", "reassign", *SERVER, "--plan", plan, "--verify"]) == 1
    assert "not moved, it has [2,1]" in capsys.readouterr().out


def test_execute_starts_all_reassignments_in_one_request(
    admin: FakeAdmin, plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    back = tmp_path / "back.json"
    execute = ["partitions", "reassign", *SERVER, "--plan", plan, "--execute", "--save", str(back)]
    assert run([*execute, "--keep-replication-factor"]) == 0
    assert admin.calls == [("alter_reassignments", PLAN, False)]
    saved = json.loads(back.read_text())
    assert (saved["version"], saved["partitions"][2]["replicas"]) == (1, [1, 2])
    assert str(back) in capsys.readouterr().err
    assert run(execute) == 2
    assert "already exists" in capsys.readouterr().err
    assert len(admin.calls) == 1


def test_save_has_original_replicas_of_moving_partitions(admin: FakeAdmin, plan: str, tmp_path: Path) -> None:
    """Without the replicas that are being added."""
    back = tmp_path / "back.json"
    assert run(["partitions", "reassign", *SERVER, "--plan", plan, "--execute", "--save", str(back)]) == 0
    saved = [entry["replicas"] for entry in json.loads(back.read_text())["partitions"]]
    assert saved == [[2, 1], [1, 2], [1, 2]]


def test_rejected_reassignments_are_reported_and_others_continue(
    admin: FakeAdmin, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.refused = {SECOND: ItemError(39, "There is no broker 5.")}
    assert run(["partitions", "reassign", *SERVER, "--plan", plan, "--execute"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert shows(err, "error: orders-1 ", "There is no broker 5.\n", "error: ", "2 of 3")


def test_cancel_reverts_ongoing_reassignments(
    admin: FakeAdmin, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cancel = ["partitions", "reassign", *SERVER, "--plan", plan, "--cancel"]
    assert run(cancel) == 0
    assert admin.calls == [("alter_reassignments", {FIRST: None, SECOND: None}, True)]
    assert shows(capsys.readouterr().out, "cancelled: 2 of 3", "; 1 ")
    admin.refused = {SECOND: ItemError(39, "Too few are in sync.")}
    assert run([*cancel, "--output", "json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == [{"topic": "orders", "partition": 0}]
    assert shows(err, "error: orders-1 ", "cancelled", "Too few are in sync.\n")
    admin.moving.clear()
    assert run(cancel) == 0
    assert len(admin.calls) == 2


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["--execute", "--cancel"], "use only one of"),
        (["--wait"], "--wait requires"),
        (["--cancel", "--wait"], "--wait requires"),
        (["--verify", "--wait-timeout", "3"], "requires --wait"),
        (["--verify", "--save", "x"], "require --execute"),
        (["--keep-replication-factor"], "require --execute"),
    ],
)
def test_contradictory_options_are_rejected_before_any_request(
    admin: FakeAdmin, plan: str, capsys: pytest.CaptureFixture[str], arguments: list[str], wrong: str
) -> None:
    assert run(["partitions", "reassign", *SERVER, "--plan", plan, *arguments]) == 2
    assert wrong in capsys.readouterr().err
    assert admin.calls == []


def test_wait_shows_progress_and_awaited_brokers(
    admin: FakeAdmin, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    polls = iter([lambda: None, lambda: finish(admin, FIRST), lambda: finish(admin, SECOND)])
    admin.before_listing = lambda: next(polls)()
    assert run(["partitions", "reassign", *SERVER, "--plan", plan, "--execute", "--wait"]) == 0
    out, err = capsys.readouterr()
    assert shows(err, "1 of 3", "broker 4 (2 partitions)\n", "2 of 3", "broker 4 (1 partition)\n")
    assert out.count("done") == 3


def test_wait_ends_at_timeout(admin: FakeAdmin, plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    wait = ["partitions", "reassign", *SERVER, "--plan", plan, "--verify", "--wait", "--wait-timeout", "0.01"]
    assert run(wait) == 1
    assert "error: 2 of 3 partitions" in capsys.readouterr().err


def test_wait_ends_if_nothing_moves(admin: FakeAdmin) -> None:
    admin.moving.clear()
    progress = wait_until_done((("127.0.0.1", 1),), dict(PLAN), 60)
    assert [each.state for each in progress] == [State.NOT_MOVED, State.NOT_MOVED, State.DONE]


def test_wait_outlasts_a_description_from_before_the_end(admin: FakeAdmin) -> None:
    """The brokers that list reassignments and describe topics may know different offsets of the metadata."""

    def end_unseen() -> None:
        admin.moving.clear()

    polls = iter([end_unseen, *[lambda: None] * (UNMOVED_POLLS - 2), lambda: finish(admin, FIRST, SECOND)])
    admin.before_listing = lambda: next(polls)()
    progress = wait_until_done((("127.0.0.1", 1),), dict(PLAN), 60)
    assert [each.state for each in progress] == [State.DONE, State.DONE, State.DONE]


def test_unusable_plan_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"version": 1, "partitions": []}')
    assert run(["partitions", "reassign", *SERVER, "--plan", str(file), "--execute"]) == 2
    assert shows(capsys.readouterr().err, f"error: {file}: partitions:", "at least one")


def test_leaderless_partition_waits_for_leader_only(
    admin: FakeAdmin, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A leaderless partition copies nothing, even if broker 4 is up."""
    admin.topics["orders"][0] = partition(0, [4, 2, 1], isr=[1], leader=-1)
    admin.topics["orders"][1] = partition(1, [5, 4, 2, 1], isr=[], leader=-1)
    admin.topics["orders"][1].eligible_leader_replicas = [2, 1]
    assert run(["partitions", "reassign", *SERVER, "--plan", plan, "--verify"]) == 1
    out, err = capsys.readouterr()
    assert shows(out, "orders-0", "no leader", "broker 1 ", "orders-1", "no leader", "brokers 1, 2 ")
    assert "2 partitions have no leader" in err
    assert "waiting for" not in err
    admin.topics["orders"][1] = partition(1, [5, 4, 2, 1], isr=[2, 1], leader=2)
    assert run(["partitions", "reassign", *SERVER, "--plan", plan, "--verify"]) == 1
    assert shows(capsys.readouterr().err, "1 partition has no leader", "broker 1 ", "waiting for broker")
