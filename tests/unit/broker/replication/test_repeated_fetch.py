"""Fetches that repeat the last one of a follower in sync."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorumd.broker.replication.repeated_fetch import count_repeated
from quorumd.broker.replication.replica_fetch import ReplicaFetch
from tests.support.broker.replicas import Leader

REPEATED = ReplicaFetch(2, 20, 1, 1, 1, 0)


def counts(leader: Leader, fetch: ReplicaFetch, high_watermark: int, start_offset: int) -> bool:
    return count_repeated(
        leader.replica,
        fetch.replica_id,
        fetch.broker_epoch,
        fetch.leader_epoch,
        fetch.offset,
        fetch.start_offset,
        high_watermark,
        start_offset,
        500.0,
    )


def leader_with_a_record() -> Leader:
    leader = Leader(isr=(1, 2))
    leader.append()
    leader.fetch(2, 1)
    assert leader.replica.high_watermark == 1
    return leader


def test_repeated_fetch_counts() -> None:
    leader = leader_with_a_record()
    assert counts(leader, REPEATED, 1, 0)
    assert leader.replica.leadership is not None
    follower = leader.replica.leadership.followers[2]
    assert (follower.fetched_ms, follower.caught_up_ms, follower.end_offset) == (500.0, 500.0, 1)


@pytest.mark.parametrize(
    "fetch",
    [
        REPEATED._replace(replica_id=3),
        REPEATED._replace(replica_id=9),
        REPEATED._replace(broker_epoch=19),
        REPEATED._replace(leader_epoch=0),
        REPEATED._replace(offset=0),
    ],
)
def test_another_fetch_does_not(fetch: ReplicaFetch) -> None:
    leader = leader_with_a_record()
    assert not counts(leader, fetch, 1, 0)


@pytest.mark.parametrize(("high_watermark", "start_offset"), [(0, 0), (1, 1)])
def test_follower_that_has_to_learn_offsets_is_served(high_watermark: int, start_offset: int) -> None:
    assert not counts(leader_with_a_record(), REPEATED, high_watermark, start_offset)


@pytest.mark.parametrize(
    "change",
    [
        lambda leader: leader.append(),
        lambda leader: leader.apply((1,), 6),
        lambda leader: leader.apply((1, 2), 6, leader_epoch=2),
        lambda leader: leader.apply((1, 2), 6, leader_epoch=2, leader=2),
    ],
    ids=["append", "out of the ISR", "new epoch", "no longer the leader"],
)
def test_fetch_after_a_change_is_served(change: Callable[[Leader], object]) -> None:
    leader = leader_with_a_record()
    change(leader)
    assert not counts(leader, REPEATED, 1, 0)
