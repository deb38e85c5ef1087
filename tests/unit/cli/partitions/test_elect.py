"""`quorumd partitions elect`: requests, output and exit codes."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from quorumd.cli.partitions import elect
from quorumd.cli.root import run
from quorumd.client.admin import ElectionType, ItemError, TopicPartition
from quorumd.errors import ErrorCode
from tests.support.client.fake_admin import SERVER, FakeAdmin, partition
from tests.support.text import shows

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOT_NEEDED = ItemError(ErrorCode.ELECTION_NOT_NEEDED, "Broker 1 leads.")
LAGS = ItemError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "It lags.")


class Admin(FakeAdmin):
    results: dict[TopicPartition, ItemError | None]

    async def elect_leaders(
        self, election: ElectionType, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[TopicPartition, ItemError | None]:
        self.record_call("elect", election, partitions)
        return self.results


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    made = Admin()
    made.results = {FIRST: None, SECOND: NOT_NEEDED}
    made.topics["orders"] = [partition(1, [1]), partition(0, [1])]
    monkeypatch.setattr(elect, "run_admin", made.run)
    return made


REQUESTED: list[tuple[list[str], ElectionType, list[TopicPartition] | None]] = [
    (["--preferred", "--all"], ElectionType.PREFERRED, None),
    (["--unclean", "--topic", "orders"], ElectionType.UNCLEAN, [FIRST, SECOND]),
    (
        ["--preferred", "--topic", "orders", "--partition", "1", "--partition", "1"],
        ElectionType.PREFERRED,
        [SECOND],
    ),
]


@pytest.mark.parametrize(("arguments", "election", "where"), REQUESTED)
def test_election_covers_requested_partitions(
    admin: Admin, arguments: list[str], election: ElectionType, where: list[TopicPartition] | None
) -> None:
    assert run(["partitions", "elect", *SERVER, *arguments]) == 0
    assert admin.calls == [("elect", election, where)]


def test_election_results_are_shown(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["partitions", "elect", *SERVER, "--preferred", "--topic", "orders"]) == 0
    out, err = capsys.readouterr()
    assert shows(out, "orders-0", "elected\n", "orders-1", "Broker 1 leads.\n")
    assert err == ""
    admin.results = {}
    assert run(["partitions", "elect", *SERVER, "--preferred", "--all"]) == 0
    assert "no partition" in capsys.readouterr().out


def test_unclean_election_warns_of_data_loss(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["partitions", "elect", *SERVER, "--unclean", "--topic", "orders"]) == 0
    warning = capsys.readouterr().err
    assert shows(warning, "warning: ", "lost", "orders-0")
    assert "orders-1" not in warning
    admin.results = {SECOND: NOT_NEEDED}
    assert run(["partitions", "elect", *SERVER, "--unclean", "--topic", "orders"]) == 0
    assert capsys.readouterr().err == ""
    assert run(["partitions", "elect", "--help"]) == 0
    assert "lost" in capsys.readouterr().out


def test_failed_election_sets_exit_code(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.results = {FIRST: LAGS, SECOND: NOT_NEEDED}
    assert run(["partitions", "elect", *SERVER, "--preferred", "--all", "--output", "json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == [
        {
            "topic": "orders",
            "partition": 0,
            "elected": False,
            "error": "PREFERRED_LEADER_NOT_AVAILABLE (80)",
            "message": "It lags.",
        },
        {"topic": "orders", "partition": 1, "elected": False, "error": None, "message": "Broker 1 leads."},
    ]
    assert shows(err, "error: ", "1 of 2 partitions")


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["--all"], "use exactly one of --preferred and --unclean"),
        (["--preferred", "--unclean", "--all"], "use exactly one of --preferred and --unclean"),
        (["--preferred"], "use exactly one of --topic and --all"),
        (["--preferred", "--all", "--topic", "orders"], "use exactly one of --topic and --all"),
        (["--preferred", "--all", "--partition", "1"], "--partition requires --topic"),
    ],
)
def test_contradictory_options_are_rejected_before_any_request(
    admin: Admin, capsys: pytest.CaptureFixture[str], arguments: list[str], wrong: str
) -> None:
    assert run(["partitions", "elect", *SERVER, *arguments]) == 2
    assert wrong in capsys.readouterr().err
    assert admin.calls == []
