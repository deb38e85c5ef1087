from __future__ import annotations

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE
from quorumd.raft.effects import Send
from quorumd.raft.events import (
    PeerRequestFailed,
    ResponseReceived,
    ShutdownRequested,
    StorageAvailable,
    StorageFull,
)
from quorumd.raft.messages import FetchRequest, VoteRequest, VoteResponse
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from tests.support.raft.quorum import key, voter_set
from tests.support.raft.single_engine import EngineHarness, begin, granted, refused, vote


def test_pre_votes_are_requested_from_every_voter_at_the_current_epoch() -> None:
    bench = EngineHarness(saved=QuorumState(4)).to_prospective()
    requested = bench.requests(VoteRequest)
    assert {peer: (r.epoch, r.voter, r.pre_vote) for peer, r in requested.items()} == {
        2: (4, key(2), True),
        3: (4, key(3), True),
    }
    assert requested[2].last == (1, 1)
    assert bench.saves == []


def test_pre_vote_majority_saves_candidacy_before_requesting_votes() -> None:
    bench = EngineHarness(saved=QuorumState(4)).to_prospective()
    effects = bench.respond(3, granted(4))
    assert bench.engine.role is Role.CANDIDATE
    assert effects.save == QuorumState(5, NO_NODE, key(1))
    assert effects.send == []
    assert {m.peer: m.request.pre_vote for m in effects.send_after_flush if isinstance(m, Send)} == {
        2: False,
        3: False,
    }


def test_peer_without_pre_votes_counts_as_granting_one() -> None:
    bench = EngineHarness().to_prospective()
    bench.fail(2, unsupported=True)
    assert bench.engine.role is Role.CANDIDATE


def test_majority_of_rejections_returns_to_the_known_leader() -> None:
    bench = EngineHarness(saved=QuorumState(1, 3))
    bench.now += 5000
    bench.to_prospective()
    bench.respond(2, refused(1, leader=3))
    assert bench.engine.role is Role.PROSPECTIVE
    bench.respond(3, refused(1, leader=3))
    assert (bench.engine.role, bench.engine.leader_id, bench.engine.epoch) == (Role.FOLLOWER, 3, 1)
    assert 3 in bench.requests(FetchRequest)
    assert bench.engine.deadline <= bench.now + bench.settings.election_backoff_max_ms


def test_rejected_without_known_leader_retries_after_backoff() -> None:
    bench = EngineHarness().to_prospective()
    bench.respond(2, refused(1))
    bench.respond(3, refused(1))
    assert bench.engine.role is Role.UNATTACHED
    assert bench.to_prospective().engine.epoch == 1


def test_pre_vote_without_responses_times_out() -> None:
    bench = EngineHarness().to_prospective()
    bench.wait(bench.settings.election_timeout_ms)
    assert bench.engine.role is Role.UNATTACHED


def test_refollowing_a_silent_leader_keeps_probing_other_voters() -> None:
    bench = EngineHarness().to_follower(2).to_prospective()
    bench.wait(bench.settings.election_timeout_ms)
    assert (bench.engine.role, bench.engine.leader_id) == (Role.FOLLOWER, 2)
    assert bench.engine.should_probe_leader(bench.now), "any of them may have new endpoints"


def test_reported_leader_is_followed() -> None:
    bench = EngineHarness().to_prospective()
    bench.respond(2, refused(1, leader=3))
    assert (bench.engine.role, bench.engine.leader_id) == (Role.FOLLOWER, 3)


def test_majority_of_votes_makes_a_leader() -> None:
    bench = EngineHarness(saved=QuorumState(4)).to_candidate()
    bench.respond(3, granted(5))
    assert bench.engine.is_leader
    assert bench.state == QuorumState(5, 1, key(1))


def test_candidate_follows_reported_leader_and_keeps_its_vote() -> None:
    bench = EngineHarness(saved=QuorumState(4)).to_candidate()
    bench.respond(3, refused(5, leader=3))
    assert bench.engine.role is Role.FOLLOWER
    assert bench.state == QuorumState(5, 3, key(1))


def test_higher_epoch_ends_the_candidacy() -> None:
    bench = EngineHarness(saved=QuorumState(4)).to_candidate()
    bench.respond(3, refused(9))
    assert bench.engine.role is Role.UNATTACHED
    assert bench.state == QuorumState(9)


def test_lost_election_backs_off_and_restarts_with_a_pre_vote() -> None:
    bench = EngineHarness(saved=QuorumState(4), randrange=lambda bound: bound - 1).to_candidate()
    bench.respond(2, refused(5))
    bench.respond(3, refused(5))
    assert (bench.engine.role, bench.engine.epoch, bench.engine.voted) == (Role.CANDIDATE, 5, key(1))
    assert bench.now < bench.engine.deadline <= bench.now + bench.settings.election_backoff_max_ms
    bench.fire_timer()
    assert (bench.engine.role, bench.engine.epoch) == (Role.PROSPECTIVE, 5)


