from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch, ReplicaKey
from quorumd.raft.effects import Effects
from quorumd.raft.events import RequestReceived
from quorumd.raft.fetch_service import MAX_DELAYED_FETCHES, MAX_OBSERVERS, OBSERVER_CHECK_MS
from quorumd.raft.roles import FetchKey, Leader, Role
from tests.support.raft.quorum import key
from tests.support.raft.single_engine import EngineHarness

CONSUMER = ReplicaKey(NO_NODE)


def leader() -> EngineHarness:
    """The leader of epoch 4 with the log [1, 1, 3, 4], which is committed."""
    bench = EngineHarness((1, 1, 3)).to_leader()
    assert bench.log.epochs == [1, 1, 3, 4]
    return bench


def park(bench: EngineHarness, name: str, **fields: Any) -> Effects:
    return bench.step(RequestReceived(name, bench.fetch_of(fields.pop("peer", 2), **fields)))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"epoch": 3}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 5}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"offset": -1, "last_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({"last_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"wait": -1}, ErrorCode.INVALID_REQUEST),
        ({"replica": key(1)}, ErrorCode.INVALID_REQUEST),
        ({"replica": CONSUMER, "offset": 5, "last_epoch": -1}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"replica": CONSUMER, "epoch": 3}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"replica": CONSUMER, "epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_invalid_fetch_is_rejected(fields: dict[str, Any], error: ErrorCode) -> None:
    bench = leader()
    response = bench.deliver(bench.fetch_of(2, **fields))
    assert (response.error, response.leader_id, response.epoch) == (error, 1, 4)
    assert response.read_start_offset == -1


def test_fetch_below_the_log_start_is_out_of_range() -> None:
    bench = leader()
    bench.log.batches = bench.log.batches[1:]
    bench.log.start_offset = 1
    assert bench.deliver(bench.fetch_of(2, offset=0)).error is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("role", [r for r in Role if r is not Role.LEADER])
def test_non_leader_returns_the_leader(role: Role) -> None:
    bench = EngineHarness()
    go = {
        Role.UNATTACHED: lambda: bench,
        Role.FOLLOWER: bench.to_follower,
        Role.PROSPECTIVE: bench.to_prospective,
        Role.CANDIDATE: bench.to_candidate,
        Role.RESIGNED: bench.to_resigned,
    }
    go[role]()
    assert bench.engine.role is role
    response = bench.deliver(bench.fetch_of(3))
    assert response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (response.leader_id, response.epoch) == (bench.engine.leader_id, bench.engine.epoch)
    assert bench.deliver(bench.fetch_of(3, epoch=99)).error is ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [
        (0, 0, None),
        (1, 1, None),
        (2, 1, None),
        (3, 3, None),
        (4, 4, None),
        (3, 1, OffsetAndEpoch(2, 1)),
        (3, 2, OffsetAndEpoch(2, 1)),
        (9, 4, OffsetAndEpoch(4, 4)),
        (2, 0, OffsetAndEpoch(0, 0)),
    ],
)
def test_diverging_epoch_is_returned_unless_the_log_is_a_prefix(
    offset: int, last_epoch: int, diverging: OffsetAndEpoch | None
) -> None:
    bench = leader()
    request = bench.fetch_of(3, offset, 0, last_epoch=last_epoch)
    response = bench.deliver(request)
    assert (response.error, response.diverging) == (ErrorCode.NONE, diverging)
    assert response.read_start_offset == (offset if diverging is None and offset < 4 else -1)
    progress = bench.engine.describe(bench.now).voters[2].log_end_offset
    assert progress == (-1 if diverging else offset)


def test_records_are_returned_immediately() -> None:
    bench = leader()
    response = bench.deliver(bench.fetch_of(3, offset=1, max_bytes=77))
    assert (response.read_start_offset, response.read_limit, response.read_max_offset) == (1, 77, -1)
    assert (response.high_watermark, response.log_start_offset) == (4, 0)


class TestLongPoll:
    def test_waits_for_its_timeout(self) -> None:
        bench = leader()
        assert park(bench, "p", peer=3, wait=300).send == []
        assert bench.response_to("p", bench.wait(299)) is None
        response = bench.response_to("p", bench.wait(1))
        assert (response.error, response.read_start_offset) == (ErrorCode.NONE, -1)

    def test_zero_timeout_does_not_wait(self) -> None:
        bench = leader()
        assert bench.deliver(bench.fetch_of(3, wait=0)).read_start_offset == -1

    def test_append_completes_it_in_the_same_step(self) -> None:
        bench = leader()
        park(bench, "p")
        response = bench.response_to("p", bench.propose())
        assert (response.read_start_offset, response.high_watermark) == (4, 4)

    def test_new_fetch_of_the_same_replica_replaces_it(self) -> None:
        bench = leader()
        park(bench, "old")
        assert bench.response_to("old", park(bench, "new")).read_start_offset == -1
        effects = bench.propose()
        assert bench.response_to("old", effects) is None
        assert bench.response_to("new", effects).read_start_offset == 4

    def test_high_watermark_advance_completes_it_after_linger(self) -> None:
        bench = leader()
        bench.propose()
        park(bench, "p", peer=3, known_high_watermark=4)
        bench.flush()
        assert bench.engine.high_watermark == 5
        assert bench.engine.deadline == bench.now + bench.settings.high_watermark_linger_ms
        assert bench.response_to("p", bench.fire_timer()).high_watermark == 5

    def test_fetch_behind_the_high_watermark_also_lingers(self) -> None:
        bench = leader()
        park(bench, "p", known_high_watermark=3)
        assert bench.engine.deadline == bench.now + bench.settings.high_watermark_linger_ms

    def test_fetch_ignoring_high_watermark_is_not_completed(self) -> None:
        bench = leader()
        bench.propose()
        park(bench, "p", peer=3)
        bench.flush()
        assert bench.engine.deadline > bench.now + bench.settings.high_watermark_linger_ms


