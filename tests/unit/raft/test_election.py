"""Votes and pre-votes: (own state, request) -> response, saved state, next role."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, ZERO_UUID, OffsetAndEpoch, ReplicaKey
from quorumd.raft.effects import Respond
from quorumd.raft.election import is_malformed
from quorumd.raft.events import RequestReceived
from quorumd.raft.messages import VoteRequest, VoteResponse
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from quorumd.raft.voters import Voter, VoterSet
from tests.support.raft.quorum import key, voter_set
from tests.support.raft.single_engine import EngineHarness, vote


@dataclass
class Case:
    name: str
    saved: QuorumState
    request: VoteRequest
    error: ErrorCode = ErrorCode.NONE
    granted: bool = False
    epoch: int = 3
    save: QuorumState | None = None


# The own log is [1, 1, 2]: end offset 3, last epoch 2.
LOG = (1, 1, 2)

CASES = [
    Case("no vote yet, same log", QuorumState(3), vote(3, (3, 2)), granted=True, save=QuorumState(3, -1, key(2))),
    Case("longer log", QuorumState(3), vote(3, (9, 2)), granted=True, save=QuorumState(3, -1, key(2))),
    Case("shorter, newer log", QuorumState(4), vote(4, (1, 3)), granted=True, epoch=4,
         save=QuorumState(4, -1, key(2))),
    Case("shorter log", QuorumState(3), vote(3, (2, 2))),
    Case("longer, older log", QuorumState(3), vote(3, (9, 1))),
    Case("voted for it before", QuorumState(3, -1, key(2)), vote(3, (3, 2)), granted=True),
    Case("voted for it by id only", QuorumState(3, -1, ReplicaKey(2)), vote(3, (3, 2)), granted=True),
    Case("voted for another", QuorumState(3, -1, key(3)), vote(3, (3, 2))),
    Case("voted for another disk of it", QuorumState(3, -1, key(2, incarnation=2)), vote(3, (3, 2))),
    Case("leader known", QuorumState(3, 3), vote(3, (9, 2))),
    Case("old epoch", QuorumState(3), vote(2, (9, 1)), ErrorCode.FENCED_LEADER_EPOCH),
    Case("new epoch", QuorumState(3), vote(7, (3, 2)), granted=True, epoch=7, save=QuorumState(7, -1, key(2))),
    Case("new epoch frees the vote", QuorumState(3, -1, key(3)), vote(4, (3, 2)), granted=True, epoch=4,
         save=QuorumState(4, -1, key(2))),
    Case("new epoch, shorter log", QuorumState(3), vote(7, (2, 2)), epoch=7, save=QuorumState(7)),
    Case("new epoch, leader known", QuorumState(3, 3), vote(7, (3, 2)), granted=True, epoch=7,
         save=QuorumState(7, -1, key(2))),
    Case("candidate is not a voter", QuorumState(3), vote(4, (3, 2), candidate=9), granted=True, epoch=4,
         save=QuorumState(4, -1, key(9))),
    Case("epoch of its log not bumped", QuorumState(3), vote(3, (3, 3)), ErrorCode.INVALID_REQUEST),
    Case("negative end", QuorumState(3), vote(3, (-1, 0)), ErrorCode.INVALID_REQUEST),
    Case("own id", QuorumState(3), vote(4, (9, 3), candidate=1), epoch=4, save=QuorumState(4)),
    Case("another disk", QuorumState(3), vote(4, (9, 3), me=key(1, incarnation=2)), epoch=4, save=QuorumState(4)),
    Case("another node was asked", QuorumState(3), vote(4, (9, 3), me=key(3)), epoch=4, save=QuorumState(4)),
    Case("request without a voter id", QuorumState(3), vote(4, (9, 3), me=ReplicaKey(NO_NODE)), granted=True,
         epoch=4, save=QuorumState(4, -1, key(2))),
    Case("pre-vote", QuorumState(3), vote(3, (3, 2), pre=True), granted=True),
    Case("pre-vote, voted for another", QuorumState(3, -1, key(3)), vote(3, (3, 2), pre=True), granted=True),
    Case("pre-vote, leader known, never heard", QuorumState(3, 3), vote(3, (3, 2), pre=True), granted=True),
    Case("pre-vote, shorter log", QuorumState(3), vote(3, (2, 2), pre=True)),
    Case("pre-vote, old epoch", QuorumState(3), vote(2, (9, 2), pre=True), ErrorCode.FENCED_LEADER_EPOCH),
    Case("pre-vote, new epoch", QuorumState(3, 3), vote(7, (3, 2), pre=True), granted=True, epoch=7,
         save=QuorumState(7)),
    Case("pre-vote, epoch below its log", QuorumState(3), vote(3, (3, 4), pre=True), ErrorCode.INVALID_REQUEST),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_vote(case: Case) -> None:
    bench = EngineHarness(LOG, case.saved)
    role = bench.engine.role
    response = bench.deliver(case.request)
    assert response == VoteResponse(case.error, response.leader_id, case.epoch, case.granted)
    assert (bench.saves[-1] if bench.saves else None) == case.save
    assert bench.engine.role is (Role.UNATTACHED if case.save else role)


def test_vote_is_sent_only_after_it_is_saved() -> None:
    bench = EngineHarness(LOG, QuorumState(3))
    bench.deliver(vote(4, (3, 2)))
    assert bench.effects.save == QuorumState(4, NO_NODE, key(2))
    assert [type(message) for message in bench.effects.send_after_flush] == [Respond]
    assert bench.effects.send == []


def test_only_a_granted_vote_restarts_the_election_timer() -> None:
    bench = EngineHarness(LOG, QuorumState(3))
    election = bench.engine._replica.state.election_deadline  # it is Unattached
    bench.now += 500
    bench.deliver(vote(7, (1, 1)))
    assert bench.engine._replica.state.election_deadline == election
    bench.deliver(vote(8, (9, 7)))
    assert bench.engine._replica.state.election_deadline == election + 500


@pytest.mark.parametrize("pre", [False, True])
def test_leader_rejects_votes_in_its_epoch(pre: bool) -> None:
    bench = EngineHarness().to_leader()
    epoch = bench.engine.epoch
    response = bench.deliver(vote(epoch, (99, epoch if pre else epoch - 1), candidate=3, pre=pre))
    assert (response.granted, response.leader_id) == (False, 1)
    assert bench.engine.is_leader


def test_candidate_keeps_its_vote_and_grants_pre_votes() -> None:
    bench = EngineHarness().to_candidate()
    epoch = bench.engine.epoch
    assert not bench.deliver(vote(epoch, (99, 1), candidate=3)).granted
    assert bench.deliver(vote(epoch, (99, 1), candidate=3, pre=True)).granted
    assert bench.engine.role is Role.CANDIDATE


def test_resigned_leader_grants_pre_votes_only() -> None:
    bench = EngineHarness().to_resigned()
    epoch, end = bench.engine.epoch, bench.log.end_offset
    assert not bench.deliver(vote(epoch, (end, epoch - 1))).granted
    assert bench.deliver(vote(epoch, (end, epoch), pre=True)).granted


class TestPreVoteAtAFollower:
    def follower(self) -> EngineHarness:
        bench = EngineHarness().to_follower(3)
        bench.respond(3, bench.records(high_watermark=1, leader=3))
        return bench

    def is_granted(self, bench: EngineHarness) -> bool:
        return bool(bench.deliver(vote(bench.engine.epoch, (9, 1), pre=True)).granted)

    def test_rejected_while_the_leader_is_alive(self) -> None:
        bench = self.follower()
        bench.now += bench.settings.fetch_timeout_ms - 1
        assert not self.is_granted(bench)

    def test_granted_after_the_fetch_timeout(self) -> None:
        bench = self.follower()
        bench.now += bench.settings.fetch_timeout_ms
        assert self.is_granted(bench)
        assert bench.engine.role is Role.FOLLOWER

    def test_granted_when_the_leader_refuses_connections(self) -> None:
        bench = self.follower()
        bench.fail(3, refused=True)
        assert self.is_granted(bench)

    def test_rejected_after_a_single_failed_fetch(self) -> None:
        bench = self.follower()
        bench.fail(3)
        assert not self.is_granted(bench)


class TestDirectories:
    def test_recorded_with_another_directory_rejects(self) -> None:
        bench = EngineHarness(LOG, QuorumState(3), me=key(1, incarnation=2))
        assert not bench.deliver(vote(4, (9, 3), me=ReplicaKey(NO_NODE))).granted

    def test_unrecorded_voter_votes(self) -> None:
        """The log of a voter that was just added may not have its record yet (hole 10)."""
        bench = EngineHarness(LOG, QuorumState(3), me=key(4), voters=voter_set(1, 2, 3))
        assert bench.deliver(vote(4, (9, 3), me=key(4))).granted

    def test_empty_log_votes_when_addressed_by_directory_id(self) -> None:
        assert EngineHarness(()).deliver(vote(4, (9, 3), me=key(1))).granted

    def test_empty_log_does_not_vote_when_addressed_by_node_id(self) -> None:
        assert not EngineHarness(()).deliver(vote(4, (9, 3), me=ReplicaKey(1))).granted
        assert not EngineHarness(()).deliver(vote(4, (9, 3), me=ReplicaKey(NO_NODE), pre=True)).granted

    def test_caught_up_replica_votes_again(self) -> None:
        pinless = VoterSet(tuple(Voter(ReplicaKey(n), ()) for n in (1, 2, 3)))
        bench = EngineHarness((), voters=pinless).to_follower(2, epoch=1)
        one = EngineHarness((1, 1)).log.batches
        bench.respond(2, bench.records(one[0], high_watermark=2))
        assert not bench.deliver(vote(2, (9, 1), me=ReplicaKey(1, ZERO_UUID))).granted
        bench.to_follower(2, epoch=3)
        bench.respond(2, bench.records(one[1], high_watermark=2))
        assert bench.deliver(vote(4, (9, 1), me=ReplicaKey(1, ZERO_UUID))).granted


class TestFirstBootstrap:
    def test_hole_40_bootstrap_participant_votes_after_crash_with_empty_log(self) -> None:
        """No other replica has the first batch: without this vote the one that has it could never lead again."""
        took_part = EngineHarness(())
        saved = took_part.step(RequestReceived("reply", vote(1, (0, 0), me=ReplicaKey(1)))).save
        assert saved is not None
        assert not saved.catching_up
        again = EngineHarness((), saved=saved)
        assert again.deliver(vote(2, (3, 1), me=ReplicaKey(1))).granted

    def test_hole_40_restart_does_not_let_a_replaced_disk_vote(self) -> None:
        replaced = EngineHarness(())
        saved = replaced.step(RequestReceived("reply", vote(4, (9, 3), me=ReplicaKey(1)))).save
        assert saved is not None
        assert saved.catching_up
        again = EngineHarness((), saved=saved)
        assert not again.deliver(vote(5, (9, 3), me=ReplicaKey(1))).granted

    def test_votes_for_a_configured_voter(self) -> None:
        assert EngineHarness(()).deliver(vote(1, (0, 0), me=ReplicaKey(1))).granted

    def test_rejects_a_candidate_that_is_not_configured(self) -> None:
        assert not EngineHarness(()).deliver(vote(1, (0, 0), candidate=7, me=ReplicaKey(1))).granted

    def test_non_voter_grants_vote(self) -> None:
        assert not EngineHarness((), me=key(7)).deliver(vote(1, (0, 0), me=ReplicaKey(7))).granted


def test_is_malformed() -> None:
    asker = (key(2), key(1))
    assert is_malformed(VoteRequest(0, *asker, OffsetAndEpoch(0, 0), False))
    assert not is_malformed(VoteRequest(0, *asker, OffsetAndEpoch(0, 0), True))
    assert is_malformed(VoteRequest(5, ReplicaKey(-1), key(1), OffsetAndEpoch(0, 0), False))
    assert is_malformed(VoteRequest(5, *asker, OffsetAndEpoch(0, -1), False))
