"""The high watermark of a leader, and the acknowledgement of writes."""

from __future__ import annotations

import pytest

from quorumd.broker.replication.isr_proposal import CommittedIsr
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from tests.support.broker.replicas import LAG_MS, Follower, Leader


def test_write_is_acknowledged_when_the_isr_has_it() -> None:
    leader = Leader(isr=(1, 2, 3))
    assert leader.produce() is ErrorCode.NONE
    leader.fetch(2, 1)
    assert (leader.replica.high_watermark, leader.outcomes) == (0, [])
    leader.fetch(3, 1)
    assert (leader.replica.high_watermark, leader.outcomes) == (1, [ErrorCode.NONE])
    assert leader.context.advanced == [(0, 1)]


def test_lone_leader_advances_on_its_own_append() -> None:
    leader = Leader(isr=(1,), replicas=(1,))
    assert leader.replica.min_isr == 1, "limited to the number of replicas"
    leader.produce()
    assert (leader.replica.high_watermark, leader.outcomes) == (1, [ErrorCode.NONE])


def test_min_isr_counts_the_replicas_after_a_reassignment() -> None:
    leader = Leader(isr=(1,), min_isr=3)
    leader.apply((1,), 6, replicas=(1, 2, 3, 4), adding=(4,), removing=(2, 3))
    assert leader.replica.min_isr == 2


def test_too_few_in_sync_replicas_refuse_a_write_before_it_is_appended() -> None:
    leader = Leader(isr=(1,))
    assert leader.produce() is ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.log.end_offset == 0
    assert leader.replica.check_produce(acks=1) is ErrorCode.NONE


def test_high_watermark_stays_while_the_committed_isr_is_too_small() -> None:
    leader = Leader(isr=(1, 2))
    leader.produce()
    leader.apply((1,), 6)
    leader.fetch(2, 1)
    assert (leader.replica.high_watermark, leader.outcomes) == (0, [])
    leader.replica.expire_produces(99.0)
    assert leader.outcomes == []
    leader.replica.expire_produces(100.0)
    assert leader.outcomes == [ErrorCode.REQUEST_TIMED_OUT]


def test_race_15_proposed_member_does_not_count_for_min_isr() -> None:
    leader = Leader(isr=(1,))
    leader.fetch(3, 0)
    assert leader.replica.maximal_isr == (1, 3)
    leader.append()
    leader.fetch(3, 1)
    assert leader.replica.high_watermark == 0
    leader.replica.handle_proposal_response(
        leader.context.proposals[0], ErrorCode.NONE, CommittedIsr(1, 1, (1, 3), 6), 0.0
    )
    assert (leader.replica.isr, leader.replica.high_watermark) == ((1, 3), 1)


def test_race_14_high_watermark_waits_for_a_proposed_member() -> None:
    leader = Leader()
    leader.fetch(3, 0)
    leader.now_ms += 2 * LAG_MS  # it no longer counts as caught up
    leader.append()
    leader.fetch(2, 1)
    assert leader.replica.high_watermark == 0
    leader.fetch(3, 1)
    assert leader.replica.high_watermark == 1


def test_race_14_high_watermark_waits_for_a_member_until_its_removal_is_committed() -> None:
    leader = Leader(isr=(1, 2, 3))
    leader.append()
    leader.fetch(2, 1)
    leader.now_ms = LAG_MS + 1
    leader.fetch(2, 1)
    leader.replica.shrink_isr(leader.now_ms)
    assert leader.proposed == [(1, 2)]
    assert leader.replica.high_watermark == 0
    leader.replica.handle_proposal_response(
        leader.context.proposals[0], ErrorCode.NONE, CommittedIsr(1, 1, (1, 2), 6), leader.now_ms
    )
    assert leader.replica.high_watermark == 0
    leader.apply((1, 2), 6)
    assert leader.replica.high_watermark == 1


def test_removed_member_is_awaited_until_the_metadata_shows_whether_it_is_eligible() -> None:
    """The controller removed it when min.insync.replicas had risen to 3, so that it is in the ELR."""
    leader = Leader(isr=(1, 2, 3))
    leader.append()
    leader.now_ms = LAG_MS + 1
    leader.fetch(2, 1)
    leader.replica.shrink_isr(leader.now_ms)
    leader.replica.handle_proposal_response(
        leader.context.proposals[0], ErrorCode.NONE, CommittedIsr(1, 1, (1, 2), 6), leader.now_ms
    )
    assert leader.replica.maximal_isr == (1, 2, 3)
    leader.context.least = 3
    leader.apply((1, 2), 6, elr=(3,))
    assert leader.replica.maximal_isr == (1, 2)
    leader.fetch(2, 1)
    assert leader.replica.high_watermark == 0, "too few in sync"


def test_eligible_caught_up_replica_outside_of_the_isr_holds_the_high_watermark() -> None:
    leader = Leader()
    leader.context.is_open = False  # no proposal is possible now
    leader.fetch(3, 0)
    assert leader.replica.maximal_isr == (1, 2)
    leader.append()
    leader.fetch(2, 1)
    assert leader.replica.high_watermark == 0
    leader.now_ms = LAG_MS + 1
    leader.fetch(2, 1)
    assert leader.replica.high_watermark == 1, "until it lags"