class TestConsumers:
    def test_read_committed_records_only(self) -> None:
        bench = leader()
        bench.propose()
        response = bench.deliver(bench.fetch_of(2, offset=2, replica=CONSUMER, epoch=-1, last_epoch=-1))
        assert (response.error, response.read_start_offset, response.read_max_offset) == (
            ErrorCode.NONE,
            2,
            4,
        )
        assert response.read_limit == 1000
        assert bench.engine.describe(bench.now).observers == ()

    def test_wait_for_a_commit(self) -> None:
        bench = leader()
        park(bench, "c", replica=CONSUMER)
        assert bench.response_to("c", bench.propose()) is None
        bench.flush()
        effects = bench.step(RequestReceived("x", bench.fetch_of(2)))
        response = bench.response_to("c", effects)
        assert (response.read_start_offset, response.read_max_offset) == (4, 5)

    def test_wait_at_most_their_timeout(self) -> None:
        bench = leader()
        park(bench, "c", replica=CONSUMER, wait=30)
        park(bench, "d", replica=CONSUMER, wait=60)
        assert bench.response_to("c", bench.wait(30)).read_start_offset == -1
        assert bench.response_to("d", bench.wait(30)).read_start_offset == -1

    def test_wait_without_a_known_high_watermark(self) -> None:
        bench = EngineHarness((1, 1, 3)).to_leader(committed=False)
        assert park(bench, "c", replica=CONSUMER, offset=2).send == []
        bench.flush()
        assert bench.response_to("c", park(bench, "x", peer=2)).read_max_offset == 4


def test_non_voter_claiming_to_vote_gets_records_and_not_follower() -> None:
    bench = leader()
    response = bench.deliver(bench.fetch_of(2, offset=1, replica=key(9), is_follower=True))
    assert (response.error, response.read_start_offset) == (ErrorCode.NOT_FOLLOWER, 1)
    assert bench.deliver(bench.fetch_of(2, offset=1, replica=key(9))).error is ErrorCode.NONE
    assert bench.deliver(bench.fetch_of(2, offset=1, is_follower=True)).error is ErrorCode.NONE


def test_observers_are_dropped_after_their_session() -> None:
    bench = leader()
    bench.deliver(bench.fetch_of(2, replica=key(9)))
    assert [each.key for each in bench.engine.describe(bench.now).observers] == [key(9)]
    bench.now += bench.settings.observer_session_ms + 1
    bench.deliver(bench.fetch_of(2, replica=key(8)))
    assert [each.key for each in bench.engine.describe(bench.now).observers] == [key(8)]


def test_new_observers_wait_until_recorded_ones_are_silent() -> None:
    bench = leader()
    for number in range(MAX_OBSERVERS + 1):
        assert (
            bench.deliver(bench.fetch_of(2, wait=0, replica=ReplicaKey(100 + number, key(9)[1]))) is not None
        )
    assert ReplicaKey(100 + MAX_OBSERVERS, key(9)[1]) not in observers(bench)
    bench.now += bench.settings.observer_session_ms + 1
    bench.deliver(bench.fetch_of(2, replica=key(8)))
    assert observers(bench) == [key(8)]


def test_silent_observers_are_removed_at_most_once_per_interval() -> None:
    bench = leader()
    for number in range(MAX_OBSERVERS):
        bench.deliver(bench.fetch_of(2, wait=0, replica=ReplicaKey(100 + number, key(9)[1])))
    bench.now += bench.settings.observer_session_ms
    bench.deliver(bench.fetch_of(2, wait=0, replica=key(8)))
    bench.now += OBSERVER_CHECK_MS - 1
    bench.deliver(bench.fetch_of(2, wait=0, replica=key(8)))
    assert len(observers(bench)) == MAX_OBSERVERS
    bench.now += 1
    bench.deliver(bench.fetch_of(2, wait=0, replica=key(8)))
    assert observers(bench) == [key(8)]


def delayed(bench: EngineHarness) -> list[FetchKey]:
    state = bench.engine._replica.state
    assert isinstance(state, Leader)
    return list(state.delayed)


def observers(bench: EngineHarness) -> list[ReplicaKey]:
    state = bench.engine._replica.state
    assert isinstance(state, Leader)
    return list(state.observers)


def test_delayed_fetches_are_bounded() -> None:
    bench = leader()
    waiting = MAX_DELAYED_FETCHES - len(delayed(bench))
    for number in range(waiting):
        assert bench.deliver(bench.fetch_of(2, replica=ReplicaKey(100 + number, key(9)[1]))) is None
    assert bench.deliver(bench.fetch_of(2, replica=key(99))) is not None
    assert bench.deliver(bench.fetch_of(2), reply="voter") is None, "voters always wait"
    for number in range(MAX_DELAYED_FETCHES):
        assert bench.deliver(bench.fetch_of(2, replica=CONSUMER), reply=number) is None
    assert bench.deliver(bench.fetch_of(2, replica=CONSUMER), reply="one more") is not None


def test_last_caught_up_time_follows_the_leaders_log_end() -> None:
    bench = leader()
    bench.now += 10
    park(bench, "a", peer=3)
    bench.now += 10
    bench.propose()
    bench.now += 10
    bench.deliver(bench.fetch_of(3, offset=4))
    bench.propose()
    bench.now += 10
    bench.deliver(bench.fetch_of(3, offset=5))
    voter = bench.engine.describe(bench.now).voters[2]
    assert (voter.log_end_offset, voter.last_fetch_ms_ago, voter.last_caught_up_ms_ago) == (5, 0, 10)
