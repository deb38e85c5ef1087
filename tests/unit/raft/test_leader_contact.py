"""How a follower detects that its leader is alive, gone or replaced, and a leader that its voters are alive."""

from __future__ import annotations

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch
from quorumd.raft.messages import FetchRequest, VoteRequest
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from tests.support.raft.quorum import key
from tests.support.raft.single_engine import EngineHarness, accepted, begin, end, fetch_error, vote


def follower() -> EngineHarness:
    """A follower of node 2 in epoch 5, with a fetch in flight."""
    return EngineHarness((1, 1, 3), QuorumState(5)).to_follower(2)


def test_node_0_may_lead() -> None:
    bench = EngineHarness((1,), QuorumState(5))
    assert bench.deliver(begin(0, 5, bench.me)).error is not ErrorCode.INVALID_REQUEST
    assert bench.deliver(begin(-1, 5, bench.me)).error is ErrorCode.INVALID_REQUEST


def test_replica_without_a_leader_campaigns_by_rank_when_the_leader_of_its_epoch_resigns() -> None:
    bench = EngineHarness((1,), QuorumState(5))
    assert bench.engine.role is Role.UNATTACHED
    bench.deliver(end(2, 5, 3, 1))
    assert bench.engine.role is Role.FOLLOWER
    bench.deliver(end(2, 5, 1, 3))
    assert bench.engine.role is Role.PROSPECTIVE


def test_leader_that_announces_itself_again_is_not_lost() -> None:
    bench = follower()
    bench.respond(2, bench.records())
    bench.fail(2, refused=True)
    assert bench.deliver(vote(5, (9, 5), candidate=3, pre=True)).granted
    bench.deliver(begin(2, 5, bench.me))
    assert not bench.deliver(vote(5, (9, 5), candidate=3, pre=True)).granted


def test_follower_whose_leader_refuses_connections_campaigns_soon_but_not_at_once() -> None:
    bench = EngineHarness((1,), QuorumState(5), randrange=lambda bound: bound // 2).to_follower(2)
    bench.fail(2, refused=True)
    assert bench.now < bench.engine.deadline < bench.now + bench.settings.fetch_timeout_ms


def test_downgrade_lasts_as_long_as_the_epoch() -> None:
    bench = follower()
    bench.respond(2, fetch_error(ErrorCode.NOT_FOLLOWER, 2, 5))
    assert not bench.engine.is_voter
    while bench.engine.role is Role.FOLLOWER:
        bench.fire_timer()
    assert not bench.engine.is_voter
    bench.deliver(begin(3, 6, bench.me))
    assert bench.engine.is_voter


def test_response_to_end_quorum_epoch_shows_a_newer_epoch() -> None:
    bench = EngineHarness().to_resigned()
    epoch = bench.engine.epoch
    bench.respond(2, accepted(3, epoch + 1))
    assert (bench.engine.epoch, bench.engine.leader_id) == (epoch + 1, 3)


def test_fetch_of_a_diverged_voter_counts_for_check_quorum() -> None:
    bench = EngineHarness((1, 1, 3)).to_leader()
    assert bench.log.epochs == [1, 1, 3, 4]
    for _ in range(6):
        bench.wait(bench.settings.fetch_timeout_ms / 2)
        response = bench.deliver(bench.fetch_of(2, offset=3, last_epoch=2))
        assert response.diverging is not None
    assert bench.engine.role is Role.LEADER


@pytest.mark.parametrize("position", [0, 4])
def test_follower_fetches_again_while_its_snapshot_is_checked(position: int) -> None:
    bench = follower()
    bench.engine._replica.unverified_snapshot = OffsetAndEpoch(9, 3)
    bench.respond(2, bench.records(snapshot=OffsetAndEpoch(8 + position, 3)))
    assert bench.engine.deadline == bench.now + bench.settings.fetch_max_wait_ms
    bench.fire_timer()
    assert list(bench.requests(FetchRequest)) == [2]


def test_vote_requests_name_the_voters_directory() -> None:
    bench = EngineHarness().to_prospective()
    assert {peer: each.voter for peer, each in bench.requests(VoteRequest).items()} == {2: key(2), 3: key(3)}
