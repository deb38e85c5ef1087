"""(saved state, log) -> the role of a restarted replica and the state it saves."""

from __future__ import annotations

import pytest

from quorumd.ids import NO_NODE
from quorumd.raft.messages import EndEpochRequest, FetchRequest
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from tests.support.raft.quorum import key
from tests.support.raft.single_engine import EngineHarness


@pytest.mark.parametrize(
    ("epochs", "saved", "role", "save"),
    [
        ((), QuorumState(), Role.UNATTACHED, None),
        ((1,), QuorumState(1), Role.UNATTACHED, None),
        ((1,), QuorumState(4, 2), Role.FOLLOWER, None),
        ((1,), QuorumState(4, 2, key(2)), Role.FOLLOWER, None),
        ((1,), QuorumState(4, NO_NODE, key(1)), Role.UNATTACHED, None),
        ((1,), QuorumState(4, NO_NODE, key(3)), Role.UNATTACHED, None),
        ((1,), QuorumState(4, 1, key(1)), Role.RESIGNED, None),
        ((1, 6), QuorumState(4, 1, key(1)), Role.UNATTACHED, QuorumState(6)),
        ((1, 6), QuorumState(4, 2), Role.UNATTACHED, QuorumState(6)),
    ],
)
def test_start(epochs: tuple[int, ...], saved: QuorumState, role: Role, save: QuorumState | None) -> None:
    bench = EngineHarness(epochs, saved)
    assert bench.engine.role is role
    assert (bench.saves or [None]) == [save]
    assert bench.engine.voted == (save or saved).voted


def test_follower_fetches_from_the_leader_it_knew() -> None:
    bench = EngineHarness((1,), QuorumState(4, 2))
    assert list(bench.requests(FetchRequest)) == [2]


def test_restarted_leader_sends_end_quorum_epoch() -> None:
    bench = EngineHarness((1,), QuorumState(4, 1, key(1)))
    assert {peer: (r.leader_id, r.epoch) for peer, r in bench.requests(EndEpochRequest).items()} == {
        2: (1, 4),
        3: (1, 4),
    }


def test_role_names_of_the_metric() -> None:
    assert EngineHarness((1,), QuorumState(4, NO_NODE, key(3))).engine.role_name == "voted"
    assert EngineHarness((1,), QuorumState(4)).engine.role_name == "unattached"
    assert EngineHarness((1,), QuorumState(4, 2)).engine.role_name == "follower"
    assert EngineHarness((1,), QuorumState(4, 2), me=key(1, incarnation=2)).engine.role_name == "observer"


@pytest.mark.parametrize("saved", [QuorumState(), QuorumState(4, 1, key(1)), QuorumState(4)])
def test_sole_voter_campaigns_immediately(saved: QuorumState) -> None:
    bench = EngineHarness((), saved, founders=(1,))
    began = bench.now
    while not bench.engine.is_leader:
        bench.fire_timer()
    assert bench.now == began
