from __future__ import annotations

from collections.abc import Callable

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch
from quorumd.raft.effects import ControlBatch, Effects, Send
from quorumd.raft.events import RequestReceived, ResponseReceived, StorageAvailable, StorageFull
from quorumd.raft.follower import continuation
from quorumd.raft.messages import FetchedBatch, FetchRequest, LeaderResponse, VoteRequest
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from quorumd.raft.voters import VoterAssignment
from tests.support.raft.quorum import Batch, key, voter_set
from tests.support.raft.single_engine import EngineHarness, begin, end, fetch_error, vote
from tests.support.text import shows


def follower(*epochs: int, epoch: int = 5) -> EngineHarness:
    """A follower of node 2 in `epoch`, with its first fetch in flight."""
    return EngineHarness(epochs or (1, 1, 3), QuorumState(epoch)).to_follower(2)


def test_first_fetch_waits_for_the_flush() -> None:
    bench = follower()
    assert bench.effects.save == QuorumState(5, 2)
    fetch = bench.requests(FetchRequest)[2]
    assert fetch == FetchRequest(key(1), 5, 3, 3, 500, bench.settings.fetch_max_bytes, True, -1, 0)
    assert any(isinstance(m, Send) for m in bench.effects.send_after_flush)


class TestAppending:
    def test_appends_commits_and_acknowledges_after_the_flush(self) -> None:
        bench = follower()
        first, second = Batch(3, 5, 5, b"a"), Batch(5, 6, 5, b"b")
        effects = bench.respond(2, bench.records(first, second, high_watermark=5, read_round=7))
        assert (effects.append_end_offset, effects.new_high_watermark) == (6, 5)
        assert bench.log.batches[-2:] == [first, second]
        fetch = bench.requests(FetchRequest)[2]
        assert (fetch.offset, fetch.last_epoch, fetch.known_high_watermark, fetch.read_round) == (6, 5, 5, 7)
        assert effects.send == []

    def test_high_watermark_is_bounded_by_the_local_log(self) -> None:
        bench = follower()
        bench.respond(2, bench.records(Batch(3, 4, 5, b"a"), high_watermark=99))
        assert bench.engine.high_watermark == 4

    def test_unknown_or_lower_watermark_changes_nothing(self) -> None:
        bench = follower()
        bench.respond(2, bench.records(high_watermark=3))
        for lower in (-1, 2):
            assert bench.respond(2, bench.records(high_watermark=lower)).new_high_watermark is None
        assert bench.engine.high_watermark == 3

    def test_duplicate_batches_are_not_appended(self) -> None:
        bench = follower()
        effects = bench.respond(
            2, bench.records(Batch(1, 2, 1, b"old"), Batch(2, 3, 3, b"old"), Batch(3, 4, 5, b"new"))
        )
        assert effects.append_end_offset == 4
        assert bench.log.batches[-1].body == b"new"
        assert len(bench.log.batches) == 4

    def test_batch_of_a_later_epoch_than_the_leaders_is_not_appended(self) -> None:
        bench = follower()
        effects = bench.respond(2, bench.records(Batch(3, 4, 5, b"a"), Batch(4, 5, 6, b"later")))
        assert effects.append_end_offset == 4
        assert [batch.body for batch in bench.log.batches[3:]] == [b"a"]

    def test_unusable_records_are_fetched_again_after_backoff(self) -> None:
        bench = follower()
        effects = bench.respond(2, bench.records(Batch(7, 8, 5, b"gap")))
        assert effects.append is None
        assert bench.requests(FetchRequest) == {}
        assert bench.engine.deadline > bench.now

    def test_voter_record_takes_effect_on_append_and_is_truncated_with_its_batch(self) -> None:
        bench = follower()
        change = VoterAssignment(voter_set(2, 3))
        bench.respond(2, bench.records(Batch(3, 4, 5, b"a"), Batch(4, 5, 5, ControlBatch((change,)))))
        assert bench.engine.voters == change
        assert not bench.engine.is_voter
        assert bench.engine.role_name == "observer"
        bench.respond(2, bench.records(diverging=OffsetAndEpoch(4, 5)))
        assert bench.engine.is_voter
        assert len(bench.history) == 1


BATCHES = (
    FetchedBatch(3, 5, 4, 0),
    FetchedBatch(5, 6, 5, 10),
    FetchedBatch(6, 8, 5, 20),
)


