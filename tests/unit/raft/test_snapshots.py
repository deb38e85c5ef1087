"""Snapshots: replicas that the leader directs to one, and followers that fetch and install it."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch, ReplicaKey
from quorumd.raft.effects import Effects, SnapshotChunk
from quorumd.raft.events import SnapshotChecked, StallDetected
from quorumd.raft.messages import FetchRequest, FetchResponse, SnapshotRequest, SnapshotResponse
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from quorumd.raft.voters import VoterAssignment
from tests.support.raft.quorum import Batch, key, voter_set
from tests.support.raft.single_engine import ME, EngineHarness, vote

SNAPSHOT = OffsetAndEpoch(100, 3)
VOTERS = VoterAssignment(voter_set(1, 2, 3))


def leader_with_snapshot(start: int = 0) -> EngineHarness:
    """A leader whose log has records of epochs 1, 2 and 2 and a snapshot that ends at 2; it begins at `start`."""
    bench = EngineHarness((1, 2, 2), voters=voter_set(1, 2, 3))
    bench.to_leader()
    bench.log.latest_snapshot = OffsetAndEpoch(2, 2)
    if start:
        bench.log.start_offset, bench.log.start_epoch = start, bench.log.epochs[start - 1]
        bench.log.batches = [batch for batch in bench.log.batches if batch.base >= start]
    return bench


class TestLeader:
    def fetched(self, bench: EngineHarness, offset: int, last_epoch: int, **fields: Any) -> FetchResponse:
        request = bench.fetch_of(2, offset, wait=0, last_epoch=last_epoch, **fields)
        response = bench.deliver(request, "mine")
        assert isinstance(response, FetchResponse)
        return response

    @pytest.mark.parametrize(
        ("offset", "last_epoch"), [(0, 0), (1, 1), (1, 2)], ids=["empty", "below the start", "other history"]
    )
    def test_directs_lagging_replica_to_latest_snapshot(self, offset: int, last_epoch: int) -> None:
        response = self.fetched(leader_with_snapshot(start=2), offset, last_epoch)
        assert (response.error, response.snapshot) == (ErrorCode.NONE, OffsetAndEpoch(2, 2))
        assert (response.read_start_offset, response.diverging) == (-1, None)

    def test_directs_diverged_replica_to_snapshot(self) -> None:
        response = self.fetched(leader_with_snapshot(start=2), 3, 1)
        assert response.snapshot == OffsetAndEpoch(2, 2)

    def test_serves_records_at_log_start(self) -> None:
        response = self.fetched(leader_with_snapshot(start=2), 2, 2)
        assert (response.snapshot, response.read_start_offset, response.log_start_offset) == (None, 2, 2)

    def test_returns_diverging_epoch(self) -> None:
        bench = leader_with_snapshot(start=2)
        response = self.fetched(bench, 9, 2)
        assert (response.snapshot, response.diverging) == (None, OffsetAndEpoch(3, 2))

    def test_truncates_an_older_log_although_it_has_a_snapshot(self) -> None:
        response = self.fetched(leader_with_snapshot(), 1, 0)
        assert (response.snapshot, response.diverging) == (None, OffsetAndEpoch(0, 0))

    def test_directs_empty_replica_to_snapshot_even_with_a_whole_log(self) -> None:
        assert self.fetched(leader_with_snapshot(), 0, 0).snapshot == OffsetAndEpoch(2, 2)

    def test_serves_records_to_other_replicas(self) -> None:
        assert self.fetched(leader_with_snapshot(), 1, 1).snapshot is None

    def test_without_snapshot_replies_offset_out_of_range(self) -> None:
        bench = leader_with_snapshot()
        bench.log.latest_snapshot = None
        assert self.fetched(bench, 0, 0).read_start_offset == 0

    @pytest.mark.parametrize(("start", "error"), [(0, ErrorCode.NONE), (2, ErrorCode.OFFSET_OUT_OF_RANGE)])
    def test_consumers_read_records_or_none(self, start: int, error: ErrorCode) -> None:
        response = self.fetched(leader_with_snapshot(start), 0, 0, replica=ReplicaKey(NO_NODE))
        assert (response.error, response.snapshot) == (error, None)

    @pytest.mark.parametrize("is_directed", [True, False])
    def test_fetched_snapshot_does_not_mean_caught_up(self, is_directed: bool) -> None:
        """A replica that counts as caught up may be added as a voter."""
        bench = leader_with_snapshot(start=2)
        end, epoch, caught_up = bench.log.end_offset, bench.engine.epoch, bench.now
        bench.deliver(bench.fetch_of(9, end, wait=0, last_epoch=epoch))
        for _ in range(3):
            bench.now += 100
            bench.propose()
            if is_directed:
                self.fetched(bench, 1, 1, replica=key(9))
            else:
                requested(bench, replica=key(9))
        bench.propose()
        bench.deliver(bench.fetch_of(9, end + 1, wait=0, last_epoch=epoch))
        (described,) = bench.engine.describe(bench.now).observers
        assert described.last_caught_up_ms_ago == bench.now - caught_up

    def test_log_end_of_a_directed_replica_is_unknown(self) -> None:
        bench = leader_with_snapshot(start=2)
        before = bench.engine.high_watermark
        bench.propose()
        bench.flush()
        self.fetched(bench, 1, 1)
        assert bench.engine.high_watermark == before


def requested(bench: EngineHarness, **fields: Any) -> SnapshotResponse:
    values: dict[str, Any] = {
        "replica": key(2),
        "epoch": bench.engine.epoch,
        "snapshot": OffsetAndEpoch(2, 2),
        "position": 5,
        "max_bytes": 10**9,
        "token": bench.token,
    }
    response = bench.deliver(SnapshotRequest(**values | fields))
    assert isinstance(response, SnapshotResponse)
    return response


class TestServing:
    def test_returns_a_bounded_chunk(self) -> None:
        bench = leader_with_snapshot()
        response = requested(bench)
        assert response.error is ErrorCode.NONE
        assert (response.snapshot, response.position) == (OffsetAndEpoch(2, 2), 5)
        assert response.read_limit == bench.settings.snapshot_max_bytes
        assert requested(bench, max_bytes=7).read_limit == 7

    def test_chunk_is_never_empty(self) -> None:
        assert requested(leader_with_snapshot(), max_bytes=0).read_limit == 1

    @pytest.mark.parametrize(
        ("difference", "error"), [(-1, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)]
    )
    def test_requires_the_current_epoch(self, difference: int, error: ErrorCode) -> None:
        bench = leader_with_snapshot()
        assert requested(bench, epoch=bench.engine.epoch + difference).error is error

    def test_non_leader_names_the_leader_to_snapshot_fetch(self) -> None:
        bench = EngineHarness(voters=voter_set(1, 2, 3)).to_follower(3)
        response = requested(bench)
        assert (response.error, response.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 3)

    def test_rejects_negative_position_without_stopping_a_stock_peer(self) -> None:
        assert requested(leader_with_snapshot(), position=-1).error is ErrorCode.POSITION_OUT_OF_RANGE

    def test_never_returns_error_fatal_to_stock_peer(self) -> None:
        bench = leader_with_snapshot()
        for fields in ({"replica": ME}, {"position": -1}, {"max_bytes": -1}, {"epoch": -1}):
            assert requested(bench, **fields).error is not ErrorCode.INVALID_REQUEST
        assert not bench.engine.describe(bench.now).observers

    def test_snapshot_fetch_counts_as_contact(self) -> None:
        bench = leader_with_snapshot()
        for _ in range(20):
            bench.wait(bench.settings.fetch_timeout_ms / 2)
            requested(bench)
        assert bench.engine.is_leader

    def test_snapshot_fetch_of_an_observer_is_not_voter_contact(self) -> None:
        bench = leader_with_snapshot()
        for _ in range(20):
            bench.wait(bench.settings.fetch_timeout_ms / 2)
            requested(bench, replica=key(9))
        assert not bench.engine.is_leader


def reported(bench: EngineHarness, snapshot: OffsetAndEpoch = SNAPSHOT) -> FetchResponse:
    return FetchResponse(ErrorCode.NONE, 2, bench.engine.epoch, 100, 100, snapshot=snapshot)


def piece(
    bench: EngineHarness, data: bytes, position: int = 0, size: int = 10, **fields: Any
) -> SnapshotResponse:
    values: dict[str, Any] = {"error": ErrorCode.NONE, "snapshot": SNAPSHOT} | fields
    return SnapshotResponse(
        leader_id=2, epoch=bench.engine.epoch, position=position, size=size, data=data, **values
    )


def follower(epochs: tuple[int, ...] = (1, 1), state: QuorumState | None = None) -> EngineHarness:
    """A follower that was directed to SNAPSHOT and has requested its first chunk."""
    bench = EngineHarness(epochs, state or QuorumState(5), voters=voter_set(1, 2, 3)).to_follower(2)
    bench.respond(2, reported(bench))
    return bench


def request_of(bench: EngineHarness) -> SnapshotRequest:
    (request,) = bench.requests(SnapshotRequest).values()
    assert isinstance(request, SnapshotRequest)
    return request


class TestFetching:
    def test_requests_the_first_chunk(self) -> None:
        bench = follower()
        request = request_of(bench)
        assert (request.replica, request.epoch, request.snapshot, request.position) == (ME, 5, SNAPSHOT, 0)

    def test_continues_at_its_local_bytes(self) -> None:
        bench = EngineHarness((1, 1), QuorumState(5), voters=voter_set(1, 2, 3)).to_follower(2)
        bench.log.part = SNAPSHOT, b"1234"
        bench.respond(2, reported(bench))
        assert request_of(bench).position == 4

    def test_appends_a_chunk_and_requests_the_next(self) -> None:
        bench = follower()
        effects = bench.respond(2, piece(bench, b"1234"))
        assert effects.snapshot_chunk == SnapshotChunk(SNAPSHOT, 0, b"1234", 10)
        assert request_of(bench).position == 4

    def test_fetches_continue_while_the_snapshot_is_checked(self) -> None:
        """A check takes seconds if the snapshot is large: neither this replica nor its leader may time out."""
        bench = follower()
        effects = bench.respond(2, piece(bench, b"0123456789"))
        assert effects.snapshot_chunk == SnapshotChunk(SNAPSHOT, 0, b"0123456789", 10)
        for _ in range(20):
            assert bench.requests(FetchRequest) == bench.requests(SnapshotRequest) == {}
            before = bench.now
            bench.fire_timer()
            assert bench.now - before <= bench.settings.fetch_timeout_ms / 2
            assert list(bench.requests(FetchRequest)) == [2]
            bench.respond(2, reported(bench))
        assert bench.engine.role is Role.FOLLOWER

    def test_new_leader_does_not_restart_a_fetch_during_the_check(self) -> None:
        bench = follower()
        bench.respond(2, piece(bench, b"0123456789"))
        bench.to_follower(3, 6)
        for snapshot in (SNAPSHOT, OffsetAndEpoch(200, 4)):
            bench.respond(3, FetchResponse(ErrorCode.NONE, 3, 6, 100, 100, snapshot=snapshot))
            assert not bench.requests(SnapshotRequest)
            bench.fire_timer()

    def test_every_chunk_keeps_the_leader_alive(self) -> None:
        bench = follower()
        for position in range(30):
            bench.now += bench.settings.fetch_timeout_ms * 0.9
            bench.respond(2, piece(bench, b"x", position, size=1000))
        assert bench.engine.leader_id == 2
        assert bench.engine.deadline > bench.now + bench.settings.fetch_timeout_ms * 0.9

    def test_chunk_proves_contact_when_it_was_requested(self) -> None:
        bench = follower()
        bench.now += 10
        bench.respond(2, piece(bench, b"1234"))
        bench.now += 20
        bench.respond(2, piece(bench, b"5678", 4))
        bench.now += 5
        assert bench.engine.contact_ms(bench.now) == 25

    def test_chunk_renews_the_grace_after_a_stall(self) -> None:
        bench = follower()
        timeout = bench.settings.fetch_timeout_ms
        for position in range(2):
            bench.step(StallDetected(2.0 * timeout))
            bench.wait(2 * timeout - 1)
            assert bench.engine.role is Role.FOLLOWER
            bench.respond(2, piece(bench, b"x", position))

    @pytest.mark.parametrize(
        "wrong",
        [
            {"snapshot": OffsetAndEpoch(101, 3)},
            {"position": 3},
            {"data": b""},
            {"data": b"01234567890"},
            {"error": ErrorCode.SNAPSHOT_NOT_FOUND},
            {"error": ErrorCode.POSITION_OUT_OF_RANGE},
            {"error": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        ],
        ids=str,
    )
    def test_misplaced_chunk_is_dropped_and_records_are_fetched(self, wrong: dict[str, Any]) -> None:
        bench = follower()
        values: dict[str, Any] = {"data": b"1234", "position": 0} | wrong
        effects = bench.respond(2, piece(bench, **values))
        assert effects.snapshot_chunk is None
        bench.fire_timer()
        assert list(bench.requests(FetchRequest)) == [2]

    def test_restarts_when_local_bytes_reach_snapshot_size(self) -> None:
        """The node stopped between the last chunk and the check, or the new leader has another file."""
        bench = EngineHarness((1, 1), QuorumState(5), voters=voter_set(1, 2, 3)).to_follower(2)
        bench.log.part = SNAPSHOT, b"0123456789"
        bench.respond(2, reported(bench))
        assert request_of(bench).position == 10
        bench.respond(2, piece(bench, b"", 10, error=ErrorCode.POSITION_OUT_OF_RANGE))
        assert request_of(bench).position == 0
        effects = bench.respond(2, piece(bench, b"0123456789"))
        assert effects.snapshot_chunk == SnapshotChunk(SNAPSHOT, 0, b"0123456789", 10)

    def test_snapshot_within_the_local_log_is_not_fetched(self) -> None:
        bench = EngineHarness((1, 1), QuorumState(5), voters=voter_set(1, 2, 3)).to_follower(2)
        bench.respond(2, bench.records(Batch(2, 200, 4, b"x"), high_watermark=2))
        bench.respond(2, reported(bench))
        assert not bench.requests(SnapshotRequest)
        bench.fire_timer()
        assert list(bench.requests(FetchRequest)) == [2]

    def test_snapshot_below_high_watermark_is_refused(self) -> None:
        """Otherwise the snapshot would be on disk, and a restart would install it."""
        bench = EngineHarness((1, 1), QuorumState(5), voters=voter_set(1, 2, 3)).to_follower(2)
        bench.respond(2, bench.records(Batch(2, 200, 2, b"x"), high_watermark=150))
        effects = bench.respond(2, reported(bench))
        assert effects.fatal is None
        assert effects.reset_to_snapshot is None
        assert effects.refused is not None
        assert "below the high watermark 150" in effects.refused.reason

    def test_installed_snapshot_is_committed_after_a_restart(self) -> None:
        bench = EngineHarness((), QuorumState(5), voters=voter_set(1, 2, 3))
        bench.log.reset_to_snapshot(OffsetAndEpoch(150, 2))
        bench = EngineHarness.restarted(bench).to_follower(2)
        effects = bench.respond(2, reported(bench))
        assert effects.fatal is None
        assert effects.reset_to_snapshot is None
        assert effects.refused is not None
        assert "below the high watermark 150" in effects.refused.reason

    def test_continues_the_same_snapshot_at_a_new_leader(self) -> None:
        bench = follower()
        bench.respond(2, piece(bench, b"1234"))
        bench.to_follower(3, 6)
        bench.respond(3, FetchResponse(ErrorCode.NONE, 3, 6, 100, 100, snapshot=SNAPSHOT))
        assert list(bench.requests(SnapshotRequest)) == [3]
        assert (request_of(bench).epoch, request_of(bench).position) == (6, 4)

    def test_starts_another_snapshot_of_the_new_leader(self) -> None:
        bench = follower()
        bench.respond(2, piece(bench, b"1234"))
        bench.to_follower(3, 6)
        other = OffsetAndEpoch(120, 5)
        bench.respond(3, FetchResponse(ErrorCode.NONE, 3, 6, 120, 120, snapshot=other))
        assert (request_of(bench).snapshot, request_of(bench).position) == (other, 0)

    def test_full_disk_restarts_fetch_later(self) -> None:
        bench = follower()
        bench.respond(2, piece(bench, b"1234"))
        bench.log.part = None
        bench.step(SnapshotChecked(SNAPSHOT, None))
        assert bench.respond(2, piece(bench, b"56", 4)).snapshot_chunk is None
        before = bench.now
        bench.fire_timer()
        assert bench.now - before == bench.settings.retry_backoff_max_ms
        bench.respond(2, reported(bench))
        assert request_of(bench).position == 0

    def test_failed_request_is_retried(self) -> None:
        bench = follower()
        bench.fail(2)
        bench.fire_timer()
        assert request_of(bench).position == 0

    @pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE])
    def test_resigned_leader_is_abandoned(self, error: ErrorCode) -> None:
        bench = follower()
        bench.respond(2, piece(bench, b"", error=error))
        assert bench.deliver(vote(5, (999, 5), candidate=3, pre=True)).granted
        assert bench.engine.deadline < bench.now + bench.settings.fetch_timeout_ms

    def test_refused_connection_is_that_of_a_lost_leader(self) -> None:
        bench = follower()
        bench.fail(2, refused=True)
        assert bench.deliver(vote(5, (999, 5), candidate=3, pre=True)).granted

    def test_new_leader_gets_a_fetch_first(self) -> None:
        bench = follower()
        bench.to_follower(3, 6)
        assert list(bench.requests(FetchRequest)) == [3]

    def test_chunk_of_the_previous_leader_is_dropped(self) -> None:
        bench = follower()
        old = bench.open[2]
        bench.to_follower(3, 6)
        bench.open[2] = old
        assert bench.respond(2, piece(bench, b"1234")).snapshot_chunk is None


class TestInstallation:
    def checked(self, bench: EngineHarness, voters: VoterAssignment | None = VOTERS) -> Effects:
        bench.respond(2, piece(bench, b"0123456789"))
        return bench.step(SnapshotChecked(SNAPSHOT, voters))

    def test_log_is_reset_and_fully_committed(self) -> None:
        bench = follower()
        effects = self.checked(bench)
        assert effects.reset_to_snapshot == SNAPSHOT
        assert effects.new_high_watermark == 100
        (fetch,) = bench.requests(FetchRequest).values()
        assert (fetch.offset, fetch.last_epoch) == (100, 3)

    def test_voters_are_those_of_the_snapshot(self) -> None:
        bench = follower()
        self.checked(bench, VoterAssignment(voter_set(2, 3, 4), (4,)))
        assert bench.engine.voters == VoterAssignment(voter_set(2, 3, 4), (4,))
        assert not bench.engine.is_voter

    def test_corrupt_snapshot_changes_nothing(self) -> None:
        bench = follower()
        effects = self.checked(bench, None)
        assert (effects.reset_to_snapshot, effects.new_high_watermark) == (None, None)
        assert bench.engine.voters.current == voter_set(1, 2, 3)
        bench.fire_timer()
        assert list(bench.requests(FetchRequest)) == [2]

    def records_of_a_new_leader(self, bench: EngineHarness, high_watermark: int, epoch: int) -> None:
        """While the snapshot is checked, records arrive up to offset 200."""
        bench.respond(2, piece(bench, b"0123456789"))
        bench.to_follower(3, 6)
        came = bench.records(Batch(2, 200, epoch, b"x"), high_watermark=high_watermark, leader=3)
        bench.respond(3, came)

    def test_committed_records_are_never_truncated(self) -> None:
        bench = follower()
        self.records_of_a_new_leader(bench, 150, epoch=2)
        effects = bench.step(SnapshotChecked(SNAPSHOT, VOTERS))
        assert effects.fatal is None
        assert effects.reset_to_snapshot is None
        assert effects.refused is not None
        assert "below the high watermark 150" in effects.refused.reason

    def test_snapshot_behind_the_log_is_discarded(self) -> None:
        bench = follower()
        self.records_of_a_new_leader(bench, 2, epoch=4)
        assert bench.step(SnapshotChecked(SNAPSHOT, VOTERS)).reset_to_snapshot is None
        assert bench.engine.leader_id == 3

    def test_corrupt_snapshot_is_fetched_again_after_backoff(self) -> None:
        bench = follower()
        before = bench.now
        self.checked(bench, None)
        bench.fire_timer()
        assert bench.now - before == bench.settings.retry_backoff_max_ms
        bench.log.part = None
        bench.respond(2, reported(bench))
        assert request_of(bench).position == 0

    def test_snapshot_is_installed_under_a_new_leader(self) -> None:
        bench = follower()
        bench.respond(2, piece(bench, b"0123456789"))
        bench.to_follower(3, 6)
        stale = bench.open[3]
        assert bench.step(SnapshotChecked(SNAPSHOT, VOTERS)).reset_to_snapshot == SNAPSHOT
        assert bench.requests(FetchRequest)[3].offset == 100
        # Earlier requests were about the log that is gone.
        bench.open[3] = stale
        effects = bench.respond(3, FetchResponse(ErrorCode.NONE, 3, 6, 1, 0, OffsetAndEpoch(1, 1)))
        assert (effects.truncate_to, effects.fatal) == (None, None)

    @pytest.mark.parametrize("role", [Role.PROSPECTIVE, Role.CANDIDATE])
    def test_campaigning_replica_installs_no_snapshot(self, role: Role) -> None:
        bench = EngineHarness(voters=voter_set(1, 2, 3))
        bench = bench.to_prospective() if role is Role.PROSPECTIVE else bench.to_candidate()
        assert bench.step(SnapshotChecked(SNAPSHOT, VOTERS)).reset_to_snapshot is None
        assert bench.engine.role is role

    def test_snapshot_is_installed_after_the_leader_is_lost(self) -> None:
        bench = follower()
        bench.respond(2, piece(bench, b"0123456789"))
        bench.engine._replica.storage_full = True  # it may not campaign, so it becomes unattached
        while bench.engine.role is Role.FOLLOWER:
            bench.fire_timer()
        assert bench.engine.role is Role.UNATTACHED
        assert bench.step(SnapshotChecked(SNAPSHOT, VOTERS)).reset_to_snapshot == SNAPSHOT

    def test_leader_installs_no_snapshot(self) -> None:
        bench = EngineHarness(voters=voter_set(1, 2, 3)).to_leader()
        assert bench.step(SnapshotChecked(SNAPSHOT, VOTERS)).reset_to_snapshot is None

    def test_installed_log_is_flushed_to_its_end_and_no_further(self) -> None:
        """Else a later leader would count its own records as flushed as far as the replaced log was."""
        bench = EngineHarness((1, 1, 1, 1, 1), QuorumState(5), voters=voter_set(1, 2, 3)).to_follower(2)
        bench.flush()
        bench.respond(2, reported(bench, OffsetAndEpoch(2, 3)))
        bench.respond(2, piece(bench, b"0123456789", snapshot=OffsetAndEpoch(2, 3)))
        bench.step(SnapshotChecked(OffsetAndEpoch(2, 3), VOTERS))
        bench.to_leader(committed=False)
        bench.deliver(bench.fetch_of(2, last_epoch=bench.engine.epoch))
        assert bench.engine.high_watermark <= 2
        bench.flush()
        assert bench.engine.high_watermark == bench.log.end_offset == 3

    def test_replaced_disk_votes_again_once_it_is_recorded(self) -> None:
        bench = follower(epochs=(), state=QuorumState(0))
        assert bench.engine._replica.catching_up
        self.checked(bench)
        assert not bench.engine._replica.catching_up
