"""`quorum describe`: the fields and columns of the KIP-595 draft."""

from __future__ import annotations

import pytest

from quorumd.cli.quorum.describe import endpoints_of, replication_of, replication_text, status_of, status_text
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.describe_quorum_response import (
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TargetVoter,
)

NOW_MS = 1_800_000_000_000


def replica(number: int, end_offset: int, behind_ms: int | None = 0) -> ReplicaState:
    caught_up = -1 if behind_ms is None else NOW_MS - behind_ms
    return ReplicaState(number, KafkaUuid(bytes(15) + bytes([number + 1])), end_offset, caught_up, caught_up)


def disk(number: int) -> str:
    return str(KafkaUuid(bytes(15) + bytes([number + 1])))


@pytest.fixture
def drafts_example() -> PartitionData:
    voters = [replica(1, 234130, 10), replica(0, 234134), replica(2, 234100, 15)]
    observers = [replica(3, 234124, 12)]
    return PartitionData(0, 0, None, 0, 15, 234130, voters, observers, [TargetVoter(0), TargetVoter(3)])


def test_status_is_the_example_of_the_draft(drafts_example: PartitionData) -> None:
    lines = status_text(status_of(drafts_example)).splitlines()
    assert [tuple(line.split(maxsplit=1)) for line in lines] == [
        ("LeaderId:", "0"),
        ("LeaderEpoch:", "15"),
        ("HighWatermark:", "234130"),
        ("MaxFollowerLag:", "34"),
        ("MaxFollowerLagTimeMs:", "15"),
        ("CurrentVoters:", "[1, 0, 2]"),
        ("TargetVoters:", "[0, 3]"),
    ]


def test_replication_is_the_example_of_the_draft(drafts_example: PartitionData) -> None:
    endpoints = endpoints_of([Node(1, [Listener("CONTROLLER", "10.0.0.1", 9192)])])
    lines = replication_text(replication_of(drafts_example, endpoints)).splitlines()
    assert [line.split() for line in lines] == [
        [
            *(
                "ReplicaId",
                "DirectoryId",
                "LogEndOffset",
                "Lag",
                "LagTimeMs",
                "LastFetchMs",
                "LastCaughtUpMs",
            ),
            *("Status", "IsReassignTarget", "Endpoints"),
        ],
        ["0", disk(0), "234134", "0", "0", "0", "0", "Leader", "Yes", "-"],
        ["1", disk(1), "234130", "4", "10", "10", "10", "Follower", "No", "CONTROLLER://10.0.0.1:9192"],
        ["2", disk(2), "234100", "34", "15", "15", "15", "Follower", "No", "-"],
        ["3", disk(3), "234124", "10", "12", "12", "12", "Observer", "Yes", "-"],
    ]


def test_observers_do_not_count_for_maximum_lag(drafts_example: PartitionData) -> None:
    drafts_example.observers = [replica(3, 0, None)]
    assert status_of(drafts_example)["maxFollowerLag"] == 34
    assert status_of(drafts_example)["maxFollowerLagTimeMs"] == 15


def test_follower_without_fetch_has_full_lag_and_unknown_time(
    drafts_example: PartitionData,
) -> None:
    drafts_example.current_voters[2] = replica(2, -1, None)
    status = status_of(drafts_example)
    assert (status["maxFollowerLag"], status["maxFollowerLagTimeMs"]) == (234134, -1)
    assert [row["lagTimeMs"] for row in replication_of(drafts_example)] == [0, 10, -1, 12]


def test_single_voter_has_no_lag() -> None:
    status = status_of(PartitionData(0, 0, None, 7, 1, 3, [replica(7, 3)], []))
    assert (status["maxFollowerLag"], status["maxFollowerLagTimeMs"], status["targetVoters"]) == (0, 0, [])


def test_unknown_target_voter_is_shown(drafts_example: PartitionData) -> None:
    assert drafts_example.target_voters is not None
    drafts_example.target_voters.append(TargetVoter(4))
    *_, last = replication_text(replication_of(drafts_example)).splitlines()
    unknown = str(KafkaUuid(bytes(16)))
    assert last.split() == ["4", unknown, "-1", "234134", "-1", "-1", "-1", "Observer", "Yes", "-"]


def test_removed_leader_has_no_row(drafts_example: PartitionData) -> None:
    drafts_example.leader_id = 9
    rows = replication_of(drafts_example)
    assert [(row["replicaId"], row["status"], row["lag"], row["lagTimeMs"]) for row in rows] == [
        (1, "Follower", 4, -1),
        (0, "Follower", 0, -1),
        (2, "Follower", 34, -1),
        (3, "Observer", 10, -1),
    ]
    assert status_of(drafts_example)["leaderId"] == 9