def test_rejection_with_an_unreachable_voter_loses_the_election() -> None:
    bench = EngineHarness(saved=QuorumState(4)).to_candidate()
    bench.fail(3, refused=True)
    assert not bench.engine._replica.state.backing_off  # it is Candidate
    bench.respond(2, refused(5))
    assert bench.engine._replica.state.backing_off


@pytest.mark.parametrize("error", [None, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.INCONSISTENT_VOTER_SET])
def test_voter_without_a_verdict_is_requested_again_with_backoff(error: ErrorCode | None) -> None:
    bench = EngineHarness().to_candidate()
    pauses = []
    for _ in range(4):
        failed_at = bench.now
        if error is None:
            bench.fail(3)
        else:
            bench.respond(3, VoteResponse(error, NO_NODE, bench.engine.epoch, False))
        while 3 not in bench.requests(VoteRequest):
            bench.fire_timer()
        pauses.append(bench.now - failed_at)
    assert pauses == [16, 32, 64, 128]


def test_errors_are_not_rejections() -> None:
    bench = EngineHarness().to_candidate()
    epoch = bench.engine.epoch
    bench.respond(2, VoteResponse(ErrorCode.BROKER_NOT_AVAILABLE, NO_NODE, epoch, False))
    bench.respond(3, VoteResponse(ErrorCode.INCONSISTENT_VOTER_SET, NO_NODE, epoch, False))
    assert not bench.engine._replica.state.backing_off


def test_responses_of_an_older_epoch_are_ignored() -> None:
    bench = EngineHarness(saved=QuorumState(4)).to_candidate()
    bench.respond(2, granted(4))
    assert bench.engine.role is Role.CANDIDATE


def test_responses_of_an_earlier_round_are_ignored() -> None:
    bench = EngineHarness().to_prospective()
    early = bench.open[2]
    bench.respond(3, granted(1))
    assert bench.engine.role is Role.CANDIDATE
    bench.step(ResponseReceived(2, early, granted(1)))
    bench.step(PeerRequestFailed(2, early))
    assert bench.engine.role is Role.CANDIDATE


def test_late_vote_of_a_lost_election_is_not_a_pre_vote() -> None:
    bench = EngineHarness(saved=QuorumState(4)).to_candidate()
    late = bench.open[3]
    bench.respond(2, refused(5))
    while bench.engine.role is Role.CANDIDATE:
        bench.wait(100)
    assert (bench.engine.role, bench.engine.epoch) == (Role.PROSPECTIVE, 5)
    bench.step(ResponseReceived(3, late, granted(5)))
    assert bench.engine.role is Role.PROSPECTIVE


def test_sole_voter_leads_in_one_step() -> None:
    bench = EngineHarness((), me=key(1), founders=(1,))
    bench.fire_timer()
    assert bench.engine.is_leader
    assert bench.effects.save == QuorumState(1, 1, key(1))
    bench.flush()
    assert bench.engine.high_watermark == 3


def test_new_leader_ends_a_pre_vote() -> None:
    bench = EngineHarness().to_prospective()
    bench.deliver(begin(3, 1))
    assert bench.engine.role is Role.FOLLOWER


def test_no_campaign_during_shutdown_or_with_a_full_disk() -> None:
    for event in (ShutdownRequested(), StorageFull()):
        bench = EngineHarness().to_prospective()
        bench.step(event)
        assert bench.engine.role is Role.UNATTACHED
        for _ in range(5):
            bench.fire_timer()
        assert bench.engine.role is Role.UNATTACHED


def test_candidate_with_full_disk_does_not_become_leader_until_space_is_free() -> None:
    bench = EngineHarness().to_candidate()
    bench.step(StorageFull())
    bench.respond(2, granted(bench.engine.epoch))
    assert bench.engine.role is Role.CANDIDATE
    for _ in range(5):
        bench.fire_timer()
    assert bench.engine.role is Role.CANDIDATE
    assert bench.engine.deadline > bench.now
    bench.step(StorageAvailable())
    bench.to_prospective()


def test_observer_never_campaigns() -> None:
    bench = EngineHarness(me=key(4), voters=voter_set(1, 2, 3))
    for _ in range(20):
        bench.fire_timer()
    assert bench.engine.role is Role.UNATTACHED
    assert bench.engine.role_name == "observer"


def test_campaigning_replica_votes_in_a_newer_epoch() -> None:
    bench = EngineHarness().to_candidate()
    assert bench.deliver(vote(bench.engine.epoch + 1, (9, 1))).granted
    assert bench.engine.role is Role.UNATTACHED
