"""Holes and contradictions of the KIP-595 draft that the engine decides, by number.

Tests of gossip, files and the wire are in tests/unit/node and tests/unit/protocol, those of voter changes also in
tests/unit/raft.
"""

from __future__ import annotations

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch, ReplicaKey
from quorumd.raft.effects import ControlBatch, ReadReady
from quorumd.raft.events import (
    FlushCompleted,
    ReadRequested,
    RemoveVoter,
    RequestReceived,
    ShutdownRequested,
    VoterChangeRequested,
)
from quorumd.raft.messages import EndEpochRequest, FetchRequest, VoteRequest
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from tests.support.raft.quorum import Batch, MemoryLog, Quorum, key, voter_set
from tests.support.raft.single_engine import EngineHarness, begin, end, fetch_error, granted, refused, vote

UNPINNED = VoterSet(tuple(Voter(ReplicaKey(n), ()) for n in (1, 2, 3)))


def voter_record(*ids: int) -> ControlBatch:
    return ControlBatch((VoterAssignment(voter_set(*ids)),))


def test_hole_5_voter_set_counts_from_append_and_is_rolled_back_by_truncation() -> None:
    bench = EngineHarness((1, 1), QuorumState(5)).to_follower(2)
    bench.respond(2, bench.records(Batch(2, 3, 5, voter_record(2, 3))))
    assert (bench.engine.is_voter, bench.engine.high_watermark) == (False, -1)
    bench.respond(2, bench.records(diverging=OffsetAndEpoch(2, 1)))
    assert bench.engine.is_voter


@pytest.mark.parametrize("hindrance", ["no commit of this epoch", "an uncommitted voter record"])
def test_hole_7_no_voter_record_before_an_own_commit_and_never_two_at_once(hindrance: str) -> None:
    bench = EngineHarness(voters=UNPINNED).to_leader(committed=hindrance != "no commit of this epoch")
    length = bench.log.end_offset
    bench.discover(key(2), key(3))
    assert bench.log.end_offset == length


def test_hole_9_leader_outside_the_voter_set_leads_without_counting_itself() -> None:
    bench = EngineHarness(voters=voter_set(1, 2, 3)).to_leader()
    bench.deliver(bench.fetch_of(3, wait=0))
    bench.step(VoterChangeRequested("asker", RemoveVoter(key(1))))
    bench.flush()
    bench.deliver(bench.fetch_of(2))
    assert bench.engine.high_watermark < bench.log.end_offset
    assert bench.engine.is_leader
    bench.deliver(bench.fetch_of(3))
    assert bench.engine.high_watermark == bench.log.end_offset
    assert bench.engine.role is Role.RESIGNED
    assert sorted(bench.requests(EndEpochRequest)) == [2, 3]


class TestHole10:
    def test_vote_is_independent_of_membership(self) -> None:
        assert EngineHarness().deliver(vote(2, (9, 1), candidate=9)).granted
        assert EngineHarness(voters=voter_set(2, 3, 4)).deliver(vote(2, (9, 1), candidate=4)).granted

    @pytest.mark.parametrize("pre", [False, True])
    def test_higher_epoch_is_saved_before_any_response(self, pre: bool) -> None:
        bench = EngineHarness((1, 1, 3), QuorumState(3))
        reply = bench.deliver(vote(8, (0, 0), pre=pre))
        assert (reply.granted, reply.epoch) == (False, 8)
        assert bench.effects.save == QuorumState(8)

    def test_only_voters_campaign(self) -> None:
        bench = EngineHarness(voters=voter_set(2, 3, 4))
        for _ in range(10):
            bench.fire_timer()
        assert bench.requests(VoteRequest) == {}


def test_hole_11_pre_vote_saves_nothing_and_bumps_nothing() -> None:
    candidate = EngineHarness(saved=QuorumState(4)).to_prospective()
    assert (candidate.saves, candidate.engine.epoch) == ([], 4)
    voter = EngineHarness(saved=QuorumState(4))
    assert voter.deliver(vote(4, (1, 1), pre=True)).granted
    assert (voter.saves, voter.engine.voted) == ([], None)


def test_hole_11_peer_without_pre_vote_does_not_stop_an_election() -> None:
    bench = EngineHarness().to_prospective()
    bench.fail(2, unsupported=True)
    assert bench.engine.role is Role.CANDIDATE