@pytest.mark.parametrize(
    ("log_end", "epoch", "taken"),
    [
        ((3, 3), 5, 3),
        ((5, 4), 5, 2),
        ((8, 5), 5, 0),
        ((3, 3), 4, 1),
        ((3, 5), 5, 0),
        ((4, 4), 5, 0),
        ((2, 2), 5, 0),
    ],
)
def test_continuation(log_end: tuple[int, int], epoch: int, taken: int) -> None:
    assert len(continuation(OffsetAndEpoch(*log_end), epoch, BATCHES)) == taken


class TestDivergence:
    """The local log is [1, 1, 3, 3, 5] unless a test passes another."""

    @pytest.mark.parametrize(
        ("diverging", "left"),
        [
            (OffsetAndEpoch(3, 3), [1, 1, 3]),
            (OffsetAndEpoch(9, 3), [1, 1, 3, 3]),
            (OffsetAndEpoch(4, 2), [1, 1]),
            (OffsetAndEpoch(6, 4), [1, 1, 3, 3]),
            (OffsetAndEpoch(3, 4), [1, 1, 3, 3]),
            (OffsetAndEpoch(0, 0), []),
        ],
    )
    def test_truncates_by_epoch(self, diverging: OffsetAndEpoch, left: list[int]) -> None:
        bench = follower(1, 1, 3, 3, 5)
        bench.respond(2, bench.records(diverging=diverging))
        assert bench.log.epochs == left
        assert bench.engine.deadline <= bench.now
        bench.fire_timer()
        fetch = bench.requests(FetchRequest)[2]
        assert (fetch.offset, fetch.last_epoch) == (len(left), left[-1] if left else 0)

    def test_never_below_the_high_watermark(self) -> None:
        bench = follower(1, 1, 3, 3, 5)
        bench.respond(2, bench.records(high_watermark=4))
        effects = bench.respond(2, bench.records(diverging=OffsetAndEpoch(3, 3)))
        refused = effects.refused
        assert refused is not None
        assert (refused.sender, refused.epoch) == (2, 5)
        assert shows(refused.reason, "offset 3", "high watermark 4")
        assert effects.truncate_to is None
        assert effects.fatal is None
        assert bench.engine.leader_id == NO_NODE, "it stops following such a leader"
        assert bench.log.epochs == [1, 1, 3, 3, 5]

    def test_divergence_without_truncation_fetches_again_after_backoff(self) -> None:
        bench = follower(1, 1, 3, 3, 5)
        assert bench.respond(2, bench.records(diverging=OffsetAndEpoch(9, 5))).truncate_to is None
        assert bench.engine.deadline > bench.now


