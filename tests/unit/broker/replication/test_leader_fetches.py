"""Fetches of followers at their leader, in the order of the checks."""

from __future__ import annotations

import pytest

from quorumd.broker.replication.replica_fetch import FetchDecision
from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch
from tests.support.broker.replicas import LAG_MS, Leader

NEVER_FETCHED = -1


def test_response_has_the_offsets_of_the_log() -> None:
    leader = Leader(isr=(1, 2), epochs=(0, 0, 0))
    leader.fetch(2, 2)
    leader.log.delete_before(1)
    assert leader.fetch(3, 3) == FetchDecision(ErrorCode.NONE, 2, 1, 3)
    assert leader.fetch(3, 3).has_records


def test_response_has_the_high_watermark_from_before_the_fetch() -> None:
    leader = Leader()
    leader.append()
    assert leader.fetch(2, 1).high_watermark == 0
    assert leader.fetch(2, 1).high_watermark == 1


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (3, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
    ],
)
def test_leader_epoch_is_checked_first(leader_epoch: int, error: ErrorCode) -> None:
    leader = Leader()
    leader.apply((1, 2), 6, leader_epoch=3)
    assert leader.fetch(2, 0, leader_epoch=leader_epoch).error is error
    assert leader.replica.check_leader(leader_epoch) is error
    assert (leader.end_offset_of(2) == 0) is (error is ErrorCode.NONE)


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_replica_that_does_not_lead_refuses(leader_epoch: int, error: ErrorCode) -> None:
    leader = Leader()
    leader.apply((1, 2), 6, leader_epoch=3, leader=2)
    assert leader.fetch(3, 0, leader_epoch=leader_epoch).error is error


def test_unknown_replica_may_know_newer_metadata() -> None:
    leader = Leader()
    for replica_id in (4, 1):
        assert leader.fetch(replica_id, 0).error is ErrorCode.UNKNOWN_LEADER_EPOCH
        error = leader.fetch(replica_id, 0, leader_epoch=-1).error
        assert error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_unknown_last_epoch_is_out_of_range() -> None:
    leader = Leader(epochs=(0, 0))
    assert leader.fetch(3, 2, last_epoch=2).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert leader.end_offset_of(3) == NEVER_FETCHED


def test_offset_below_the_log_start_is_out_of_range_even_if_it_diverges() -> None:
    leader = Leader(epochs=(0, 0, 0, 0))
    leader.log.delete_before(2)
    for last_epoch in (-1, 0):
        assert leader.fetch(3, 1, last_epoch=last_epoch).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert leader.fetch(3, 2).error is ErrorCode.NONE


def test_offset_beyond_the_log_end_is_out_of_range_without_an_epoch() -> None:
    leader = Leader(epochs=(0, 0))
    decision = leader.fetch(3, 3, last_epoch=-1)
    assert (decision.error, decision.end_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2)
    assert not decision.has_records
    assert leader.end_offset_of(3) == NEVER_FETCHED


# Cases A to G of KIP-966's description: epochs of the leader's log, its epoch, the fetch, the divergence.
@pytest.mark.parametrize(
    ("log", "leader_epoch", "offset", "last_epoch", "diverging"),
    [
        ((1, 1, 1, 1), 2, 2, 1, None),
        ((1, 1, 2, 2), 3, 2, 1, None),
        ((1, 1), 2, 4, 1, OffsetAndEpoch(2, 1)),
        ((1, 1), 3, 4, 2, OffsetAndEpoch(2, 1)),
        ((1, 1, 3, 3), 4, 4, 2, OffsetAndEpoch(2, 1)),
        ((1, 1), 3, 3, 2, OffsetAndEpoch(2, 1)),
        ((1, 3), 4, 1, 2, OffsetAndEpoch(1, 1)),
        ((3, 3), 4, 2, 1, OffsetAndEpoch(0, 1)),
        ((), 4, 2, 1, OffsetAndEpoch(0, 1)),
        ((1, 1), 2, 2, 2, None),
    ],
    ids=["A", "B", "C", "D", "E", "F", "G", "before the first epoch", "empty log", "epoch without records"],
)
def test_divergence_is_reported(
    log: tuple[int, ...],
    leader_epoch: int,
    offset: int,
    last_epoch: int,
    diverging: OffsetAndEpoch | None,
) -> None:
    leader = Leader(epochs=log, leader_epoch=leader_epoch)
    decision = leader.fetch(3, offset, last_epoch=last_epoch)
    assert (decision.error, decision.diverging) == (ErrorCode.NONE, diverging)
    assert decision.has_records is (diverging is None)


