from __future__ import annotations

from math import inf
from random import Random

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE
from quorumd.raft.events import FoundingPermitted, LeaderReported
from quorumd.raft.messages import FetchRequest
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from quorumd.raft.voters import VoterSet
from tests.support.raft.quorum import key, voter_set
from tests.support.raft.single_engine import EngineHarness, fetch_error, vote


def test_fetches_from_any_peer_to_find_leader() -> None:
    bench = EngineHarness((1,), QuorumState(3), me=key(9))
    bench.fire_timer()
    assert list(bench.requests(FetchRequest)) == [1]
    assert bench.requests(FetchRequest)[1].max_wait_ms == 0
    bench.respond(1, fetch_error(ErrorCode.FENCED_LEADER_EPOCH, 3, 6))
    assert (bench.engine.role, bench.engine.leader_id, bench.engine.epoch) == (Role.FOLLOWER, 3, 6)


def test_fetches_from_the_leader_itself() -> None:
    bench = EngineHarness((1,), QuorumState(3))
    bench.fire_timer()
    bench.respond(2, fetch_error(ErrorCode.NONE, 2, 3))
    assert (bench.engine.role, bench.engine.leader_id) == (Role.FOLLOWER, 2)


def test_retries_with_backoff() -> None:
    bench = EngineHarness((1,), QuorumState(3), me=key(9))
    pauses = []
    for failed in (False, True, False):
        while not bench.requests(FetchRequest):
            bench.fire_timer()
        (peer,) = bench.requests(FetchRequest)
        if failed:
            bench.fail(peer)
        else:
            bench.respond(peer, fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_NODE, 3))
        pauses.append(bench.engine.deadline - bench.now)
    assert pauses == [16, 32, 64]


def test_alternates_between_voters_and_any_peer() -> None:
    """With many observers and few voters, random choice alone would rarely find a voter."""
    request = []
    for seed in range(40):
        bench = EngineHarness((1,), QuorumState(3), me=key(9), randrange=Random(seed).randrange)
        for observer in range(20, 40):
            bench.discover(key(observer))
        for _ in range(4):
            while not bench.requests(FetchRequest):
                bench.fire_timer()
            (peer,) = bench.requests(FetchRequest)
            request.append(peer)
            bench.fail(peer)
    assert set(request[::2]) == {1, 2, 3}
    assert len(set(request[1::2])) > 15


def test_without_peers_it_waits_for_discovery() -> None:
    bench = EngineHarness((), me=key(9), founders=())
    bench.fire_timer()
    assert bench.requests(FetchRequest) == {}
    bench.discover(key(9))
    bench.fire_timer()
    assert bench.requests(FetchRequest) == {}
    bench.discover(key(5))
    bench.fire_timer()
    assert list(bench.requests(FetchRequest)) == [5]


def test_reported_leader_of_a_newer_epoch_is_followed() -> None:
    bench = EngineHarness((1,), QuorumState(3))
    bench.step(LeaderReported(2, 2))
    assert bench.engine.role is Role.UNATTACHED
    bench.step(LeaderReported(2, 3))
    assert (bench.engine.leader_id, bench.engine.epoch) == (2, 3)
    assert bench.step(LeaderReported(3, 3)).fatal is None
    assert bench.engine.leader_id == 2
    bench.step(LeaderReported(3, 4))
    assert (bench.engine.leader_id, bench.engine.epoch) == (3, 4)


def test_own_id_reported_as_leader_raises_the_epoch() -> None:
    bench = EngineHarness((1,), QuorumState(3))
    bench.step(LeaderReported(1, 9))
    assert (bench.engine.role, bench.engine.epoch, bench.engine.leader_id) == (Role.UNATTACHED, 9, NO_NODE)


def test_only_the_known_leader_of_the_epoch_is_followed_again() -> None:
    bench = EngineHarness((1,), QuorumState(3, 2), me=key(9))
    bench.now += 5000
    bench.fire_timer()
    assert bench.engine.role is Role.UNATTACHED
    bench.step(LeaderReported(3, 3))
    assert bench.engine.role is Role.UNATTACHED
    bench.step(LeaderReported(2, 3))
    assert bench.engine.leader_id == 2


class TestFirstElection:
    def test_blank_replica_never_campaigns(self) -> None:
        bench = EngineHarness((), founders=())
        bench.discover(key(2), key(3))
        for _ in range(20):
            bench.fire_timer()
            for peer in list(bench.open):
                bench.fail(peer)
        assert bench.engine.role is Role.UNATTACHED
        assert bench.engine.role_name == "observer"

    def test_permitted_founder_campaigns_immediately(self) -> None:
        bench = EngineHarness((), randrange=lambda bound: bound - 1, founders=())
        assert bench.engine._replica.state.election_deadline == bench.now + 1999
        bench.step(FoundingPermitted(voter_set(1, 2, 3)))
        assert bench.engine._replica.state.election_deadline == bench.now + 249

    def test_replica_with_records_ignores_founding_permission(self) -> None:
        bench = EngineHarness((1,), voters=voter_set(2, 3))
        bench.step(FoundingPermitted(voter_set(1)))
        assert bench.engine.founders == VoterSet()
        assert not bench.engine.is_voter

    def test_blank_replica_ignores_epochs_without_a_leader(self) -> None:
        """An epoch implies an existing quorum and would keep this replica from founding one."""
        bench = EngineHarness((), founders=())
        bench.discover(key(2))
        bench.fire_timer()
        bench.respond(2, fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_NODE, 5))
        assert bench.engine.is_blank

    def test_blank_replica_refuses_and_reports_a_candidate_without_records(self) -> None:
        bench = EngineHarness((), founders=())
        response = bench.deliver(vote(1, (0, 0)))
        assert not response.granted
        assert bench.engine.is_blank
        refused = bench.effects.refused
        assert refused is not None
        assert (refused.kind, refused.sender, refused.epoch) == ("vote", 2, 1)


def test_resigned_leader_campaigns_without_a_successor() -> None:
    bench = EngineHarness().to_resigned()
    epoch = bench.engine.epoch
    bench.fire_timer()
    assert (bench.engine.role, bench.engine.epoch) == (Role.UNATTACHED, epoch + 1)
    assert bench.state == QuorumState(epoch + 1)
    bench.to_prospective()


def test_unattached_voter_has_a_deadline() -> None:
    assert EngineHarness().engine.deadline < inf
    assert EngineHarness().engine.should_probe_leader(0.0)
