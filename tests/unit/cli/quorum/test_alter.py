"""`quorum alter`: requests, output, and waiting for the change with its progress."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from quorumd.cli.quorum import alter
from quorumd.cli.quorum.alter import (
    VoterChangeError,
    check_not_superseded,
    describe_remaining,
    is_complete,
    remaining_steps,
    wait_for_voters,
)
from quorumd.cli.root import run
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.describe_quorum_response import PartitionData, ReplicaState, TargetVoter
from tests.support.text import shows

SERVER = ("--bootstrap-server", "127.0.0.1:1")
SERVERS = (("127.0.0.1", 1),)


def quorum(
    voters: Sequence[int], targets: Sequence[int] | None = None, observers: dict[int, int] | None = None
) -> PartitionData:
    """The first voter leads and has 1000 records; `observers` gives the log end offset of observers."""
    target = None if targets is None else [TargetVoter(node) for node in targets]
    ends = [ReplicaState(node, KafkaUuid(bytes(16)), 1000) for node in voters]
    watching = [ReplicaState(node, KafkaUuid(bytes(16)), end) for node, end in (observers or {}).items()]
    return PartitionData(0, 0, None, voters[0], 5, 1000, ends, watching, target)


class FakeAdmin:
    """Return one description after the other, then the last one forever."""

    def __init__(self, *described: PartitionData) -> None:
        self.described = list(described)
        self.altered: list[Any] = []

    async def alter_quorum(self, voters: Any) -> None:
        self.altered.append(voters)

    async def describe_quorum(self) -> PartitionData:
        return self.described.pop(0) if len(self.described) > 1 else self.described[0]


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    made = FakeAdmin(quorum([0, 1, 2]))

    def send(
        servers: object,
        question: Callable[[Any], Awaitable[Any]],
        patience_ms: float = 0,
        *,
        silent: bool = False,
    ) -> Any:
        async def requests() -> Any:
            return await question(made)

        return asyncio.run(requests())

    monkeypatch.setattr(alter, "run_admin", send)
    monkeypatch.setattr(alter, "POLL_S", 0.0)
    monkeypatch.setattr("quorumd.cli.output.LINE_INTERVAL_S", 0.0)
    return made


def test_alter_sets_target_and_prints_draft_fields(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.described = [quorum([0, 1, 2], [0, 3, 4])]
    assert run(["quorum", "alter", *SERVER, "--voters", "0,3,4"]) == 0
    assert admin.altered == [(0, 3, 4)]
    assert shows(capsys.readouterr().out, "CurrentVoters:", "[0, 1, 2]", "TargetVoters:", "[0, 3, 4]")


def test_json(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.described = [quorum([0, 1], [0, 3])]
    assert run(["quorum", "alter", *SERVER, "--voters", "0, 3", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"currentVoters": [0, 1], "targetVoters": [0, 3]}


def test_cancel_stops_change(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quorum", "alter", *SERVER, "--cancel"]) == 0
    assert admin.altered == [None]
    assert shows(capsys.readouterr().out, "CurrentVoters:", "[0, 1, 2]", "TargetVoters:", "[]")


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ([], ("--voters", "--cancel")),
        (["--voters", "0", "--cancel"], ("--voters", "--cancel")),
        (["--cancel", "--wait"], ("--cancel", "--wait")),
        (["--voters", "0", "--wait-timeout", "3"], ("--wait-timeout", "--wait")),
        (["--voters", "0", "--wait", "--wait-timeout", "0"], ("--wait-timeout", "0")),
        (["--voters", "0,x"], ("--voters", "'0,x'")),
        (["--voters", ""], ("--voters", "''")),
        (["--voters", "-1"], ("--voters", "'-1'")),
        (["--voters", "2147483648"], ("--voters", "'2147483648'")),
        (["--voters", "0,1,0"], ("--voters", "'0,1,0'", "twice")),
    ],
)
def test_contradictory_options_are_rejected_before_any_request(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], arguments: list[str], wrong: tuple[str, ...]
) -> None:
    assert run(["quorum", "alter", *SERVER, *arguments]) == 2
    assert shows(capsys.readouterr().err, *wrong)
    assert admin.altered == []


def test_wait_shows_steps_and_ends_with_target_voters(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.described = [
        quorum([0, 1, 2]),
        quorum([0, 1], [0, 3]),
        quorum([0, 1], [0, 3], {3: 200}),
        quorum([0, 1], [0, 3], {3: 1000}),
        quorum([0, 1, 3], [0, 3]),
        quorum([0, 3], [0, 3]),
        quorum([0, 3]),
    ]
    assert run(["quorum", "alter", *SERVER, "--voters", "0,3", "--wait"]) == 0
    output = capsys.readouterr()
    assert shows(output.out, "CurrentVoters:", "[0, 3]", "TargetVoters:", "[]")
    expected = [
        ("1 of 3", "added: 3 (has not fetched", "removed: 1"),
        ("1 of 3", "added: 3 (800 records behind)", "removed: 1"),
        ("1 of 3", "added: 3 (caught up)", "removed: 1"),
        ("2 of 3", "removed: 1"),
        ("3 of 3", "not committed"),
    ]
    for line, facts in zip(output.err.splitlines()[1:], expected, strict=True):
        assert shows(line, *facts), line


def test_wait_timeout_reports_missing_steps(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.described = [quorum([0, 1], [0, 1, 3, 4], {3: 1000})]
    assert run(["quorum", "alter", *SERVER, "--voters", "0,1,3,4", "--wait", "--wait-timeout", "0.05"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    last = output.err.splitlines()[-1]
    assert shows(last, "error: ", "0.05 s", "[0, 1]", "3 (caught up)", "4 (has not fetched", "alter --cancel")


@pytest.mark.parametrize(
    ("then", "output"),
    [
        (quorum([0, 1, 3]), "was cancelled; the voters are"),
        (quorum([0, 1], [0, 5]), r"replaced this one; the new target is \[0, 5\]"),
    ],
)
def test_wait_ends_if_change_is_superseded(admin: FakeAdmin, then: PartitionData, output: str) -> None:
    admin.described = [then]
    with pytest.raises(VoterChangeError, match=output):
        wait_for_voters(SERVERS, quorum([0, 1], [0, 3]), (0, 3), 2, 5.0)


def test_target_order_does_not_matter() -> None:
    check_not_superseded(quorum([0], [3, 0]), (0, 3))
    assert is_complete(quorum([3, 0]), (0, 3))


def test_reached_but_uncleared_target_is_incomplete() -> None:
    assert not is_complete(quorum([0, 3], [0, 3]), (0, 3))
    assert remaining_steps(quorum([0, 3], [0, 3]), (0, 3)) == 0


def test_steps_count_added_and_removed_voters() -> None:
    assert remaining_steps(quorum([1, 2, 3]), (4, 5, 6)) == 6
    assert remaining_steps(quorum([0, 1, 2]), (0, 3)) == 3


def test_removed_leader_does_not_fail_wait() -> None:
    """It is no longer a voter, and responds until its successor does."""
    leaving = quorum([2, 3], [2, 3], {1: 1000})
    leaving.leader_id = 1
    assert "not committed" in describe_remaining(leaving, (2, 3))


@pytest.mark.parametrize(
    ("end_offset", "silent_ms", "output"),
    [
        (1000, 0, "caught up"),
        (999, 500, "1 record behind"),
        (-1, 0, "1,000 records behind"),
        (999, 2999, "1 record behind"),
        (999, 3000, "has not fetched for 3 s"),
    ],
)
def test_progress_of_target_is_described(end_offset: int, silent_ms: int, output: str) -> None:
    described = quorum([0, 1], [0, 1, 3], {3: end_offset})
    for voter in described.current_voters:
        voter.last_fetch_timestamp = 1_800_000_000_000
    described.observers[0].last_fetch_timestamp = 1_800_000_000_000 - silent_ms
    assert shows(describe_remaining(described, (0, 1, 3)), "added: 3 (", output)


def test_current_disk_of_node_counts() -> None:
    described = quorum([0], [0, 3], {3: 10})
    old = ReplicaState(3, KafkaUuid(bytes(15) + b"\x07"), 999, -1)
    described.observers.insert(0, old)
    described.current_voters[0].last_fetch_timestamp = 5000
    described.observers[1].last_fetch_timestamp = 4900
    assert shows(describe_remaining(described, (0, 3)), "added: 3 (", "990 records behind")


def replaced_disk(targets: Sequence[int] | None = None) -> PartitionData:
    """The vote of node 2 belongs to a disk that does not fetch; another disk of node 2 does."""
    described = quorum([0, 1, 2], targets, {2: 1000})
    for at, voter in enumerate(described.current_voters):
        voter.replica_directory_id = KafkaUuid(bytes(15) + bytes([at + 1]))
        voter.last_fetch_timestamp = 9000
    described.current_voters[2].last_fetch_timestamp = 4000
    described.observers[0].replica_directory_id = KafkaUuid(bytes(15) + b"\x07")
    described.observers[0].last_fetch_timestamp = 8900
    return described


def test_change_is_incomplete_while_voter_has_replaced_disk() -> None:
    assert not is_complete(replaced_disk(), (0, 1, 2))
    assert is_complete(replaced_disk(), (0, 1)) is False
    assert remaining_steps(replaced_disk(), (0, 1, 2)) == 2
    back = replaced_disk()
    back.current_voters[2].last_fetch_timestamp = 9000
    assert is_complete(back, (0, 1, 2))


def test_wait_repeats_request_until_disk_is_replaced(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    """At first the new disk had not caught up, and the ids matched: there was nothing to change."""
    admin.described = [
        replaced_disk(),
        replaced_disk(),
        replaced_disk([0, 1, 2]),
        quorum([0, 1], [0, 1, 2], {2: 1000}),
        quorum([0, 1, 2]),
    ]
    assert run(["quorum", "alter", *SERVER, "--voters", "0,1,2", "--wait"]) == 0
    assert admin.altered == [(0, 1, 2), (0, 1, 2)]
    *_, replacing, adding = capsys.readouterr().err.splitlines()
    assert shows(replacing, "0 of 2", "replaced: 2 (", "AAAAAAAAAAAAAAAAAAAAAw", "caught up")
    assert shows(adding, "1 of 2", "added: 2 (caught up)")


def test_wait_timeout_for_replaced_disk_suggests_remedy(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.described = [replaced_disk()]
    assert run(["quorum", "alter", *SERVER, "--voters", "0,1,2", "--wait", "--wait-timeout", "0.05"]) == 1
    assert "new disk" in capsys.readouterr().err


def unstarted_disk() -> PartitionData:
    """The vote of node 2 belongs to a disk that does not fetch; the new one has never fetched, so no node knows
    it."""
    described = replaced_disk()
    described.observers = []
    return described


def test_change_is_incomplete_while_voter_has_no_live_replica(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not is_complete(unstarted_disk(), (0, 1, 2))
    admin.described = [unstarted_disk()]
    assert run(["quorum", "alter", *SERVER, "--voters", "0,1,2", "--wait", "--wait-timeout", "0.05"]) == 1
    output = capsys.readouterr().err
    assert shows(output, "not fetching: 2 (", "AAAAAAAAAAAAAAAAAAAAAw", "5 s)", "Start the nodes")
    admin.described = [unstarted_disk(), replaced_disk(), replaced_disk([0, 1, 2]), quorum([0, 1, 2])]
    assert run(["quorum", "alter", *SERVER, "--voters", "0,1,2", "--wait"]) == 0


def test_new_leader_omits_voters_that_have_not_fetched() -> None:
    described = quorum([0, 1])
    described.current_voters[0].last_fetch_timestamp = 9000
    described.current_voters[1].last_fetch_timestamp = -1
    assert not is_complete(described, (0, 1))
    assert shows(describe_remaining(described, (0, 1)), "1 (", "AAAAAAAAAAAAAAAAAAAAAA", "has not fetched")


def test_cancelled_replacement_is_not_repeated(admin: FakeAdmin) -> None:
    admin.described = [replaced_disk()]
    with pytest.raises(VoterChangeError, match="was cancelled"):
        wait_for_voters(SERVERS, replaced_disk([0, 1, 2]), (0, 1, 2), 2, 5.0)
    assert admin.altered == []
