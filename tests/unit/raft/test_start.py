"""(saved state, log) -> the role a replica comes back in, and what it saves."""

from __future__ import annotations

import pytest

from quorumd.ids import NO_NODE
from quorumd.raft.messages import EndRequest, FetchRequest
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from tests.support.raft_quorum import key
from tests.support.raft_single import Single


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
    bench = Single(epochs, saved)
    assert bench.engine.role is role
    assert (bench.saves or [None]) == [save]
    assert bench.engine.voted == (save or saved).voted


def test_a_follower_fetches_from_the_leader_it_knew() -> None:
    bench = Single((1,), QuorumState(4, 2))
    assert list(bench.requests(FetchRequest)) == [2]


def test_a_leader_that_comes_back_says_that_its_epoch_is_over() -> None:
    bench = Single((1,), QuorumState(4, 1, key(1)))
    assert {peer: (r.leader_id, r.epoch) for peer, r in bench.requests(EndRequest).items()} == {
        2: (1, 4),
        3: (1, 4),
    }


def test_the_role_names_of_the_metric() -> None:
    assert Single((1,), QuorumState(4, NO_NODE, key(3))).engine.role_name == "voted"
    assert Single((1,), QuorumState(4)).engine.role_name == "unattached"
    assert Single((1,), QuorumState(4, 2)).engine.role_name == "follower"
    assert Single((1,), QuorumState(4, 2), me=key(1, life=2)).engine.role_name == "observer"


@pytest.mark.parametrize("saved", [QuorumState(), QuorumState(4, 1, key(1)), QuorumState(4)])
def test_a_sole_voter_does_not_wait(saved: QuorumState) -> None:
    bench = Single((), saved, founders=(1,))
    began = bench.now
    while not bench.engine.is_leader:
        bench.fire()
    assert bench.now == began