def test_race_17_diverging_fetch_does_not_count() -> None:
    leader = Leader(isr=(1,), epochs=(0, 0))
    decision = leader.fetch(3, 4, last_epoch=0)
    assert (decision.error, decision.diverging) == (ErrorCode.NONE, OffsetAndEpoch(2, 0))
    assert leader.end_offset_of(3) == NEVER_FETCHED
    assert leader.proposed == []
    leader.fetch(3, 2)
    assert leader.proposed == [(1, 3)]


def test_race_3_late_fetch_of_an_earlier_incarnation_does_not_count() -> None:
    leader = Leader(isr=(1,), epochs=(0, 0, 0, 0))
    assert leader.fetch(2, 0, broker_epoch=20).error is ErrorCode.NONE
    decision = leader.fetch(2, 4, broker_epoch=10)
    assert decision == FetchDecision(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert leader.end_offset_of(2) == 0
    assert leader.proposed == []


def test_race_3_late_fetch_does_not_count_before_the_metadata_shows_the_new_incarnation() -> None:
    leader = Leader(epochs=(0, 0, 0, 0))
    assert leader.fetch(2, 0, broker_epoch=21).error is ErrorCode.NONE
    assert leader.fetch(2, 4, broker_epoch=20).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (leader.end_offset_of(2), leader.replica.high_watermark) == (0, 0)


def test_race_10_delayed_fetch_is_not_counted_again() -> None:
    leader = Leader()
    leader.append()
    assert leader.fetch(2, 1, is_delayed=True).error is ErrorCode.NONE
    assert (leader.end_offset_of(2), leader.replica.high_watermark) == (NEVER_FETCHED, 0)


def test_race_10_delayed_fetch_does_not_show_a_follower_as_caught_up() -> None:
    leader = Leader()
    leader.fetch(2, 0)
    leader.append()
    leader.now_ms = 0.5 * LAG_MS
    leader.fetch(2, 0, is_delayed=True)
    leader.replica.shrink_isr(LAG_MS + 1)
    assert leader.proposed == [(1,)]


def test_race_10_delayed_fetch_fails_in_a_later_epoch() -> None:
    leader = Leader()
    leader.apply((1, 2), 6, leader_epoch=2)
    decision = leader.fetch(3, 0, leader_epoch=1, is_delayed=True)
    assert decision.error is ErrorCode.FENCED_LEADER_EPOCH


def test_race_10_delayed_fetch_of_an_earlier_incarnation_does_not_count() -> None:
    leader = Leader()
    leader.context.epochs[3] = 31
    leader.fetch(3, 0, broker_epoch=30, is_delayed=True)
    assert leader.end_offset_of(3) == NEVER_FETCHED


# Log start offsets


def test_low_watermark_is_the_smallest_log_start_of_live_replicas() -> None:
    leader = Leader(isr=(1, 2, 3), epochs=(0, 0, 0, 0))
    leader.fetch(2, 4, start_offset=1)
    leader.fetch(3, 4, start_offset=0)
    assert leader.replica.high_watermark == 4
    assert leader.replica.delete_records(3) is ErrorCode.NONE
    assert leader.log.start_offset == 3
    assert leader.replica.low_watermark(lambda broker_id: True) == 0
    assert leader.replica.low_watermark(lambda broker_id: broker_id != 3) == 1
    leader.fetch(2, 4, start_offset=3)
    leader.fetch(3, 4, start_offset=3)
    assert leader.replica.low_watermark(lambda broker_id: True) == 3
    assert leader.replica.delete_records(2) is ErrorCode.NONE
    assert leader.log.start_offset == 3


def test_records_above_the_high_watermark_are_not_deleted() -> None:
    leader = Leader(epochs=(0, 0))
    leader.fetch(2, 1)
    for offset in (2, -2):
        assert leader.replica.delete_records(offset) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert leader.log.start_offset == 0
    leader.apply((2,), 6, leader_epoch=2, leader=2)
    assert leader.replica.delete_records(1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
