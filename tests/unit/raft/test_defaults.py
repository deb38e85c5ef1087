"""A stalled node does not count the stall against its peers, and a replaying node does not campaign."""

from __future__ import annotations

from math import inf

from quorumd.raft.events import ReplayCompleted, ReplayStarted, StallDetected
from quorumd.raft.messages import VoteRequest
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from quorumd.raft.settings import RaftSettings
from tests.support.raft.quorum import Batch, voter_set
from tests.support.raft.single_engine import EngineHarness

TIMEOUT = RaftSettings().fetch_timeout_ms


def follower() -> EngineHarness:
    return EngineHarness((1, 1, 3), QuorumState(5)).to_follower(2)


def test_stalled_follower_extends_leader_timeout() -> None:
    bench = follower()
    bench.wait(TIMEOUT - 1)
    bench.now += 700
    bench.step(StallDetected(700.0))
    bench.wait(0)
    assert bench.engine.role is Role.FOLLOWER
    bench.wait(10)
    assert bench.engine.role is Role.PROSPECTIVE


def test_busy_follower_detects_dead_leader() -> None:
    bench = follower()
    waited = 0
    while bench.engine.role is Role.FOLLOWER:
        bench.now += 500
        bench.step(StallDetected(500.0))
        bench.wait(0)
        waited += 500
    assert TIMEOUT < waited <= 2 * TIMEOUT + 500


def test_stall_grace_resets_once_leader_responds() -> None:
    bench = follower()
    for _ in range(2):
        bench.step(StallDetected(2.0 * TIMEOUT))
        bench.wait(2 * TIMEOUT - 1)
        assert bench.engine.role is Role.FOLLOWER
        bench.respond(2, bench.records(Batch(bench.log.end_offset, bench.log.end_offset + 1, 5, b"a")))


def test_stalled_leader_waits_for_fetches_before_it_resigns() -> None:
    bench = EngineHarness((1,)).to_leader()
    bench.now += 2 * TIMEOUT
    bench.step(StallDetected(float(TIMEOUT)))
    bench.wait(0)
    assert bench.engine.is_leader
    bench.wait(TIMEOUT)
    assert not bench.engine.is_leader


def test_replaying_replica_votes_but_does_not_campaign() -> None:
    bench = EngineHarness()
    bench.step(ReplayStarted())
    for _ in range(5):
        bench.fire_timer()
        assert bench.engine.role is Role.UNATTACHED
    assert bench.requests(VoteRequest) == {}
    bench.step(ReplayCompleted())
    assert bench.engine.deadline <= bench.now
    bench.fire_timer()
    assert bench.engine.role is Role.PROSPECTIVE


def test_sole_voter_leads_as_soon_as_it_has_replayed() -> None:
    bench = EngineHarness((1,), voters=voter_set(1))
    bench.step(ReplayStarted())
    bench.fire_timer()
    assert bench.engine.role is Role.UNATTACHED
    bench.step(ReplayCompleted())
    assert bench.engine.deadline < inf
    bench.fire_timer()
    assert bench.engine.is_leader


def test_stalled_candidate_extends_its_election() -> None:
    bench = EngineHarness((1,)).to_candidate()
    deadline = bench.engine.deadline
    bench.step(StallDetected(40.0))
    assert bench.engine.deadline == deadline + 40.0
