"""Every cell of the transition matrix, including forbidden transitions."""

from __future__ import annotations

from itertools import product
from math import inf

import pytest

from quorumd.ids import NO_NODE
from quorumd.raft.messages import FetchRequest
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.replica import InvariantViolation, Replica
from quorumd.raft.roles import (
    Ballot,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    RoleState,
    Unattached,
)
from quorumd.raft.settings import RaftSettings
from quorumd.raft.voters import VoterHistory
from tests.support.raft.quorum import MemoryLog, key

STATES: dict[Role, RoleState] = {
    Role.UNATTACHED: Unattached(5.0, inf),
    Role.PROSPECTIVE: Prospective(5.0, Ballot([1])),
    Role.CANDIDATE: Candidate(5.0, Ballot([1])),
    Role.LEADER: Leader(0, True, {}, 5.0, 5.0),
    Role.FOLLOWER: Follower(2, 5.0, inf),
    Role.RESIGNED: Resigned(5.0),
}

U, P, C, L, F, R = Role

SAME = {(U, U), (U, P), (U, F), (P, U), (P, F), (C, L), (C, P), (C, F), (L, R), (F, P), (F, U)}
HIGHER = {(role, target) for role in Role for target in (U, F)} | {(P, C)}


def replica(role: Role, saved: QuorumState) -> Replica:
    made = Replica(RaftSettings(), key(1), saved, MemoryLog(), VoterHistory(), lambda bound: 0)
    made.state = STATES[role]
    return made


@pytest.mark.parametrize(("before", "after"), list(product(Role, Role)))
def test_within_an_epoch(before: Role, after: Role) -> None:
    saved = QuorumState(4)
    made = replica(before, saved)
    if (before, after) in SAME:
        made.transition_to(STATES[after], saved)
        assert made.state.role is after
        assert made.effects.save is None
    else:
        with pytest.raises(InvariantViolation, match=f"{before.value} .*{after.value}"):
            made.transition_to(STATES[after], saved)


@pytest.mark.parametrize(("before", "after"), list(product(Role, Role)))
def test_to_a_higher_epoch(before: Role, after: Role) -> None:
    made = replica(before, QuorumState(4, 2, key(3)))
    made.downgraded = True
    if (before, after) in HIGHER:
        made.transition_to(STATES[after], QuorumState(5))
        assert made.effects.save == QuorumState(5, NO_NODE, None)
        assert not made.downgraded
    else:
        with pytest.raises(InvariantViolation):
            made.transition_to(STATES[after], QuorumState(5))


@pytest.mark.parametrize(("before", "after"), list(product(Role, Role)))
def test_never_to_a_lower_epoch(before: Role, after: Role) -> None:
    with pytest.raises(InvariantViolation):
        replica(before, QuorumState(4)).transition_to(STATES[after], QuorumState(3))


def test_vote_cannot_change_within_its_epoch() -> None:
    with pytest.raises(InvariantViolation, match=r"vote in epoch 4\b"):
        replica(U, QuorumState(4, voted=key(2))).transition_to(STATES[U], QuorumState(4, voted=key(3)))


def test_deadlines_ignore_requests_in_flight() -> None:
    fetch = FetchRequest(key(1), 1, 0, 0, 0, 0)
    assert Unattached(9.0, 3.0).deadline == 3.0
    assert Unattached(9.0, 3.0, fetch).deadline == 9.0
    assert Follower(2, 9.0, 3.0).deadline == 3.0
    assert Follower(2, 9.0, 3.0, fetch).deadline == 9.0
    assert Prospective(9.0, Ballot([1], retry_at={2: 4.0})).deadline == 4.0
    assert Candidate(9.0, Ballot([1], retry_at={2: 4.0})).deadline == 4.0
    assert Candidate(9.0, Ballot([1], retry_at={2: 4.0}), backing_off=True).deadline == 9.0
    assert Leader(0, True, {}, 7.0, 5.0, next_delay_expiry=6.0).deadline == 5.0
    assert Resigned(8.0).deadline == 8.0
