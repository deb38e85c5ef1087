"""Voter changes at the leader: requests, steps towards a target, its own removal."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID, Endpoint, ReplicaKey
from quorumd.raft.effects import ControlBatch, VoterChangeResult
from quorumd.raft.events import (
    AddVoter,
    PeerDiscovered,
    RemoveVoter,
    SetTargetVoters,
    StorageFull,
    UpdateVoter,
    VoterChangeRequested,
)
from quorumd.raft.messages import BeginEpochRequest, EndEpochRequest, FetchRequest
from quorumd.raft.roles import Role
from quorumd.raft.voters import Voter, VoterAssignment
from tests.support.raft.quorum import Batch, Quorum, directory, endpoint, key, voter_set
from tests.support.raft.single_engine import ME, EngineHarness

ALL = voter_set(1, 2, 3)


def leader(committed: bool = True) -> EngineHarness:
    bench = EngineHarness(voters=ALL)
    bench.discover(ME, key(2), key(3), key(4), key(5))
    bench.to_leader(committed)
    if committed:
        bench.deliver(bench.fetch_of(3, wait=0))
    return bench


def request(bench: EngineHarness, change: Any) -> list[VoterChangeResult]:
    return bench.step(VoterChangeRequested("asker", change)).voter_change_results


def refused(bench: EngineHarness, change: Any) -> ErrorCode:
    before = bench.log.end_offset
    (response,) = request(bench, change)
    assert response.token == "asker"
    assert response.message or response.error is ErrorCode.NONE
    assert bench.log.end_offset == before
    return response.error


def commit(bench: EngineHarness, *peers: int) -> list[VoterChangeResult]:
    """Flush and let peers fetch the whole log; returns the responses sent meanwhile."""
    replies = list(bench.flush().voter_change_results)
    for peer in peers:
        bench.deliver(bench.fetch_of(peer), reply=peer)
        replies += bench.effects.voter_change_results
    return replies


def newest_record(bench: EngineHarness) -> VoterAssignment:
    latest = bench.history.latest
    assert latest is not None
    return latest


class TestTargets:
    def test_observer_with_unknown_address_cannot_be_target(self) -> None:
        bench = leader()
        bench.deliver(bench.fetch_of(9, wait=0))
        assert refused(bench, SetTargetVoters((1, 9))) is ErrorCode.INVALID_REQUEST

    def test_reassignment_responds_when_target_is_committed(self) -> None:
        bench = leader()
        assert not bench.engine.has_uncommitted_voters
        assert request(bench, SetTargetVoters((4, 5))) == []
        assert bench.engine.has_uncommitted_voters
        assert newest_record(bench) == VoterAssignment(ALL, (4, 5))
        assert commit(bench, 2) == [VoterChangeResult("asker", ErrorCode.NONE)]
        assert newest_record(bench).target == (4, 5)

    @pytest.mark.parametrize("ids", [(), (1, 1), (-1, 2), (1, 9)])
    def test_invalid_target_set_is_rejected(self, ids: tuple[int, ...]) -> None:
        assert refused(leader(), SetTargetVoters(ids)) is ErrorCode.INVALID_REQUEST

    def test_waits_for_a_commit_of_its_epoch(self) -> None:
        assert refused(leader(committed=False), SetTargetVoters((1, 2))) is ErrorCode.REQUEST_TIMED_OUT

    def test_non_leader_rejects_voter_changes(self) -> None:
        bench = EngineHarness(voters=ALL).to_follower(2)
        assert refused(bench, SetTargetVoters((1, 2))) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_lost_leadership_reports_unknown_outcome(self) -> None:
        bench = leader()
        request(bench, SetTargetVoters((4, 5)))
        bench.to_follower(2, bench.engine.epoch + 1)
        (response,) = bench.effects.voter_change_results
        assert response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_record_that_the_full_disk_refused_is_rolled_back(self) -> None:
        bench = leader()
        request(bench, RemoveVoter(key(3)))
        bench.log.truncate(bench.log.end_offset - 1)
        assert [a.error for a in bench.step(StorageFull()).voter_change_results] == [
            ErrorCode.NOT_LEADER_OR_FOLLOWER
        ]
        assert newest_record(bench) == VoterAssignment(ALL)


class TestHole35:
    def test_target_may_change_before_the_previous_one_is_committed(self) -> None:
        bench = leader()
        request(bench, SetTargetVoters((4, 5)))
        assert request(bench, SetTargetVoters((2, 3))) == []
        assert newest_record(bench) == VoterAssignment(ALL, (2, 3))

    def test_cancel_keeps_the_current_voters(self) -> None:
        bench = leader()
        request(bench, SetTargetVoters((4, 5)))
        request(bench, SetTargetVoters(None))
        assert newest_record(bench) == VoterAssignment(ALL)

    def test_cancel_without_reassignment_completes_immediately(self) -> None:
        assert refused(leader(), SetTargetVoters(None)) is ErrorCode.NONE


def test_hole_36_target_equal_to_current_voters_ends_the_reassignment() -> None:
    bench = leader()
    request(bench, SetTargetVoters((4, 5)))
    request(bench, SetTargetVoters((3, 1, 2)))
    assert newest_record(bench) == VoterAssignment(ALL)


class TestSteps:
    def test_caught_up_target_is_added_with_its_fetching_directory(self) -> None:
        bench = leader()
        request(bench, SetTargetVoters((1, 2, 3, 4)))
        commit(bench, 2)
        bench.deliver(bench.fetch_of(4), reply=4)
        assert newest_record(bench) == VoterAssignment(voter_set(1, 2, 3, 4))
        assert list(bench.requests(BeginEpochRequest)) == [4]

    def test_target_is_not_added_before_catching_up(self) -> None:
        bench = leader()
        request(bench, SetTargetVoters((1, 2, 3, 4)))
        commit(bench, 2)
        bench.deliver(bench.fetch_of(4, offset=1), reply=4)
        assert newest_record(bench).current == ALL

    def test_target_that_caught_up_long_ago_is_not_added(self) -> None:
        bench = leader()
        bench.deliver(bench.fetch_of(4), reply=4)
        bench.now += bench.settings.fetch_timeout_ms + 1
        bench.deliver(bench.fetch_of(2), reply=2)
        request(bench, SetTargetVoters((1, 2, 3, 4)))
        commit(bench, 2)
        assert newest_record(bench).current == ALL

    def test_next_step_waits_for_commit_of_the_previous_record(self) -> None:
        bench = leader()
        request(bench, SetTargetVoters((1, 2, 3, 4, 5)))
        commit(bench, 2)
        bench.deliver(bench.fetch_of(4), reply=4)
        bench.deliver(bench.fetch_of(5), reply=5)
        assert newest_record(bench).current == voter_set(1, 2, 3, 4)

    def test_new_voter_counts_with_what_it_fetches_as_a_voter(self) -> None:
        bench = leader()
        request(bench, SetTargetVoters((1, 2, 3, 4)))
        commit(bench, 2)
        bench.deliver(bench.fetch_of(4), reply=4)
        voters = bench.engine._replica.state.voters  # it is Leader
        assert voters[4].end_offset == -1, "an observer's fetches are not authenticated"
        bench.deliver(bench.fetch_of(4), reply=4)
        assert voters[4].end_offset == bench.log.end_offset

    def test_removed_voter_becomes_an_observer(self) -> None:
        bench = leader()
        request(bench, SetTargetVoters((1, 2)))
        commit(bench, 2)
        assert newest_record(bench) == VoterAssignment(voter_set(1, 2))
        described = bench.engine.describe(bench.now)
        assert [voter.key.id for voter in described.voters] == [1, 2]
        assert [observer.key.id for observer in described.observers] == [3]

    def test_record_that_changes_two_voters_is_refused(self) -> None:
        bench = EngineHarness((1, 1), voters=ALL).to_follower(2)
        record = ControlBatch((VoterAssignment(voter_set(1, 4, 5)),))
        bench.respond(2, bench.records(Batch(2, 3, 1, record)))
        assert bench.effects.refused is not None
        assert "more than one voter" in bench.effects.refused.reason
        assert bench.effects.append is None
        assert bench.engine.voters.current == ALL


class TestLeaving:
    def test_removed_leader_leads_until_its_removal_is_committed(self) -> None:
        bench = leader()
        request(bench, RemoveVoter(ME))
        assert commit(bench, 2) == []
        assert bench.engine.is_leader
        assert bench.engine.high_watermark < bench.log.end_offset
        bench.deliver(bench.fetch_of(3), reply=3)
        assert bench.effects.voter_change_results == [VoterChangeResult("asker", ErrorCode.NONE)]
        assert bench.engine.role is Role.RESIGNED
        assert sorted(bench.requests(EndEpochRequest)) == [2, 3]

    def test_fetch_that_ended_leadership_gets_a_response(self) -> None:
        bench = leader()
        request(bench, RemoveVoter(ME))
        commit(bench, 2)
        response = bench.deliver(bench.fetch_of(3), reply=3)
        assert response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_it_probes_for_its_successor_immediately(self) -> None:
        bench = leader()
        request(bench, RemoveVoter(ME))
        commit(bench, 2, 3)
        left, epoch = bench.now, bench.engine.epoch
        while not bench.requests(FetchRequest):
            bench.fire_timer()
        assert bench.now - left < bench.settings.election_timeout_ms / 4
        assert (bench.engine.role, bench.engine.epoch) == (Role.RESIGNED, epoch)

    def test_it_does_not_campaign_afterwards(self) -> None:
        bench = leader()
        request(bench, RemoveVoter(ME))
        commit(bench, 2, 3)
        for _ in range(20):
            bench.fire_timer()
            assert bench.engine.role not in (Role.PROSPECTIVE, Role.CANDIDATE)
        assert bench.engine.epoch <= bench.saves[0].epoch + 1

    @pytest.mark.parametrize("seed", range(3))
    def test_removed_leader_observes_its_successor(self, seed: int) -> None:
        quorum = Quorum(3, seed=seed)
        quorum.start()
        first = quorum.run_to_leader()
        quorum.run(1000)
        epoch = quorum.nodes[first].engine.epoch
        quorum.step(first, VoterChangeRequested(lambda response: None, RemoveVoter(key(first))))
        assert quorum.run(5000, lambda: quorum.leader_of_voters() not in (None, first))
        successor = quorum.leader_of_voters()
        quorum.run(60_000)
        engine = quorum.nodes[first].engine
        assert (engine.role_name, engine.leader_id) == ("observer", successor)
        assert {node.engine.epoch for node in quorum.nodes.values()} == {epoch + 1}


class TestOneVoter:
    def caught_up(self) -> EngineHarness:
        bench = leader()
        bench.deliver(bench.fetch_of(4), reply=4)
        return bench

    def new(self, incarnation: int = 1) -> Voter:
        return Voter(key(4, incarnation), (Endpoint("CONTROLLER", "elsewhere", 1),))

    def test_is_added_with_the_requested_endpoints(self) -> None:
        bench = self.caught_up()
        request(bench, AddVoter(self.new()))
        assert newest_record(bench).current.by_id(4) == self.new()

    def test_node_0_can_be_added(self) -> None:
        bench = leader()
        bench.deliver(bench.fetch_of(0))
        request(bench, AddVoter(Voter(key(0), (endpoint(0),))))
        assert 0 in newest_record(bench).current.ids

    def test_ack_when_durable_waits_for_flush_only(self) -> None:
        bench = self.caught_up()
        assert request(bench, AddVoter(self.new(), ack_when_committed=False)) == []
        assert bench.flush().voter_change_results == [VoterChangeResult("asker", ErrorCode.NONE)]

    def test_is_rejected_while_it_lags(self) -> None:
        bench = leader()
        bench.deliver(bench.fetch_of(4, offset=1), reply=4)
        assert refused(bench, AddVoter(self.new())) is ErrorCode.REQUEST_TIMED_OUT

    def test_progress_of_another_directory_does_not_count(self) -> None:
        assert refused(self.caught_up(), AddVoter(self.new(incarnation=2))) is ErrorCode.REQUEST_TIMED_OUT

    @pytest.mark.parametrize("incarnation", [1, 2])
    def test_duplicate_voter_id_is_rejected(self, incarnation: int) -> None:
        voter = Voter(key(2, incarnation), (endpoint(2),))
        assert refused(leader(), AddVoter(voter)) is ErrorCode.DUPLICATE_VOTER

    @pytest.mark.parametrize(
        "voter",
        [
            Voter(key(4), ()),
            Voter(ReplicaKey(4, ZERO_UUID), (endpoint(4),)),
            Voter(ReplicaKey(-1, directory(4)), (endpoint(4),)),
        ],
        ids=str,
    )
    def test_addition_must_name_id_directory_and_endpoints(self, voter: Voter) -> None:
        assert refused(self.caught_up(), AddVoter(voter)) is ErrorCode.INVALID_REQUEST

    def test_rejected_while_another_change_is_uncommitted(self) -> None:
        bench = self.caught_up()
        request(bench, RemoveVoter(key(3)))
        assert refused(bench, AddVoter(self.new())) is ErrorCode.REQUEST_TIMED_OUT

    def test_rejected_during_a_reassignment(self) -> None:
        bench = self.caught_up()
        request(bench, SetTargetVoters((1, 2, 5)))
        commit(bench, 2)
        assert refused(bench, AddVoter(self.new())) is ErrorCode.REQUEST_TIMED_OUT
        assert refused(bench, RemoveVoter(key(3))) is ErrorCode.REQUEST_TIMED_OUT

    @pytest.mark.parametrize("wrong", [key(4), key(2, 2), ReplicaKey(2)], ids=str)
    def test_non_voter_cannot_be_removed(self, wrong: ReplicaKey) -> None:
        assert refused(leader(), RemoveVoter(wrong)) is ErrorCode.VOTER_NOT_FOUND

    def test_is_not_removed_while_remaining_voters_are_dead(self) -> None:
        bench = leader()
        bench.now += bench.settings.fetch_timeout_ms - 1
        bench.deliver(bench.fetch_of(3, wait=0))
        bench.now += 2
        assert refused(bench, RemoveVoter(key(3))) is ErrorCode.REQUEST_TIMED_OUT
        assert request(bench, RemoveVoter(key(2))) == []

    def test_last_voter_cannot_be_removed(self) -> None:
        bench = EngineHarness(voters=voter_set(1))
        bench.fire_timer()
        bench.flush()
        assert bench.engine.high_watermark > 0
        assert refused(bench, RemoveVoter(ME)) is ErrorCode.VOTER_NOT_FOUND


class TestEndpoints:
    MOVED = Endpoint("CONTROLLER", "elsewhere", 9)

    def test_are_updated_without_changing_the_voters(self) -> None:
        bench = leader()
        request(bench, UpdateVoter(Voter(key(2), (self.MOVED,)), bench.engine.epoch))
        voter = newest_record(bench).current.by_id(2)
        assert voter == Voter(key(2), (self.MOVED,))

    def test_unchanged_endpoints_write_no_record(self) -> None:
        bench = leader()
        change = UpdateVoter(Voter(key(2), (endpoint(2),)), bench.engine.epoch)
        assert refused(bench, change) is ErrorCode.NONE

    @pytest.mark.parametrize(
        ("difference", "error"),
        [(-1, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
    )
    def test_update_of_another_epoch_is_rejected(self, difference: int, error: ErrorCode) -> None:
        bench = leader()
        change = UpdateVoter(Voter(key(2), (self.MOVED,)), bench.engine.epoch + difference)
        assert refused(bench, change) is error

    def test_update_of_another_directory_is_rejected(self) -> None:
        bench = leader()
        change = UpdateVoter(Voter(key(2, 2), (self.MOVED,)), bench.engine.epoch)
        assert refused(bench, change) is ErrorCode.VOTER_NOT_FOUND

    def test_update_without_an_endpoint_is_rejected(self) -> None:
        bench = leader()
        change = UpdateVoter(Voter(key(2), ()), bench.engine.epoch)
        assert refused(bench, change) is ErrorCode.INVALID_REQUEST

    def test_rediscovered_endpoints_are_recorded_by_the_leader(self) -> None:
        bench = leader()
        bench.step(PeerDiscovered(key(2), self.MOVED))
        assert newest_record(bench).current.by_id(2) == Voter(key(2), (self.MOVED,))

    def test_rediscovered_endpoints_of_another_directory_are_not_recorded(self) -> None:
        bench = leader()
        bench.step(PeerDiscovered(key(2, 2), self.MOVED))
        assert newest_record(bench).current.by_id(2) == Voter(key(2), (endpoint(2),))


class TestWholeQuorum:
    """Reassignments on a quorum of engines while the leader crashes."""

    def reassign(self, quorum: Quorum, *target: int) -> None:
        done: list[VoterChangeResult] = []

        def finished() -> bool:
            up = quorum.leader_of_voters()
            if up is None:
                return False
            voters = quorum.nodes[up].engine.voters
            if voters.target is None and voters.current.ids == target:
                return quorum.nodes[up].committed > quorum.nodes[up].engine._replica.voters.latest_offset
            if voters.target != target:
                quorum.step(up, VoterChangeRequested(done.append, SetTargetVoters(target)))
            return False

        assert quorum.run(120_000, finished), f"{target} not reached: {quorum}"

    @pytest.mark.parametrize("seed", range(6))
    def test_three_voters_are_replaced_by_three_others(self, seed: int) -> None:
        quorum = Quorum(voters=3, observers=3, seed=seed)
        quorum.start()
        quorum.run_to_leader()
        self.reassign(quorum, 4, 5, 6)
        leader_id = quorum.leader_of_voters()
        assert leader_id in (4, 5, 6)
        for removed in (1, 2, 3):
            quorum.crash(removed)
        assert leader_id is not None
        end = quorum.propose(leader_id)
        quorum.run_to_commit(end, 4, 5, 6)

    @pytest.mark.parametrize("seed", range(6))
    def test_reassignment_continues_after_leader_crashes(self, seed: int) -> None:
        quorum = Quorum(voters=3, observers=3, seed=seed)
        quorum.start()
        first = quorum.run_to_leader()
        quorum.step(first, VoterChangeRequested(lambda response: None, SetTargetVoters((4, 5, 6))))
        quorum.run(20)
        for _ in range(3):
            quorum.run(400)
            leading = quorum.leader_of_voters()
            if leading is not None:
                quorum.crash(leading)
                quorum.run(3000)
                quorum.start(leading)
        self.reassign(quorum, 4, 5, 6)

    def test_node_with_an_empty_disk_is_a_new_replica(self) -> None:
        quorum = Quorum(voters=3, observers=0, seed=1)
        quorum.start()
        leader_id = quorum.run_to_leader()
        lost = 1 if leader_id != 1 else 2
        quorum.wipe(lost)
        quorum.start(lost)
        quorum.run(3000)
        engine = quorum.nodes[leader_id].engine
        described = engine.describe(quorum.now)
        assert [observer.key for observer in described.observers] == [key(lost, 2)]
        assert engine.voters.current.by_id(lost) is not None
        assert not quorum.nodes[lost].engine.is_voter
        responses: list[VoterChangeResult] = []
        quorum.step(leader_id, VoterChangeRequested(responses.append, RemoveVoter(key(lost))))
        quorum.run(2000)
        quorum.step(
            leader_id,
            VoterChangeRequested(responses.append, AddVoter(Voter(key(lost, 2), (endpoint(lost),)))),
        )
        quorum.run(2000)
        assert [response.error for response in responses] == [ErrorCode.NONE, ErrorCode.NONE]
        voter = engine.voters.current.by_id(lost)
        assert voter is not None
        assert voter.key.directory_id == directory(lost, 2)
        assert quorum.nodes[lost].engine.is_voter
