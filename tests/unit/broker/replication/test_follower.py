"""A follower: appends, truncations, and offsets out of the leader's range."""

from __future__ import annotations

import pytest

from quorumd.broker.replication.replica import FetchResult
from quorumd.broker.replication.replica_fetch import FetchedPartition, ReplicaFetch
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch
from tests.support.broker.memory_log import MemoryLog
from tests.support.broker.replicas import Follower, Leader


def response(high_watermark: int = 0, start_offset: int = 0, records: bytes = b"") -> FetchedPartition:
    return FetchedPartition(ErrorCode.NONE, high_watermark, start_offset, records)


def diverging(offset: int, epoch: int) -> FetchedPartition:
    return FetchedPartition(ErrorCode.NONE, diverging=OffsetAndEpoch(offset, epoch))


def records(*epochs: int, start: int = 0) -> bytes:
    """Records of these epochs from offset `start` on."""
    return MemoryLog(epochs, start).read(start, start + len(epochs))


def test_fetch_names_log_end_last_epoch_and_incarnation() -> None:
    follower = Follower(1, 1, 2, leader_epoch=3)
    follower.log.delete_before(1)
    assert follower.replica.next_fetch(21) == ReplicaFetch(2, 21, 3, 3, 2, 1)
    assert Follower().replica.next_fetch(20) == ReplicaFetch(2, 20, 1, 0, -1, 0)


def test_records_are_appended_and_the_high_watermark_is_limited_to_the_log() -> None:
    follower = Follower()
    assert follower.receive(response(9, 0, records(1, 1))) is FetchResult.APPENDED
    assert (follower.log.epochs, follower.replica.high_watermark) == ([1, 1], 2)
    assert follower.receive(response(1)) is FetchResult.APPENDED
    assert follower.replica.high_watermark == 1, "it may go back"


def test_empty_response_keeps_the_last_epoch() -> None:
    follower = Follower(1, 1)
    follower.receive(response(1))
    assert follower.replica.next_fetch(20).last_epoch == 1


def test_log_start_follows_the_leader_up_to_the_high_watermark() -> None:
    follower = Follower(1, 1, 1, 1)
    follower.receive(response(high_watermark=3, start_offset=2))
    assert follower.log.start_offset == 2
    follower.receive(response(high_watermark=3, start_offset=4))
    assert follower.log.start_offset == 3
    follower.receive(response(high_watermark=0, start_offset=0))
    assert (follower.log.start_offset, follower.replica.high_watermark) == (3, 3)


# Cases C to G of KIP-966's description, and logs that share nothing.
@pytest.mark.parametrize(
    ("log", "end", "remaining"),
    [
        ((1, 1, 1, 1), (2, 1), 2),
        ((1, 1, 2, 2), (2, 1), 2),
        ((1, 2, 2), (2, 1), 1),
        ((2,), (1, 1), 0),
        ((1, 1, 3), (9, 1), 2),
        ((1, 1), (9, 1), 2),
        ((1, 1), (1, 2), 1),
        ((1, 1), (9, 2), 2),
        ((1, 1, 4), (3, 2), 2),
        ((1, 1, 4), (1, 2), 2),
    ],
    ids=[
        "C",
        "D and E",
        "F",
        "G",
        "own end",
        "log end",
        "unknown",
        "unknown beyond",
        "own epoch is older",
        "older",
    ],
)
def test_follower_truncates_where_logs_diverge(
    log: tuple[int, ...], end: tuple[int, int], remaining: int
) -> None:
    follower = Follower(*log, leader_epoch=5)
    assert follower.receive(diverging(*end)) is FetchResult.TRUNCATED
    assert follower.log.epochs == list(log[:remaining])


@pytest.mark.parametrize(
    ("own", "leaders"),
    [
        ((1, 1), (1, 1, 1, 1)),
        ((1, 1, 1, 1), (1, 1)),
        ((1, 1, 2, 2), (1, 1)),
        ((1, 1, 2, 2), (1, 1, 3, 3)),
        ((1, 2, 2), (1, 1)),
        ((2,), (1, 3)),
        ((1, 2, 2, 4, 4), (1, 1, 3, 3, 3)),
        ((4, 4), ()),
    ],
)
def test_follower_reaches_the_log_of_its_leader(own: tuple[int, ...], leaders: tuple[int, ...]) -> None:
    leader = Leader(epochs=leaders, leader_epoch=6)
    leader.append()
    follower = Follower(*own, leader_epoch=6)
    for _ in range(5):
        follower.fetch_from(leader)
    assert follower.log.epochs == leader.log.epochs
    assert leader.end_offset_of(2) == leader.log.end_offset
    assert leader.replica.high_watermark == leader.log.end_offset


def test_truncation_limits_the_high_watermark_and_is_reported() -> None:
    """Below the high watermark only after an unclean election (R21)."""
    follower = Follower(1, 1, 1, high_watermark=2)
    follower.receive(diverging(1, 1))
    assert follower.replica.high_watermark == 1
    assert follower.context.truncations == [(3, 1, 2)]
    follower.receive(diverging(1, 1))
    assert len(follower.context.truncations) == 1, "nothing was removed"


