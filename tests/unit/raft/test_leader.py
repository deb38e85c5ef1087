from __future__ import annotations

from math import inf

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, ReplicaKey
from quorumd.raft.effects import ControlBatch, KRaftVersion, LeaderChange, ReadReady
from quorumd.raft.events import (
    PeerRequestFailed,
    Propose,
    ReadRequested,
    RequestReceived,
    ResponseReceived,
    ShutdownRequested,
    StorageFull,
)
from quorumd.raft.messages import NO_READ_ROUND, BeginEpochRequest, EndEpochRequest, LeaderResponse
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from tests.support.raft.quorum import endpoint, key, voter_set
from tests.support.raft.single_engine import EngineHarness, accepted, granted, refused, vote
from tests.support.text import shows

UNPINNED = VoterSet(tuple(Voter(ReplicaKey(n), ()) for n in (1, 2, 3)))


def test_new_leader_appends_and_announces_itself() -> None:
    bench = EngineHarness(saved=QuorumState(4)).to_leader(committed=False)
    effects = bench.effects
    assert effects.append == ControlBatch((LeaderChange(1, (1, 2, 3), (1, 2)),))
    assert effects.append_end_offset == 2
    assert effects.save == QuorumState(5, 1, key(1))
    begins = bench.requests(BeginEpochRequest)
    assert begins == {n: BeginEpochRequest(1, 5, key(n), token=1) for n in (2, 3)}, (
        "the request has the endpoints of its sender"
    )
    assert effects.leadership_changed
    assert (bench.engine.leader_epoch_start, bench.engine.high_watermark) == (1, -1)


def test_first_leader_writes_the_voter_set_in_the_same_batch() -> None:
    bench = EngineHarness(())
    bench.discover(key(2), ReplicaKey(3))
    bench.to_leader(committed=False)
    key3 = Voter(ReplicaKey(3), (endpoint(3),))
    voters = VoterSet((Voter(key(1), ()), Voter(key(2), (endpoint(2),)), key3))
    change = LeaderChange(1, (1, 2, 3), (1, 2))
    assert bench.effects.append == ControlBatch((change, KRaftVersion(1), VoterAssignment(voters)))
    assert bench.effects.append_end_offset == 3
    assert bench.engine.voters == VoterAssignment(voters)


class TestHighWatermark:
    def test_needs_a_majority_of_flushed_logs(self) -> None:
        bench = EngineHarness().to_leader(committed=False)
        bench.deliver(bench.fetch_of(2))
        assert bench.engine.high_watermark == -1
        bench.flush()
        assert (bench.engine.high_watermark, bench.effects.new_high_watermark) == (2, 2)

    def test_two_followers_commit_without_the_leaders_own_flush(self) -> None:
        bench = EngineHarness().to_leader(committed=False)
        bench.deliver(bench.fetch_of(2))
        bench.deliver(bench.fetch_of(3))
        assert bench.engine.high_watermark == 2

    def test_never_decreases(self) -> None:
        bench = EngineHarness().to_leader()
        bench.propose()
        bench.propose()
        bench.flush()
        bench.deliver(bench.fetch_of(2))
        for peer in (2, 3):
            bench.deliver(bench.fetch_of(peer, offset=3))
            assert bench.effects.new_high_watermark is None
        assert bench.engine.high_watermark == 4

    def test_observers_do_not_count(self) -> None:
        bench = EngineHarness().to_leader(committed=False)
        bench.flush()
        bench.deliver(bench.fetch_of(2, replica=key(9)))
        bench.deliver(bench.fetch_of(2, replica=key(2, incarnation=2)))
        assert bench.engine.high_watermark == -1

    def test_leader_outside_the_voter_set_does_not_count_itself(self) -> None:
        bench = EngineHarness(voters=voter_set(1, 2, 3)).to_leader()
        replica = bench.engine._replica
        assert replica.state.role is Role.LEADER
        replica.state.in_voter_set = False  # it is Leader
        bench.propose()
        bench.flush()
        bench.deliver(bench.fetch_of(2))
        assert bench.engine.high_watermark == 2