def test_hole_12_restarted_leader_is_resigned_in_its_epoch() -> None:
    bench = EngineHarness((1, 4), QuorumState(4, 1, key(1)))
    assert (bench.engine.role, bench.engine.epoch, bench.engine.leader_id) == (Role.RESIGNED, 4, NO_NODE)
    assert not bench.deliver(vote(4, (9, 3))).granted
    assert bench.deliver(bench.fetch_of(2)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.fire_timer()
    bench.to_candidate()
    assert bench.engine.epoch == 6


def test_hole_13_vote_survives_following_and_losing_a_leader() -> None:
    bench = EngineHarness(saved=QuorumState(4))
    bench.deliver(vote(4, (1, 1), candidate=3))
    bench.deliver(begin(2, 4))
    assert bench.state == QuorumState(4, 2, key(3))
    restarted = EngineHarness(saved=QuorumState(4, NO_NODE, key(3)))
    assert not restarted.deliver(vote(4, (9, 3), candidate=2)).granted


def test_hole_14_check_quorum_and_probing() -> None:
    bench = EngineHarness().to_leader()
    began = bench.now
    assert bench.engine.should_probe_leader(began + 2000)
    assert not bench.engine.should_probe_leader(began + 1999)
    while bench.engine.is_leader:
        assert bench.now < began + 3000
        bench.fire_timer()
    assert bench.now == began + 3000
    assert sorted(bench.requests(EndEpochRequest)) == [2, 3]


def test_hole_15_failed_election_bumps_the_epoch_once() -> None:
    bench = EngineHarness(saved=QuorumState(4)).to_candidate()
    bench.respond(2, refused(5))
    bench.respond(3, refused(5))
    assert bench.state == QuorumState(5, NO_NODE, key(1))
    bench.fire_timer()
    bench.respond(2, granted(5))
    assert bench.state == QuorumState(6, NO_NODE, key(1))


def test_hole_16_log_position_is_end_offset_and_empty_log_is_zero() -> None:
    assert EngineHarness((1, 1, 3)).to_prospective().requests(VoteRequest)[2].last == (3, 3)
    empty = EngineHarness(())
    empty.discover(key(2))
    assert empty.to_prospective().requests(VoteRequest)[2].last == (0, 0)


def test_hole_17_epoch_0_means_no_election_yet() -> None:
    assert EngineHarness(()).engine.epoch == 0
    assert EngineHarness(()).deliver(vote(0, (0, 0))).error is ErrorCode.INVALID_REQUEST
    empty = EngineHarness(())
    empty.discover(key(2))
    assert empty.to_candidate().engine.epoch == 1


def test_hole_18_fetch_of_another_epoch_gets_fenced_or_unknown_leader_epoch() -> None:
    bench = EngineHarness().to_leader()
    assert bench.deliver(bench.fetch_of(2, epoch=1)).error == 74
    assert bench.deliver(bench.fetch_of(2, epoch=3)).error == 75


def test_hole_18_the_receiver_compares_epochs_regardless_of_the_code() -> None:
    bench = EngineHarness(saved=QuorumState(4)).to_follower(2)
    bench.respond(2, fetch_error(ErrorCode.UNKNOWN_SERVER_ERROR, 3, 6))
    assert (bench.engine.leader_id, bench.engine.epoch) == (3, 6)


def test_hole_19_not_follower_only_for_fetches_that_claim_to_vote() -> None:
    bench = EngineHarness().to_leader()
    claims = bench.deliver(bench.fetch_of(2, offset=0, replica=key(9), is_follower=True))
    assert (claims.error, claims.read_start_offset) == (ErrorCode.NOT_FOLLOWER, 0)
    assert bench.deliver(bench.fetch_of(2, offset=0, replica=key(9))).error is ErrorCode.NONE


@pytest.mark.parametrize(("candidate", "grants"), [(2, True), (9, False)])
def test_hole_24_empty_log_votes_only_for_configured_voters(candidate: int, grants: bool) -> None:
    assert EngineHarness(()).deliver(vote(1, (0, 0), candidate=candidate, me=ReplicaKey(1))).granted is grants


class TestHole28:
    def test_successors_are_ordered_and_the_first_does_not_wait(self) -> None:
        bench = EngineHarness().to_follower(2)
        bench.deliver(end(2, 1, 1, 3))
        assert bench.engine.role is Role.PROSPECTIVE

    def test_unlisted_successor_backs_off_longest(self) -> None:
        bench = EngineHarness().to_follower(2)
        start = bench.now
        assert bench.deliver(end(2, 1, 3)).error is ErrorCode.NONE
        while bench.engine.role is Role.FOLLOWER:
            bench.fire_timer()
            if 2 in bench.open:
                bench.fail(2)
        assert bench.now == start + 1000

    def test_accepted_when_no_leader_was_known(self) -> None:
        bench = EngineHarness()
        assert bench.deliver(end(2, 1, 3, 1)).error is ErrorCode.NONE
        assert bench.engine.leader_id == 2

    def test_candidate_does_not_send_it(self) -> None:
        bench = EngineHarness().to_candidate()
        bench.deliver(vote(9, (9, 8)))
        assert bench.requests(EndEpochRequest) == {}


def test_hole_29_shutdown_is_not_a_demotion() -> None:
    """A leader that shuts down writes no voter record, and is a voter after it restarts."""
    quorum = Quorum(3)
    quorum.start()
    leader = quorum.run_to_leader()
    before = len(quorum.nodes[leader].log.voter_history())
    quorum.step(leader, ShutdownRequested())
    assert quorum.run(5000, lambda: quorum.leader() not in (None, leader))
    quorum.crash(leader)
    quorum.start(leader)
    quorum.run_to_leader()
    assert all(len(node.log.voter_history()) == before for node in quorum.nodes.values())
    assert quorum.nodes[leader].engine.is_voter


def test_hole_30_read_requires_a_majority_of_later_fetches() -> None:
    bench = EngineHarness().to_leader()
    bench.step(ReadRequested("r"))
    stale = bench.fetch_of(2, read_round=0)
    response = bench.deliver(stale)
    assert bench.effects.reads_ready == []
    bench.step(RequestReceived("x", bench.fetch_of(2, read_round=response.read_round)))
    assert bench.effects.reads_ready == [ReadReady("r", 2)]


def test_hole_31_first_record_of_the_epoch_must_reach_a_majority() -> None:
    bench = EngineHarness((1, 1, 1)).to_leader(committed=False)
    bench.flush()
    for peer in (2, 3):
        bench.deliver(bench.fetch_of(peer, offset=3))
    assert bench.engine.leader_epoch_start == 3
    assert bench.engine.high_watermark == -1
    assert bench.deliver(bench.fetch_of(2, offset=2)).high_watermark == -1
    bench.deliver(bench.fetch_of(2, offset=4))
    assert bench.engine.high_watermark == 4


def test_hole_32_the_high_watermark_never_decreases() -> None:
    bench = EngineHarness((1, 1, 1)).to_leader()
    bench.propose()
    bench.flush()
    bench.deliver(bench.fetch_of(2))
    assert bench.engine.high_watermark == 5
    for peer in (2, 3):
        bench.deliver(bench.fetch_of(peer, offset=4))
    bench.step(FlushCompleted(4))
    assert bench.engine.high_watermark == 5


class TestHole33:
    def test_truncation_is_by_epoch(self) -> None:
        """The replica has no record of epoch 3, so it keeps its log up to the end of epoch 2."""
        bench = EngineHarness((1, 1, 2, 4, 4), QuorumState(5)).to_follower(2)
        bench.respond(2, bench.records(diverging=OffsetAndEpoch(4, 3)))
        assert bench.log.epochs == [1, 1, 2]

    def test_truncation_below_the_high_watermark_is_refused(self) -> None:
        bench = EngineHarness((1, 1, 2), QuorumState(5)).to_follower(2)
        bench.respond(2, bench.records(high_watermark=3))
        assert bench.respond(2, bench.records(diverging=OffsetAndEpoch(2, 1))).refused
        assert bench.log.epochs == [1, 1, 2]


def test_hole_34_begin_quorum_epoch_is_accepted_by_a_node_that_is_not_a_voter() -> None:
    bench = EngineHarness((1,), voters=voter_set(2, 3, 4))
    assert bench.deliver(begin(3, 5)).error is ErrorCode.NONE
    assert 3 in bench.requests(FetchRequest)


def test_hole_34_begin_quorum_epoch_of_an_unknown_leader_waits_for_a_voter_that_names_it() -> None:
    bench = EngineHarness((1,), voters=voter_set(2, 3, 4))
    assert bench.deliver(begin(9, 5)).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert 9 not in bench.requests(FetchRequest)


class TestHole37:
    def test_no_replica_id_is_a_consumer(self) -> None:
        bench = EngineHarness().to_leader()
        bench.propose()
        response = bench.deliver(
            bench.fetch_of(2, offset=0, replica=ReplicaKey(NO_NODE), epoch=-1, last_epoch=-1)
        )
        assert (response.read_start_offset, response.read_max_offset) == (0, 2)
        assert bench.engine.describe(bench.now).observers == ()

    def test_own_replica_id_is_rejected(self) -> None:
        bench = EngineHarness().to_leader()
        assert bench.deliver(bench.fetch_of(1)).error is ErrorCode.INVALID_REQUEST


class TestHole38:
    def test_follower_fetches_again_only_after_its_flush(self) -> None:
        bench = EngineHarness((1,), QuorumState(5)).to_follower(2)
        effects = bench.respond(2, bench.records(Batch(1, 2, 5, b"x")))
        assert effects.append is not None
        assert effects.send == []
        assert len(effects.send_after_flush) == 1

    def test_leader_counts_its_flushed_offset_only(self) -> None:
        bench = EngineHarness().to_leader()
        bench.propose()
        bench.propose()
        bench.deliver(bench.fetch_of(2))
        assert bench.engine.high_watermark == 2
        bench.step(FlushCompleted(3))
        assert bench.engine.high_watermark == 3
        bench.step(FlushCompleted(4))
        assert bench.engine.high_watermark == 4

    def test_vote_is_persisted_before_it_is_sent(self) -> None:
        bench = EngineHarness()
        bench.deliver(vote(2, (9, 1)))
        assert bench.effects.save is not None
        assert bench.effects.send == []

    def test_power_loss_keeps_acknowledged_records(self) -> None:
        quorum = Quorum(3)
        quorum.start()
        leader = quorum.run_to_leader()
        quorum.run_to_commit(quorum.propose(leader))
        for node in quorum.nodes.values():
            node.flushes = False
        end = quorum.propose(leader)
        quorum.run(100)
        assert all(node.committed < end for node in quorum.nodes.values())


class TestHole40:
    """A voter that lost its disk restarts empty, under the same id."""

    def test_voter_recorded_with_its_directory_becomes_an_observer(self) -> None:
        quorum = Quorum(3)
        quorum.start()
        leader = quorum.run_to_leader()
        lost = next(n for n in quorum.nodes if n != leader)
        end = quorum.propose(leader)
        quorum.run_to_commit(end)
        quorum.wipe(lost)
        quorum.start(lost)
        quorum.run_to_commit(end, lost)
        assert not quorum.nodes[lost].engine.is_voter
        other = next(n for n in quorum.nodes if n not in (leader, lost))
        quorum.crash(leader)
        assert not quorum.run(20_000, lambda: quorum.leader() is not None)
        assert not quorum.nodes[other].engine.is_leader
        quorum.start(leader)
        assert quorum.run_to_leader() in (leader, other)

    def test_unrecorded_voter_neither_votes_nor_campaigns_until_caught_up(self) -> None:
        bench = EngineHarness((), voters=UNPINNED).to_follower(2, epoch=1)
        log = MemoryLog.of_epochs(1, 1, 1)
        log.batches[0] = Batch(0, 1, 1, ControlBatch((VoterAssignment(UNPINNED),)))
        bench.respond(2, bench.records(log.batches[0], high_watermark=3))
        assert not bench.deliver(vote(2, (9, 1), me=ReplicaKey(1))).granted
        for _ in range(10):
            bench.fire_timer()
        assert bench.requests(VoteRequest) == {}
        bench.to_follower(2, epoch=3)
        bench.respond(2, bench.records(*log.batches[1:], high_watermark=3))
        assert bench.deliver(vote(4, (9, 3), me=ReplicaKey(1))).granted

    def test_record_of_this_directory_by_the_leader_suffices(self) -> None:
        assert EngineHarness(()).deliver(vote(2, (9, 1), me=key(1))).granted

    def test_bootstrap_candidate_is_not_a_replacement(self) -> None:
        bench = EngineHarness(())
        bench.discover(key(2))
        bench.to_candidate()
        assert bench.deliver(vote(2, (3, 1), me=ReplicaKey(1))).granted

    def test_bootstrap_voter_is_not_a_replacement(self) -> None:
        bench = EngineHarness(())
        bench.deliver(vote(1, (0, 0), me=ReplicaKey(1)))
        assert bench.deliver(vote(2, (3, 1), me=ReplicaKey(1))).granted


@pytest.mark.parametrize(
    ("reply", "alive"),
    [
        ({"error": ErrorCode.NONE}, True),
        ({"error": ErrorCode.NONE, "diverging": OffsetAndEpoch(1, 1)}, True),
        ({"error": ErrorCode.OFFSET_OUT_OF_RANGE}, False),
        ({"error": ErrorCode.UNKNOWN_SERVER_ERROR}, False),
    ],
)
def test_hole_41_only_successful_fetches_keep_the_leader_alive(reply: dict[str, object], alive: bool) -> None:
    bench = EngineHarness((1, 2), QuorumState(5)).to_follower(2)
    bench.now += bench.settings.fetch_timeout_ms - 1
    response = bench.records()
    for name, value in reply.items():
        setattr(response, name, value)
    bench.respond(2, response)
    bench.wait(1)
    assert (bench.engine.role is Role.FOLLOWER) is alive