def test_race_21_member_that_returns_takes_the_log_of_an_uncleanly_elected_leader() -> None:
    leader = Leader(isr=(1,), epochs=(1, 1), leader_epoch=2)
    follower = Follower(1, 1, 1, 1, high_watermark=4, leader_epoch=2)
    follower.fetch_from(leader)
    assert follower.log.end_offset == 2
    assert follower.context.truncations == [(4, 2, 4)]


def test_race_10_response_after_a_change_is_ignored() -> None:
    follower = Follower(1, 1, 1)
    request = follower.replica.next_fetch(20)
    responses = (
        response(3, 0, records(1, start=3)),
        diverging(1, 1),
        FetchedPartition(ErrorCode.OFFSET_OUT_OF_RANGE),
    )
    follower.log.truncate(2)
    for late in responses:
        assert follower.receive(late, request) is FetchResult.IGNORED
    follower.log.append(1)
    follower.replica.apply(Partition((1, 2, 3), (1, 2), 3, 2, 6), 0.0)
    for late in responses:
        assert follower.receive(late, request) is FetchResult.IGNORED
    assert follower.log.epochs == [1, 1, 1]


def test_race_10_second_report_of_a_divergence_is_ignored() -> None:
    """The log has the same end again, with another record."""
    follower = Follower(1, 1, leader_epoch=2)
    request = follower.replica.next_fetch(20)
    follower.receive(diverging(1, 1), request)
    follower.receive(response(1, 0, records(2, start=1)))
    assert follower.receive(diverging(1, 1), request) is FetchResult.IGNORED
    assert follower.log.epochs == [1, 2]


@pytest.mark.parametrize(
    "state",
    [
        Partition((1, 2, 3), (1, 2), 2, 1, 6),
        Partition((1, 2, 3), (1, 2), -1, 1, 6),
        Partition((1, 3), (1, 3), 1, 1, 6),
    ],
    ids=["leads", "no leader", "removed"],
)
def test_response_to_a_replica_that_does_not_follow_is_ignored(state: Partition) -> None:
    follower = Follower(1)
    request = follower.replica.next_fetch(20)
    follower.replica.metadata = None
    follower.replica.apply(state, 0.0)
    assert follower.receive(response(1, 0, records(1, start=1)), request) is FetchResult.IGNORED
    assert follower.log.end_offset == 1


@pytest.mark.parametrize(
    "error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR]
)
def test_error_leaves_the_log_unchanged(error: ErrorCode) -> None:
    follower = Follower(1, high_watermark=1)
    assert follower.receive(FetchedPartition(error)) is FetchResult.FAILED
    assert (follower.log.end_offset, follower.replica.high_watermark) == (1, 1)


# Out of range


def out_of_range(follower: Follower, start_offset: int, end_offset: int) -> FetchResult:
    request = follower.replica.next_fetch(20)
    result = follower.receive(FetchedPartition(ErrorCode.OFFSET_OUT_OF_RANGE), request)
    assert result is FetchResult.OUT_OF_RANGE
    return follower.replica.handle_leader_offsets(request, start_offset, end_offset)


def test_follower_beyond_the_end_of_its_leader_truncates() -> None:
    follower = Follower(1, 1, 1, high_watermark=3)
    assert out_of_range(follower, 0, 2) is FetchResult.TRUNCATED
    assert (follower.log.end_offset, follower.replica.high_watermark) == (2, 2)
    assert follower.context.truncations == [(3, 2, 3)]


def test_follower_below_the_start_of_its_leader_begins_there() -> None:
    follower = Follower(1, 1, high_watermark=2)
    assert out_of_range(follower, 5, 9) is FetchResult.TRUNCATED
    assert (follower.log.start_offset, follower.log.end_offset) == (5, 5)
    assert follower.replica.high_watermark == 5
    assert follower.replica.next_fetch(20) == ReplicaFetch(2, 20, 1, 5, -1, 5)
    assert follower.context.truncations == []


def test_follower_within_the_log_of_its_leader_keeps_its_records() -> None:
    follower = Follower(1, 1)
    out_of_range(follower, 1, 9)
    assert follower.log.end_offset == 2


def test_new_replica_begins_at_the_start_of_its_leader() -> None:
    leader = Leader(epochs=(0, 0, 0))
    leader.fetch(2, 3)
    leader.replica.delete_records(2)
    follower = Follower()
    assert follower.fetch_from(leader) is FetchResult.OUT_OF_RANGE
    follower.replica.handle_leader_offsets(
        follower.replica.next_fetch(20), leader.log.start_offset, leader.log.end_offset
    )
    assert follower.fetch_from(leader) is FetchResult.APPENDED
    assert (follower.log.start_offset, follower.log.end_offset) == (2, 3)


def test_offsets_of_a_leader_that_was_replaced_are_ignored() -> None:
    follower = Follower(1, 1, 1)
    request = follower.replica.next_fetch(20)
    follower.replica.apply(Partition((1, 2, 3), (2, 3), 3, 2, 6), 0.0)
    result = follower.replica.handle_leader_offsets(request, 0, 1)
    assert (result, follower.log.end_offset) == (FetchResult.IGNORED, 3)