class TestBeginQuorumEpoch:
    def test_begin_quorum_epoch_is_resent_to_silent_voters_only(self) -> None:
        bench = EngineHarness().to_leader()
        bench.respond(2, accepted(1, bench.engine.epoch))
        bench.respond(3, accepted(1, bench.engine.epoch))
        bench.now += bench.settings.fetch_timeout_ms / 2 - 10
        bench.deliver(bench.fetch_of(2))
        bench.wait(10)
        assert list(bench.requests(BeginEpochRequest)) == [3]

    def test_failed_begin_quorum_epoch_is_retried(self) -> None:
        bench = EngineHarness().to_leader()
        bench.fail(3)
        assert bench.engine.deadline == bench.now + 16
        bench.fire_timer()
        assert list(bench.requests(BeginEpochRequest)) == [3]

    def test_backoff_of_begin_quorum_epoch_starts_over_after_a_response(self) -> None:
        bench = EngineHarness().to_leader()
        bench.fail(3)
        bench.fire_timer()
        bench.respond(3, LeaderResponse(ErrorCode.NONE, 1, bench.engine.epoch))
        while not bench.requests(BeginEpochRequest):
            bench.fire_timer()
        bench.fail(3)
        assert bench.engine.deadline == bench.now + 16

    def test_late_response_does_not_end_the_request_in_flight(self) -> None:
        bench = EngineHarness().to_leader()
        late = bench.open[3]
        bench.fail(3)
        bench.fire_timer()
        bench.step(ResponseReceived(3, late, LeaderResponse(ErrorCode.NONE, 1, bench.engine.epoch)))
        bench.deliver(bench.fetch_of(2))
        bench.wait(bench.settings.fetch_timeout_ms / 2)
        assert 3 not in bench.requests(BeginEpochRequest)

    def test_one_request_in_flight_per_voter(self) -> None:
        bench = EngineHarness().to_leader()
        bench.wait(bench.settings.fetch_timeout_ms / 2)
        assert bench.requests(BeginEpochRequest) == {}

    def test_higher_epoch_in_the_response_ends_the_leadership(self) -> None:
        bench = EngineHarness().to_leader()
        bench.respond(3, LeaderResponse(ErrorCode.FENCED_LEADER_EPOCH, 3, 9))
        assert (bench.engine.role, bench.engine.leader_id, bench.engine.epoch) == (Role.FOLLOWER, 3, 9)


class TestDirectoryIds:
    def pinned(self, bench: EngineHarness) -> dict[int, ReplicaKey]:
        return {voter.key.id: voter.key for voter in bench.engine.voters.current.voters}

    def test_fetch_records_directory_id_of_voter(self) -> None:
        bench = EngineHarness(voters=UNPINNED).to_leader(committed=False)
        bench.flush()
        bench.deliver(bench.fetch_of(2))
        assert isinstance(bench.effects.append, ControlBatch)
        assert self.pinned(bench) == {1: key(1), 2: key(2), 3: ReplicaKey(3)}
        bench.deliver(bench.fetch_of(2, replica=key(2, incarnation=2)))
        assert bench.engine.describe(bench.now).observers[0].key == key(2, incarnation=2)

    def test_discovered_directory_id_is_recorded(self) -> None:
        bench = EngineHarness(voters=UNPINNED).to_leader()
        bench.flush()
        bench.deliver(bench.fetch_of(2))
        bench.discover(key(3))
        assert self.pinned(bench)[3] == key(3)
        assert bench.engine.voters.current.voters[2].endpoints == (endpoint(3),)

    def test_one_record_at_a_time(self) -> None:
        bench = EngineHarness(voters=UNPINNED).to_leader()
        end = bench.log.end_offset
        bench.discover(key(3))
        assert bench.log.end_offset == end
        bench.flush()
        bench.deliver(bench.fetch_of(2))
        assert self.pinned(bench)[3] == key(3)

    def test_requires_a_commit_of_this_epoch(self) -> None:
        bench = EngineHarness(voters=UNPINNED).to_leader(committed=False)
        bench.deliver(bench.fetch_of(2))
        bench.discover(key(3))
        assert bench.log.end_offset == 2

    def test_complete_voter_record_is_not_rewritten(self) -> None:
        bench = EngineHarness().to_leader()
        bench.discover(key(2), key(3, incarnation=2))
        assert bench.log.end_offset == 2


