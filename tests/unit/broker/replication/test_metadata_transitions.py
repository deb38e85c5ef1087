"""Changes of the metadata log at a replica: each batch is applied in its final state."""

from __future__ import annotations

import pytest

from quorumd.broker.replication.replica import Replica, Transition
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch
from tests.support.broker.memory_log import MemoryLog
from tests.support.broker.replicas import LAG_MS, PARTITION, Context, Leader

NEVER_FETCHED = -1
SOME = {"replicas": (1, 2, 3), "isr": (1, 2)}


def partition(leader: int, leader_epoch: int, partition_epoch: int, **others: tuple[int, ...]) -> Partition:
    fields = {**SOME, **others}
    return Partition(fields["replicas"], fields["isr"], leader, leader_epoch, partition_epoch)


def test_transitions() -> None:
    replica = Replica(PARTITION, 1, MemoryLog(), Context())
    steps = [
        (partition(2, 1, 5), Transition.FOLLOWS),
        (partition(2, 1, 5), Transition.NONE),
        (partition(2, 1, 6), Transition.NONE),
        (partition(2, 2, 7), Transition.FOLLOWS),
        (partition(-1, 3, 8), Transition.NO_LEADER),
        (partition(1, 4, 9), Transition.LEADS),
        (partition(1, 4, 10), Transition.STILL_LEADS),
        (partition(1, 5, 11), Transition.LEADS),
        (partition(1, 5, 9), Transition.NONE),
        (partition(3, 6, 12), Transition.FOLLOWS),
        (partition(3, 6, 13, replicas=(2, 3)), Transition.REMOVED),
    ]
    for state, expected in steps:
        assert replica.apply(state, 0.0) is expected, state
        leads = expected in (Transition.LEADS, Transition.STILL_LEADS) or state.partition_epoch == 9
        assert (replica.leadership is not None) is leads


def test_new_leader_starts_its_epoch_at_the_log_end() -> None:
    leader = Leader(epochs=(0, 0))
    assert leader.replica.leadership is not None
    assert (leader.replica.leadership.epoch, leader.replica.leadership.epoch_start) == (1, 2)
    assert leader.log.last_epoch == 1
    leader.append()
    assert leader.log.end_of_epoch(0) == OffsetAndEpoch(2, 0)


def test_first_state_is_applied_whatever_its_partition_epoch() -> None:
    replica = Replica(PARTITION, 1, MemoryLog(), Context())
    assert replica.leader_epoch == -1
    assert replica.isr == replica.maximal_isr == ()
    assert replica.check_leader(0) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert replica.apply(partition(1, 0, 0), 0.0) is Transition.LEADS


def test_older_state_is_ignored() -> None:
    leader = Leader()
    leader.apply((1,), 4, leader_epoch=2, leader=2)
    assert leader.replica.isr == (1, 2)
    assert leader.replica.leadership is not None


def test_metadata_of_the_same_epoch_ends_a_proposal() -> None:
    leader = Leader()
    leader.fetch(3, 0)
    leader.apply((1, 2), 6)
    assert leader.replica.maximal_isr == (1, 2)
    leader.fetch(3, 0)
    assert leader.context.proposals[-1].partition_epoch == 6


def test_metadata_recomputes_the_high_watermark() -> None:
    leader = Leader(isr=(1, 2, 3))
    leader.append()
    leader.fetch(2, 1)
    assert leader.replica.high_watermark == 0
    leader.now_ms = 2 * LAG_MS
    leader.apply((1, 2), 6)
    assert leader.replica.high_watermark == 1


def test_race_11_fetches_before_an_epoch_count_for_the_isr_only() -> None:
    """3 was dropped and added again, with an empty log, in one batch."""
    leader = Leader(isr=(1, 2), epochs=(0, 0, 0, 0))
    leader.context.ineligible.add(3)
    leader.fetch(2, 4)
    leader.fetch(3, 4)
    leader.context.ineligible.clear()
    leader.apply((1, 2), 7, leader_epoch=2)
    assert (leader.end_offset_of(2), leader.end_offset_of(3)) == (4, NEVER_FETCHED)
    leader.fetch(2, 4)
    leader.replica.shrink_isr(0.0)
    assert leader.proposed == []
    assert leader.fetch(3, 4, leader_epoch=1).error is ErrorCode.FENCED_LEADER_EPOCH
    assert leader.proposed == []


def test_re_elected_leader_gives_members_time_and_no_others() -> None:
    leader = Leader(isr=(1, 2))
    leader.context.is_open = False
    leader.fetch(3, 0)
    leader.apply((1, 2), 6, leader_epoch=2)
    leader.append()
    leader.fetch(2, 1)
    assert leader.replica.high_watermark == 1, "3 does not count as caught up in this epoch"


def test_added_replica_has_not_fetched_and_removed_one_is_forgotten() -> None:
    leader = Leader()
    leader.context.is_open = False
    leader.fetch(2, 0)
    leader.fetch(3, 0)
    leader.apply((1, 2), 6, replicas=(1, 2, 4))
    assert (leader.end_offset_of(2), leader.end_offset_of(4)) == (0, NEVER_FETCHED)
    assert leader.fetch(3, 0).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    leader.apply((1, 2), 7, replicas=(1, 2, 3))
    assert leader.end_offset_of(3) == NEVER_FETCHED


def test_leader_that_lost_its_partition_knows_nothing_of_its_followers_later() -> None:
    leader = Leader(epochs=(0,))
    leader.fetch(2, 1)
    leader.apply((1, 2), 6, leader_epoch=2, leader=2)
    leader.apply((1, 2), 7, leader_epoch=3)
    assert leader.end_offset_of(2) == NEVER_FETCHED


@pytest.mark.parametrize("isr", [(2,), (2, 3)])
def test_resigned_leader_keeps_its_log_and_high_watermark(isr: tuple[int, ...]) -> None:
    leader = Leader(epochs=(0, 0))
    leader.fetch(2, 1)
    leader.apply(isr, 6, leader_epoch=2, leader=2)
    assert (leader.log.end_offset, leader.replica.high_watermark) == (2, 1)
    assert repr(leader.replica).startswith("<follower of ")