@pytest.mark.parametrize("cause", ["fenced", "restarted"])
def test_ineligible_replica_does_not_hold_the_high_watermark(cause: str) -> None:
    leader = Leader()
    leader.context.is_open = False
    leader.fetch(3, 0)
    if cause == "fenced":
        leader.context.ineligible.add(3)
    else:
        leader.context.epochs[3] = 31
    leader.append()
    leader.fetch(2, 1)
    assert leader.replica.high_watermark == 1


def test_member_that_is_removed_before_it_fetched_does_not_hold_the_high_watermark() -> None:
    leader = Leader(isr=(1, 2, 3))
    leader.append()
    leader.fetch(2, 1)
    assert leader.replica.high_watermark == 0
    leader.apply((1, 2), 6)
    assert leader.replica.high_watermark == 1, "it has the time of a new leader, and is eligible again"


def test_replica_that_lags_is_released_by_the_periodic_check() -> None:
    leader = Leader()
    leader.context.is_open = False
    leader.fetch(3, 0)
    leader.append()
    leader.fetch(2, 1)
    leader.replica.shrink_isr(LAG_MS + 1)
    assert leader.replica.high_watermark == 1


def test_high_watermark_never_goes_back_in_a_leadership() -> None:
    leader = Leader(isr=(1, 2))
    leader.append()
    leader.fetch(2, 1)
    leader.fetch(2, 0)
    leader.append()
    assert (leader.replica.high_watermark, leader.end_offset_of(2)) == (1, 0)
    leader.apply((1, 2), partition_epoch=6, leader_epoch=2)
    assert leader.replica.high_watermark == 1


def test_new_leader_does_not_know_its_followers() -> None:
    follower = Follower(1, 1, high_watermark=1)
    follower.replica.apply(Partition((1, 2, 3), (2, 3), 2, 2, 6), 0.0)
    assert follower.replica.high_watermark == 1
    follower.replica.handle_append(0.0)
    assert follower.replica.high_watermark == 1, "follower 3 has not fetched yet"


def test_write_that_is_committed_already_is_acknowledged_at_once() -> None:
    """The repeated batch of an idempotent producer."""
    leader = Leader()
    leader.append()
    leader.fetch(2, 1)
    leader.replica.await_replication(1, 100.0, leader.outcomes.append)
    assert leader.outcomes == [ErrorCode.NONE]
    leader.replica.await_replication(2, 100.0, leader.outcomes.append)
    assert leader.outcomes == [ErrorCode.NONE]


def test_too_few_in_sync_replicas_after_the_append_are_reported() -> None:
    leader = Leader()
    leader.append()
    leader.fetch(2, 1)
    leader.apply((1,), 6)
    leader.replica.await_replication(1, 100.0, leader.outcomes.append)
    assert leader.outcomes == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


@pytest.mark.parametrize(("new_leader", "replicas"), [(2, (1, 2, 3)), (-1, (1, 2, 3)), (2, (2, 3))])
def test_writes_fail_with_the_leadership(new_leader: int, replicas: tuple[int, ...]) -> None:
    leader = Leader()
    leader.produce()
    leader.apply((2,), 6, leader_epoch=2, leader=new_leader, replicas=replicas)
    assert leader.outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert leader.replica.leadership is None
    leader.replica.await_replication(1, 100.0, leader.outcomes.append)
    assert leader.outcomes == 2 * [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert leader.replica.check_produce(-1) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_re_elected_leader_keeps_its_writes() -> None:
    leader = Leader()
    leader.produce()
    leader.apply((1, 2), 6, leader_epoch=2)
    assert leader.outcomes == []
    leader.fetch(2, 1)
    assert leader.outcomes == [ErrorCode.NONE]


def test_writes_time_out_one_by_one() -> None:
    leader = Leader()
    leader.produce(timeout_ms=100.0)
    leader.produce(timeout_ms=200.0)
    leader.replica.expire_produces(100.0)
    assert leader.outcomes == [ErrorCode.REQUEST_TIMED_OUT]
    leader.fetch(2, 2)
    assert leader.outcomes == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]


def test_race_20_latest_offset_is_unknown_until_the_start_of_the_epoch_is_committed() -> None:
    leader = Leader(isr=(1, 2), epochs=(0,))
    assert leader.replica.leadership is not None
    assert leader.replica.leadership.epoch_start == 1
    assert not leader.replica.is_end_known
    leader.fetch(2, 1)
    assert leader.replica.is_end_known
    leader.apply((2,), 6, leader_epoch=2, leader=2)
    assert not leader.replica.is_end_known


def test_checkpoint_is_limited_to_the_log() -> None:
    assert Follower(1, 1, high_watermark=9).replica.high_watermark == 2
    assert Follower(1, 1, high_watermark=-1).replica.high_watermark == 0