class TestResignation:
    def test_leader_without_a_majority_resigns(self) -> None:
        bench = EngineHarness().to_leader()
        took_office = bench.now
        while bench.engine.is_leader:
            bench.fire_timer()
        assert bench.now == took_office + 1.5 * bench.settings.fetch_timeout_ms
        assert bench.engine.role is Role.RESIGNED
        assert (bench.engine.leader_id, bench.engine.role_name) == (NO_NODE, "resigned")

    def test_fetching_majority_keeps_it_leader(self) -> None:
        bench = EngineHarness().to_leader()
        for _ in range(20):
            bench.wait(bench.settings.fetch_timeout_ms - 1)
            bench.deliver(bench.fetch_of(3))
        assert bench.engine.is_leader

    def test_sole_voter_stays_leader(self) -> None:
        bench = EngineHarness((), founders=(1,))
        for _ in range(50):
            bench.fire_timer()
        assert bench.engine.is_leader

    def test_successors_are_ordered_by_log_and_id(self) -> None:
        bench = EngineHarness(voters=voter_set(1, 2, 3, 4, 5)).to_candidate()
        for peer in (2, 3):
            bench.respond(peer, granted(bench.engine.epoch))
        bench.deliver(bench.fetch_of(5, offset=1))
        bench.deliver(bench.fetch_of(4))
        bench.step(ShutdownRequested())
        assert bench.engine.role is Role.RESIGNED
        ends = bench.requests(EndEpochRequest)
        assert sorted(ends) == [2, 3, 4, 5]
        assert [k.id for k in ends[2].successors] == [4, 5, 2, 3]

    def test_shutdown_ends_when_another_replica_leads(self) -> None:
        bench = EngineHarness().to_leader()
        bench.step(ShutdownRequested())
        assert not bench.engine.handover_complete
        assert bench.engine.deadline < inf
        bench.fire_timer()
        assert (bench.engine.role, bench.engine.deadline) == (Role.RESIGNED, inf)
        bench.to_follower(2, bench.engine.epoch + 1)
        assert bench.engine.handover_complete

    def test_shutdown_ends_when_every_successor_responded_or_failed(self) -> None:
        bench = EngineHarness().to_leader()
        bench.step(ShutdownRequested())
        ends = bench.requests(EndEpochRequest)
        epoch = bench.engine.epoch
        bench.step(ResponseReceived(2, ends[2], LeaderResponse(ErrorCode.NONE, NO_NODE, epoch)))
        assert not bench.engine.handover_complete
        bench.step(PeerRequestFailed(3, ends[3], refused=True))
        assert bench.engine.handover_complete

    def test_sole_voter_shuts_down_immediately(self) -> None:
        bench = EngineHarness((), founders=(1,))
        bench.fire_timer()
        bench.step(ShutdownRequested())
        assert bench.engine.handover_complete

    def test_leader_with_a_full_disk_resigns(self) -> None:
        bench = EngineHarness().to_leader()
        bench.step(StorageFull())
        assert bench.engine.role is Role.RESIGNED
        assert sorted(bench.requests(EndEpochRequest)) == [2, 3]
        bench.fire_timer()
        assert (bench.engine.role, bench.engine.epoch) == (Role.UNATTACHED, 3)

    def test_pending_requests_fail_on_a_newer_epoch(self) -> None:
        bench = EngineHarness().to_leader()
        bench.step(RequestReceived("parked", bench.fetch_of(2)))
        bench.step(RequestReceived("consumer", bench.fetch_of(2, replica=ReplicaKey(NO_NODE))))
        epoch = bench.engine.epoch
        effects = bench.step(RequestReceived("vote", vote(epoch + 3, (9, epoch + 2), candidate=3)))
        delayed = bench.response_to("parked", effects)
        assert (delayed.error, delayed.epoch, delayed.leader_id) == (
            ErrorCode.FENCED_LEADER_EPOCH,
            epoch + 3,
            NO_NODE,
        )
        assert bench.response_to("consumer", effects).error is ErrorCode.FENCED_LEADER_EPOCH

    def test_pending_reads_fail(self) -> None:
        bench = EngineHarness().to_leader()
        bench.step(ReadRequested("r"))
        assert bench.step(ShutdownRequested()).reads_failed == ["r"]
        assert bench.step(ReadRequested("s")).reads_failed == ["s"]

    def test_pending_requests_fail_on_resigning(self) -> None:
        bench = EngineHarness().to_leader()
        bench.step(RequestReceived("parked", bench.fetch_of(2)))
        assert (
            bench.response_to("parked", bench.step(StorageFull())).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        )


