"""A node that stood still does not take that for the silence of others; one that replays does not campaign."""

from __future__ import annotations

from math import inf

from quorumd.raft.events import ReplayBegan, ReplayEnded, StoodStill
from quorumd.raft.messages import VoteRequest
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from quorumd.raft.settings import RaftSettings
from tests.support.raft_quorum import Batch, voter_set
from tests.support.raft_single import Single

TIMEOUT = RaftSettings().fetch_timeout_ms


def follower() -> Single:
    return Single((1, 1, 3), QuorumState(5)).to_follower(2)


def test_a_follower_that_stood_still_gives_its_leader_that_time() -> None:
    bench = follower()
    bench.wait(TIMEOUT - 1)
    bench.now += 700
    bench.step(StoodStill(700.0))
    bench.wait(0)
    assert bench.engine.role is Role.FOLLOWER
    bench.wait(10)
    assert bench.engine.role is Role.PROSPECTIVE


def test_a_follower_that_is_always_busy_finds_out_that_its_leader_is_gone() -> None:
    bench = follower()
    waited = 0
    while bench.engine.role is Role.FOLLOWER:
        bench.now += 500
        bench.step(StoodStill(500.0))
        bench.wait(0)
        waited += 500
    assert TIMEOUT < waited <= 2 * TIMEOUT + 500


def test_what_was_forgiven_counts_anew_once_the_leader_is_heard() -> None:
    bench = follower()
    for _ in range(2):
        bench.step(StoodStill(2.0 * TIMEOUT))
        bench.wait(2 * TIMEOUT - 1)
        assert bench.engine.role is Role.FOLLOWER
        bench.answer(2, bench.records(Batch(bench.log.end_offset, bench.log.end_offset + 1, 5, b"a")))


def test_a_leader_that_stood_still_hears_its_followers_before_it_resigns() -> None:
    bench = Single((1,)).to_leader()
    bench.now += 2 * TIMEOUT
    bench.step(StoodStill(float(TIMEOUT)))
    bench.wait(0)
    assert bench.engine.is_leader
    bench.wait(TIMEOUT)
    assert not bench.engine.is_leader


def test_who_replays_votes_and_does_not_campaign() -> None:
    bench = Single()
    bench.step(ReplayBegan())
    for _ in range(5):
        bench.fire()
        assert bench.engine.role is Role.UNATTACHED
    assert bench.requests(VoteRequest) == {}
    bench.step(ReplayEnded())
    assert bench.engine.deadline <= bench.now
    bench.fire()
    assert bench.engine.role is Role.PROSPECTIVE


def test_a_sole_voter_leads_as_soon_as_it_has_replayed() -> None:
    bench = Single((1,), voters=voter_set(1))
    bench.step(ReplayBegan())
    bench.fire()
    assert bench.engine.role is Role.UNATTACHED
    bench.step(ReplayEnded())
    assert bench.engine.deadline < inf
    bench.fire()
    assert bench.engine.is_leader