class TestLosingTheLeader:
    def test_fetch_timeout_leads_to_a_pre_vote(self) -> None:
        bench = follower()
        bench.now += bench.settings.fetch_timeout_ms - 1
        bench.respond(2, bench.records())
        bench.wait(bench.settings.fetch_timeout_ms - 1)
        assert bench.engine.role is Role.FOLLOWER
        bench.wait(1)
        assert bench.engine.role is Role.PROSPECTIVE

    def test_errors_do_not_keep_the_leader_alive(self) -> None:
        bench = follower()
        bench.now += bench.settings.fetch_timeout_ms - 1
        bench.respond(2, fetch_error(ErrorCode.OFFSET_OUT_OF_RANGE, 2, 5))
        bench.wait(1)
        assert bench.engine.role is Role.PROSPECTIVE

    def test_refused_connection_shortens_the_wait(self) -> None:
        bench = EngineHarness((1,), QuorumState(5), randrange=lambda bound: bound - 1).to_follower(2)
        bench.fail(2, refused=True)
        since = bench.now
        while bench.engine.role is Role.FOLLOWER:
            bench.fire_timer()
            if 2 in bench.requests(FetchRequest):
                bench.fail(2, refused=True)
        assert bench.engine.role is Role.PROSPECTIVE
        assert bench.now - since < bench.settings.election_timeout_ms // 4

    @pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE])
    def test_resigning_leader_also_shortens_the_wait(self, error: ErrorCode) -> None:
        bench = follower()
        bench.respond(2, fetch_error(error, NO_NODE, 5))
        assert bench.deliver(vote(5, (9, 5), candidate=3, pre=True)).granted
        bench.fire_timer()
        assert bench.engine.role is Role.PROSPECTIVE

    @pytest.mark.parametrize(
        "fail",
        [
            lambda bench: bench.fail(2),
            lambda bench: bench.respond(2, fetch_error(ErrorCode.OFFSET_OUT_OF_RANGE, 2, 5)),
            lambda bench: bench.respond(2, fetch_error(ErrorCode.UNKNOWN_LEADER_EPOCH, 2, 4)),
        ],
        ids=["connection", "error", "lower epoch"],
    )
    def test_failed_fetch_is_repeated_with_backoff(self, fail: Callable[[EngineHarness], Effects]) -> None:
        bench = follower()
        pauses = []
        for _ in range(3):
            fail(bench)
            pauses.append(bench.engine.deadline - bench.now)
            bench.fire_timer()
        assert pauses == [16, 32, 64]

    def test_observer_fetches_from_another_peer(self) -> None:
        bench = EngineHarness((1,), QuorumState(5), me=key(9)).to_follower(2)
        bench.now += bench.settings.fetch_timeout_ms
        bench.fire_timer()
        assert bench.engine.role is Role.UNATTACHED
        assert bench.state == QuorumState(5, 2)
        bench.fire_timer()
        (peer,) = bench.requests(FetchRequest)
        bench.respond(peer, fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 5))
        assert (bench.engine.role, bench.engine.leader_id) == (Role.FOLLOWER, 2)

    def test_newer_leader_in_an_error_is_followed(self) -> None:
        bench = follower()
        bench.respond(2, fetch_error(ErrorCode.FENCED_LEADER_EPOCH, 3, 8))
        assert (bench.engine.leader_id, bench.engine.epoch) == (3, 8)
        assert bench.requests(FetchRequest)[3].epoch == 8

    def test_newer_epoch_without_leader_is_entered(self) -> None:
        bench = follower()
        bench.respond(2, fetch_error(ErrorCode.FENCED_LEADER_EPOCH, NO_NODE, 8))
        assert (bench.engine.role, bench.engine.epoch) == (Role.UNATTACHED, 8)

    def test_response_of_an_earlier_leader_is_ignored(self) -> None:
        bench = follower()
        stale, reply = bench.open[2], bench.records(Batch(3, 4, 5, b"late"))
        bench.deliver(begin(3, 6))
        effects = bench.step(ResponseReceived(2, stale, reply))
        assert effects.append is None

    def test_response_of_a_lower_epoch_is_ignored(self) -> None:
        bench = follower()
        bench.respond(2, fetch_error(ErrorCode.UNKNOWN_LEADER_EPOCH, 2, 4))
        assert (bench.engine.role, bench.engine.epoch) == (Role.FOLLOWER, 5)

    def test_two_leaders_in_an_epoch_are_fatal(self) -> None:
        bench = follower()
        reply = fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, 3, 5)
        assert shows(bench.respond(2, reply).fatal or "", "two leaders", "epoch 5", "2 and 3")


class TestNotFollower:
    def test_records_are_appended_and_the_replica_is_not_a_voter(self) -> None:
        bench = follower()
        response = bench.records(Batch(3, 4, 5, b"a"))
        response.error = ErrorCode.NOT_FOLLOWER
        assert bench.respond(2, response).append_end_offset == 4
        assert not bench.engine.is_voter
        assert bench.requests(FetchRequest)[2].is_follower is False
        bench.respond(2, bench.records())
        assert not bench.engine.is_voter

    def test_lasts_until_the_log_has_the_voter(self) -> None:
        bench = follower()
        response = bench.records()
        response.error = ErrorCode.NOT_FOLLOWER
        bench.respond(2, response)
        bench.respond(2, bench.records(Batch(3, 4, 5, ControlBatch((VoterAssignment(voter_set(1, 2)),)))))
        assert bench.engine.is_voter