class TestReads:
    def test_ready_once_a_majority_fetched_after_the_response_that_followed_it(self) -> None:
        bench = EngineHarness().to_leader()
        assert bench.step(ReadRequested("r")).reads_ready == []
        response = bench.deliver(bench.fetch_of(2))
        assert response.read_round == 1
        bench.step(RequestReceived("x", bench.fetch_of(2, read_round=response.read_round)))
        assert bench.effects.reads_ready == [ReadReady("r", 2)]

    def test_fetch_sent_before_the_read_confirms_nothing(self) -> None:
        bench = EngineHarness().to_leader()
        bench.step(ReadRequested("r"))
        bench.step(RequestReceived("x", bench.fetch_of(2, read_round=0)))
        bench.step(RequestReceived("y", bench.fetch_of(3, read_round=0)))
        assert bench.effects.reads_ready == []

    def test_delayed_voter_fetches_complete_immediately(self) -> None:
        bench = EngineHarness().to_leader()
        bench.step(RequestReceived("p", bench.fetch_of(3)))
        effects = bench.step(ReadRequested("r"))
        assert bench.response_to("p", effects).read_round == 1

    def test_response_with_a_diverging_epoch_has_the_round(self) -> None:
        bench = EngineHarness().to_leader()
        bench.step(ReadRequested("r"))
        response = bench.deliver(bench.fetch_of(2, offset=9, last_epoch=1))
        assert (response.diverging is not None, response.read_round) == (True, 1)

    def test_stock_voter_confirms_with_a_record_appended_after_the_read(self) -> None:
        """The fetches of a stock voter have no read round."""
        bench = EngineHarness().to_leader()
        bench.deliver(bench.fetch_of(2, read_round=NO_READ_ROUND))
        assert bench.step(ReadRequested("r")).record_needed
        for _ in range(2):
            bench.deliver(bench.fetch_of(2, read_round=NO_READ_ROUND))
            assert bench.effects.reads_ready == []
            assert bench.effects.record_needed, "nothing was appended yet"
        bench.propose()
        bench.deliver(bench.fetch_of(2, offset=2, last_epoch=1, read_round=NO_READ_ROUND))
        assert not bench.effects.record_needed
        assert bench.effects.reads_ready == []
        bench.deliver(bench.fetch_of(2, read_round=NO_READ_ROUND))
        assert bench.effects.reads_ready == [ReadReady("r", 2)]

    def test_delayed_fetch_of_stock_voter_is_not_completed_by_a_read(self) -> None:
        bench = EngineHarness().to_leader()
        bench.step(RequestReceived("p", bench.fetch_of(2, wait=500, read_round=NO_READ_ROUND)))
        effects = bench.step(ReadRequested("r"))
        assert bench.response_to("p", effects) is None

    def test_sole_voter_is_ready_immediately(self) -> None:
        bench = EngineHarness((), founders=(1,))
        bench.fire_timer()
        assert bench.step(ReadRequested("early")).reads_ready == []
        assert bench.flush().reads_ready == [ReadReady("early", 3)]
        assert bench.step(ReadRequested("r")).reads_ready == [ReadReady("r", 3)]

    def test_requires_the_high_watermark_of_this_epoch(self) -> None:
        bench = EngineHarness().to_leader(committed=False)
        bench.step(ReadRequested("r"))
        bench.deliver(bench.fetch_of(2, offset=1, read_round=0))
        bench.deliver(bench.fetch_of(2, offset=1, read_round=1))
        assert bench.effects.reads_ready == []
        bench.flush()
        bench.deliver(bench.fetch_of(2, read_round=1))
        assert bench.effects.reads_ready == [ReadReady("r", 2)]


def test_proposal_must_end_after_the_log_end() -> None:
    bench = EngineHarness().to_leader()
    assert "ends at 2" in (bench.engine.step(Propose(b"", 2), bench.now).fatal or "")


def test_second_leader_in_its_epoch_is_fatal() -> None:
    bench = EngineHarness().to_leader()
    reply = refused(bench.engine.epoch, leader=3)
    fatal = bench.respond(2, LeaderResponse(ErrorCode.NONE, 3, reply.epoch)).fatal
    assert shows(fatal or "", "two leaders", "epoch 2", "1 and 3")


@pytest.mark.parametrize(("ms", "wanted"), [(1999, False), (2000, True)])
def test_leader_without_majority_probes_other_voters(ms: int, wanted: bool) -> None:
    bench = EngineHarness().to_leader()
    assert bench.engine.should_probe_leader(bench.now + ms) is wanted
