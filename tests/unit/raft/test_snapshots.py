"""Snapshots in place of records: whom the leader sends there, how a follower fetches and takes one."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch, ReplicaKey
from quorumd.raft.effects import Effects, SnapshotPart
from quorumd.raft.events import SnapshotChecked
from quorumd.raft.messages import FetchRequest, FetchResponse, SnapshotRequest, SnapshotResponse
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from quorumd.raft.voters import VoterAssignment
from tests.support.raft_quorum import Batch, key, voter_set
from tests.support.raft_single import ME, Single

SNAPSHOT = OffsetAndEpoch(100, 3)
VOTERS = VoterAssignment(voter_set(1, 2, 3))


def leader_with_snapshot(start: int = 0) -> Single:
    """A leader whose log has records of epochs 1, 2 and 2 and a snapshot that ends at 2; it begins at `start`."""
    bench = Single((1, 2, 2), voters=voter_set(1, 2, 3))
    bench.to_leader()
    bench.log.latest_snapshot = OffsetAndEpoch(2, 2)
    if start:
        bench.log.start_offset, bench.log.start_epoch = start, bench.log.epochs[start - 1]
        bench.log.batches = [batch for batch in bench.log.batches if batch.base >= start]
    return bench


class TestLeader:
    def fetched(self, bench: Single, offset: int, last_epoch: int, **fields: Any) -> FetchResponse:
        request = bench.fetch_of(2, offset, wait=0, last_epoch=last_epoch, **fields)
        response = bench.ask(request, "mine")
        assert isinstance(response, FetchResponse)
        return response

    @pytest.mark.parametrize(
        ("offset", "last_epoch"), [(0, 0), (1, 1), (1, 2)], ids=["empty", "below the start", "other history"]
    )
    def test_sends_who_cannot_go_on_with_records_to_the_newest_snapshot(
        self, offset: int, last_epoch: int
    ) -> None:
        response = self.fetched(leader_with_snapshot(start=2), offset, last_epoch)
        assert (response.error, response.snapshot) == (ErrorCode.NONE, OffsetAndEpoch(2, 2))
        assert (response.read_from, response.diverging) == (-1, None)

    def test_sends_who_has_nothing_in_common_to_it(self) -> None:
        response = self.fetched(leader_with_snapshot(start=2), 3, 1)
        assert response.snapshot == OffsetAndEpoch(2, 2)

    def test_gives_records_to_who_is_at_the_start(self) -> None:
        response = self.fetched(leader_with_snapshot(start=2), 2, 2)
        assert (response.snapshot, response.read_from) == (None, 2)

    def test_tells_where_to_cut_to_who_is_beyond_it(self) -> None:
        bench = leader_with_snapshot(start=2)
        response = self.fetched(bench, 9, 2)
        assert (response.snapshot, response.diverging) == (None, OffsetAndEpoch(3, 2))

    def test_sends_an_empty_replica_there_though_the_log_is_whole(self) -> None:
        assert self.fetched(leader_with_snapshot(), 0, 0).snapshot == OffsetAndEpoch(2, 2)

    def test_gives_records_to_all_others_then(self) -> None:
        assert self.fetched(leader_with_snapshot(), 1, 1).snapshot is None

    def test_sends_nobody_there_without_a_snapshot(self) -> None:
        bench = leader_with_snapshot()
        bench.log.latest_snapshot = None
        assert self.fetched(bench, 0, 0).read_from == 0

    @pytest.mark.parametrize(("start", "error"), [(0, ErrorCode.NONE), (2, ErrorCode.OFFSET_OUT_OF_RANGE)])
    def test_consumers_read_records_or_none(self, start: int, error: ErrorCode) -> None:
        response = self.fetched(leader_with_snapshot(start), 0, 0, replica=ReplicaKey(NO_NODE))
        assert (response.error, response.snapshot) == (error, None)

    def test_says_nothing_of_how_far_such_a_replica_is(self) -> None:
        bench = leader_with_snapshot(start=2)
        before = bench.engine.high_watermark
        bench.propose()
        bench.flush()
        self.fetched(bench, 1, 1)
        assert bench.engine.high_watermark == before


def asked(bench: Single, **fields: Any) -> SnapshotResponse:
    values: dict[str, Any] = {
        "replica": key(2),
        "epoch": bench.engine.epoch,
        "snapshot": OffsetAndEpoch(2, 2),
        "position": 5,
        "max_bytes": 10**9,
    }
    response = bench.ask(SnapshotRequest(**values | fields))
    assert isinstance(response, SnapshotResponse)
    return response


class TestServing:
    def test_lets_read_a_bounded_piece(self) -> None:
        bench = leader_with_snapshot()
        response = asked(bench)
        assert response.error is ErrorCode.NONE
        assert (response.snapshot, response.position) == (OffsetAndEpoch(2, 2), 5)
        assert response.read_limit == bench.settings.snapshot_max_bytes
        assert asked(bench, max_bytes=7).read_limit == 7

    def test_never_lets_read_nothing(self) -> None:
        assert asked(leader_with_snapshot(), max_bytes=0).read_limit == 1

    @pytest.mark.parametrize(
        ("difference", "error"), [(-1, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)]
    )
    def test_is_of_one_epoch(self, difference: int, error: ErrorCode) -> None:
        bench = leader_with_snapshot()
        assert asked(bench, epoch=bench.engine.epoch + difference).error is error

    def test_is_for_the_leader_alone_and_others_say_who_that_is(self) -> None:
        bench = Single(voters=voter_set(1, 2, 3)).to_follower(3)
        response = asked(bench)
        assert (response.error, response.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 3)

    def test_refuses_a_negative_position_without_killing_a_stock_peer(self) -> None:
        assert asked(leader_with_snapshot(), position=-1).error is ErrorCode.POSITION_OUT_OF_RANGE

    def test_counts_as_contact(self) -> None:
        bench = leader_with_snapshot()
        for _ in range(20):
            bench.wait(bench.settings.fetch_timeout_ms / 2)
            asked(bench)
        assert bench.engine.is_leader

    def test_by_a_replica_that_does_not_vote_does_not(self) -> None:
        bench = leader_with_snapshot()
        for _ in range(20):
            bench.wait(bench.settings.fetch_timeout_ms / 2)
            asked(bench, replica=key(9))
        assert not bench.engine.is_leader


def told(bench: Single, snapshot: OffsetAndEpoch = SNAPSHOT) -> FetchResponse:
    return FetchResponse(ErrorCode.NONE, 2, bench.engine.epoch, 100, 100, snapshot=snapshot)


def piece(bench: Single, data: bytes, position: int = 0, size: int = 10, **fields: Any) -> SnapshotResponse:
    values: dict[str, Any] = {"error": ErrorCode.NONE, "snapshot": SNAPSHOT} | fields
    return SnapshotResponse(
        leader_id=2, epoch=bench.engine.epoch, position=position, size=size, data=data, **values
    )


def follower(epochs: tuple[int, ...] = (1, 1), state: QuorumState | None = None) -> Single:
    """It has been told to fetch SNAPSHOT, and asks for its beginning."""
    bench = Single(epochs, state or QuorumState(5), voters=voter_set(1, 2, 3)).to_follower(2)
    bench.answer(2, told(bench))
    return bench


def request_of(bench: Single) -> SnapshotRequest:
    (request,) = bench.requests(SnapshotRequest).values()
    assert isinstance(request, SnapshotRequest)
    return request


class TestFetching:
    def test_asks_for_the_beginning(self) -> None:
        bench = follower()
        request = request_of(bench)
        assert (request.replica, request.epoch, request.snapshot, request.position) == (ME, 5, SNAPSHOT, 0)

    def test_goes_on_where_it_was(self) -> None:
        bench = Single((1, 1), QuorumState(5), voters=voter_set(1, 2, 3)).to_follower(2)
        bench.log.part = SNAPSHOT, b"1234"
        bench.answer(2, told(bench))
        assert request_of(bench).position == 4

    def test_keeps_what_comes_and_asks_for_more(self) -> None:
        bench = follower()
        effects = bench.answer(2, piece(bench, b"1234"))
        assert effects.snapshot_part == SnapshotPart(SNAPSHOT, 0, b"1234", 10)
        assert request_of(bench).position == 4

    def test_asks_for_nothing_while_the_whole_is_checked(self) -> None:
        bench = follower()
        effects = bench.answer(2, piece(bench, b"0123456789"))
        assert effects.snapshot_part == SnapshotPart(SNAPSHOT, 0, b"0123456789", 10)
        assert not bench.requests(SnapshotRequest)
        assert not bench.requests(FetchRequest)

    def test_every_piece_keeps_the_leader_alive(self) -> None:
        bench = follower()
        for position in range(30):
            bench.now += bench.settings.fetch_timeout_ms * 0.9
            bench.answer(2, piece(bench, b"x", position, size=1000))
        assert bench.engine.leader_id == 2
        assert bench.engine.deadline > bench.now + bench.settings.fetch_timeout_ms * 0.9

    @pytest.mark.parametrize(
        "wrong",
        [
            {"snapshot": OffsetAndEpoch(101, 3)},
            {"position": 3},
            {"data": b""},
            {"data": b"01234567890"},
            {"error": ErrorCode.SNAPSHOT_NOT_FOUND},
            {"error": ErrorCode.POSITION_OUT_OF_RANGE},
        ],
        ids=str,
    )
    def test_what_does_not_fit_is_not_kept_and_records_are_fetched_again(self, wrong: dict[str, Any]) -> None:
        bench = follower()
        values: dict[str, Any] = {"data": b"1234", "position": 0} | wrong
        effects = bench.answer(2, piece(bench, **values))
        assert effects.snapshot_part is None
        bench.fire()
        assert list(bench.requests(FetchRequest)) == [2]

    def test_a_failed_request_is_repeated(self) -> None:
        bench = follower()
        bench.fail(2)
        bench.fire()
        assert request_of(bench).position == 0

    def test_a_leader_that_steps_down_is_given_up(self) -> None:
        bench = follower()
        bench.answer(2, piece(bench, b"", error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert bench.engine.deadline < bench.now + bench.settings.fetch_timeout_ms

    def test_a_new_leader_is_asked_for_records_first(self) -> None:
        bench = follower()
        bench.to_follower(3, 6)
        assert list(bench.requests(FetchRequest)) == [3]

    def test_an_answer_of_the_old_leader_is_not_kept_then(self) -> None:
        bench = follower()
        old = bench.open[2]
        bench.to_follower(3, 6)
        bench.open[2] = old
        assert bench.answer(2, piece(bench, b"1234")).snapshot_part is None


class TestTaking:
    def checked(self, bench: Single, voters: VoterAssignment | None = VOTERS) -> Effects:
        bench.answer(2, piece(bench, b"0123456789"))
        return bench.step(SnapshotChecked(SNAPSHOT, voters))

    def test_the_log_is_begun_anew_and_all_of_it_is_committed(self) -> None:
        bench = follower()
        effects = self.checked(bench)
        assert effects.restart_at == SNAPSHOT
        assert effects.committed_up_to == 100
        (fetch,) = bench.requests(FetchRequest).values()
        assert (fetch.offset, fetch.last_epoch) == (100, 3)

    def test_who_votes_is_what_it_says(self) -> None:
        bench = follower()
        self.checked(bench, VoterAssignment(voter_set(2, 3, 4), (4,)))
        assert bench.engine.voters == VoterAssignment(voter_set(2, 3, 4), (4,))
        assert not bench.engine.is_voter

    def test_an_unsound_one_changes_nothing(self) -> None:
        bench = follower()
        effects = self.checked(bench, None)
        assert (effects.restart_at, effects.committed_up_to) == (None, None)
        assert bench.engine.voters.current == voter_set(1, 2, 3)
        bench.fire()
        assert list(bench.requests(FetchRequest)) == [2]

    def test_what_was_committed_is_never_taken_back(self) -> None:
        bench = Single((1, 1), QuorumState(5), voters=voter_set(1, 2, 3)).to_follower(2)
        bench.answer(2, bench.records(Batch(2, 200, 2, b"x"), high_watermark=150))
        bench.answer(2, told(bench))
        effects = self.checked(bench)
        assert effects.fatal is not None
        assert "below the high watermark 150" in effects.fatal

    def test_one_that_brings_nothing_any_more_is_left(self) -> None:
        bench = Single((1, 1), QuorumState(5), voters=voter_set(1, 2, 3)).to_follower(2)
        bench.answer(2, bench.records(Batch(2, 200, 4, b"x"), high_watermark=2))
        bench.answer(2, told(bench))
        assert self.checked(bench).restart_at is None

    def test_is_taken_though_the_leader_is_lost_meanwhile(self) -> None:
        bench = follower()
        bench.answer(2, piece(bench, b"0123456789"))
        bench.engine._replica.storage_full = True  # it may not campaign: unattached is what it becomes
        while bench.engine.role is Role.FOLLOWER:
            bench.fire()
        assert bench.engine.role is Role.UNATTACHED
        assert bench.step(SnapshotChecked(SNAPSHOT, VOTERS)).restart_at == SNAPSHOT

    def test_a_leader_takes_none(self) -> None:
        bench = Single(voters=voter_set(1, 2, 3)).to_leader()
        assert bench.step(SnapshotChecked(SNAPSHOT, VOTERS)).restart_at is None

    def test_a_replaced_disk_may_vote_again_once_the_voters_name_it(self) -> None:
        bench = follower(epochs=(), state=QuorumState(0))
        assert bench.engine._replica.catching_up
        self.checked(bench)
        assert not bench.engine._replica.catching_up