class TestBeginQuorumEpoch:
    @pytest.mark.parametrize(
        ("leader", "epoch", "error", "follows"),
        [
            (3, 6, ErrorCode.NONE, 3),
            (2, 5, ErrorCode.NONE, 2),
            (3, 5, ErrorCode.INVALID_REQUEST, 2),
            (3, 4, ErrorCode.FENCED_LEADER_EPOCH, 2),
            (1, 6, ErrorCode.INVALID_REQUEST, 2),
            (-1, 6, ErrorCode.INVALID_REQUEST, 2),
        ],
    )
    def test_only_the_known_or_a_newer_leader_is_accepted(
        self, leader: int, epoch: int, error: ErrorCode, follows: int
    ) -> None:
        bench = follower()
        assert bench.engine.accepts_leader(RequestReceived("", begin(leader, epoch)), bench.now) == (
            error is ErrorCode.NONE
        )
        reply = bench.deliver(begin(leader, epoch))
        assert reply == LeaderResponse(error, follows, 6 if follows == 3 else 5)

    def test_acceptance_depends_on_the_present_time(self) -> None:
        """The leader may have been lost since the last event."""
        bench = follower()
        bench.respond(2, bench.records())
        event = RequestReceived("", begin(3, 6), names_cluster=False)
        assert not bench.engine.accepts_leader(event, bench.now)
        assert bench.engine.accepts_leader(event, bench.now + bench.settings.fetch_timeout_ms)

    def test_repetition_does_not_keep_the_leader_alive(self) -> None:
        bench = follower()
        for _ in range(10):
            bench.now += bench.settings.fetch_timeout_ms / 5
            bench.deliver(begin(2, 5))
        bench.wait(0)
        assert bench.engine.role is Role.PROSPECTIVE

    def test_waiting_follower_fetches_immediately(self) -> None:
        bench = follower()
        bench.fail(2, refused=True)
        bench.deliver(begin(2, 5))
        assert 2 in bench.requests(FetchRequest)

    def test_keeps_the_vote_of_the_epoch(self) -> None:
        bench = EngineHarness((1, 1, 3), QuorumState(5))
        bench.deliver(vote(5, (9, 3)))
        bench.deliver(begin(2, 5))
        assert bench.state == QuorumState(5, 2, key(2))

    def test_leader_rejects_a_second_leader_of_its_epoch(self) -> None:
        bench = EngineHarness().to_leader()
        assert bench.deliver(begin(2, bench.engine.epoch)).error is ErrorCode.INVALID_REQUEST
        assert bench.engine.is_leader


class TestEndQuorumEpoch:
    def test_first_successor_campaigns_immediately(self) -> None:
        bench = follower()
        assert bench.deliver(end(2, 5, 1, 3)).error is ErrorCode.NONE
        assert bench.engine.role is Role.PROSPECTIVE
        assert sorted(bench.requests(VoteRequest)) == [2, 3]

    @pytest.mark.parametrize(
        ("successors", "delay"),
        [((3, 1), 500), ((3, 4, 1), 500), ((3, 1, 4), 250), ((3, 4), 1000), ((), 1000)],
    )
    def test_other_successors_wait_in_order(self, successors: tuple[int, ...], delay: int) -> None:
        bench = follower()
        bench.respond(2, bench.records())
        bench.deliver(end(2, 5, *successors))
        assert bench.engine._replica.state.fetch_deadline == bench.now + delay
        assert bench.deliver(vote(5, (9, 5), candidate=3, pre=True)).granted

    def test_unattached_voter_adopts_leader_and_epoch(self) -> None:
        bench = EngineHarness((1, 1, 3), QuorumState(5))
        bench.deliver(end(2, 7, 3, 1))
        assert (bench.engine.role, bench.engine.leader_id, bench.engine.epoch) == (Role.FOLLOWER, 2, 7)

    def test_of_another_leader_is_rejected(self) -> None:
        assert follower().deliver(end(3, 5, 1)).error is ErrorCode.INVALID_REQUEST

    def test_of_an_old_epoch_is_rejected(self) -> None:
        assert follower().deliver(end(2, 4, 1)).error is ErrorCode.FENCED_LEADER_EPOCH

    def test_running_pre_vote_continues(self) -> None:
        bench = follower()
        bench.now += 5000
        bench.to_prospective()
        bench.deliver(end(2, 5, 3, 1))
        assert bench.engine.role is Role.PROSPECTIVE


class TestFullDisk:
    def test_keeps_fetching_and_retries(self) -> None:
        bench = follower()
        bench.history.append(3, VoterAssignment(voter_set(2, 3)))
        bench.step(StorageFull())
        assert len(bench.history) == 1
        assert bench.engine.deadline == bench.now + bench.settings.retry_backoff_max_ms
        bench.fire_timer()
        assert 2 in bench.requests(FetchRequest)

    def test_response_in_flight_is_ignored(self) -> None:
        bench = follower()
        bench.step(StorageFull())
        assert bench.respond(2, bench.records(Batch(3, 4, 5, b"late"))).append is None

    def test_does_not_campaign_and_votes(self) -> None:
        bench = follower()
        bench.step(StorageFull())
        bench.now += 5000
        bench.fire_timer()
        assert bench.engine.role is Role.UNATTACHED
        assert bench.deliver(vote(9, (9, 8))).granted
        bench.step(StorageAvailable())
        bench.to_prospective()
