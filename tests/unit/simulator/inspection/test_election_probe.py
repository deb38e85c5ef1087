from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quorumd.ids import ReplicaKey
from quorumd.raft.roles import Role
from quorumd.raft.voters import Voter, VoterSet
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.inspection.election_probe import ElectionProbe

VOTERS = VoterSet(tuple(Voter(ReplicaKey(node_id), ()) for node_id in (1, 2, 3)))
FETCH_TIMEOUT_MS = 1000


class ProbedCluster:
    """Machines with scripted engines: node 1 leads epoch 4, and nodes 2 and 3 follow it."""

    def __init__(self) -> None:
        self.heap = SimpleNamespace(now_ms=0.0)
        self.machines: dict[int, Any] = {node_id: self._machine(node_id) for node_id in (1, 2, 3)}
        self.probe = ElectionProbe(self)  # type: ignore[arg-type]  # has what the probe reads
        for node_id, role in ((1, Role.LEADER), (2, Role.FOLLOWER), (3, Role.FOLLOWER)):
            self.become(node_id, role, 4, 1)

    def _machine(self, node_id: int) -> Any:
        settings = SimpleNamespace(raft=SimpleNamespace(fetch_timeout_ms=FETCH_TIMEOUT_MS))
        engine = SimpleNamespace(voters=SimpleNamespace(current=VOTERS))
        return SimpleNamespace(
            node_id=node_id,
            incarnation=1,
            starting=False,
            node=SimpleNamespace(engine=engine, settings=settings),
            process=SimpleNamespace(callback_ms=0.0, busy_until_ms=0.0),
            time=SimpleNamespace(offset_ms=0.0, rate=1.0),
        )

    def become(self, node_id: int, role: Role, epoch: int, leader_id: int, contact_ms: float = 0.0) -> None:
        engine = self.machines[node_id].node.engine
        engine.role, engine.epoch, engine.leader_id = role, epoch, leader_id
        engine.is_leader, engine.contact_ms = role is Role.LEADER, lambda now_ms: contact_ms
        self.probe.look(self.machines[node_id])

    def campaign(self) -> None:
        """Node 3 gives its leader up and wins a ballot of pre-votes 100 ms later."""
        self.become(3, Role.PROSPECTIVE, 4, -1, FETCH_TIMEOUT_MS)
        self.heap.now_ms += 100.0
        self.become(3, Role.CANDIDATE, 5, -1, FETCH_TIMEOUT_MS)


@pytest.fixture
def cluster() -> ProbedCluster:
    return ProbedCluster()


def test_challenge_of_a_followed_leader_is_a_violation(cluster: ProbedCluster) -> None:
    with pytest.raises(InvariantViolation, match=r"node 3 campaigns in epoch 5.*\[1, 2\] lead epoch 4"):
        cluster.campaign()


def test_follower_without_contact_may_grant_a_pre_vote(cluster: ProbedCluster) -> None:
    cluster.become(2, Role.FOLLOWER, 4, 1, FETCH_TIMEOUT_MS)
    cluster.campaign()


def test_contact_that_came_back_during_the_ballot_does_not_count(cluster: ProbedCluster) -> None:
    cluster.become(2, Role.FOLLOWER, 4, 1, FETCH_TIMEOUT_MS)
    cluster.become(3, Role.PROSPECTIVE, 4, -1, FETCH_TIMEOUT_MS)
    cluster.heap.now_ms = 50.0
    cluster.become(2, Role.FOLLOWER, 4, 1)
    cluster.become(3, Role.CANDIDATE, 5, -1, FETCH_TIMEOUT_MS)


def test_paused_follower_may_grant_a_pre_vote(cluster: ProbedCluster) -> None:
    cluster.machines[2].process.busy_until_ms = 60.0
    cluster.campaign()


def test_resigned_leader_may_be_succeeded(cluster: ProbedCluster) -> None:
    cluster.become(1, Role.RESIGNED, 4, -1, FETCH_TIMEOUT_MS)
    cluster.become(2, Role.PROSPECTIVE, 4, -1, FETCH_TIMEOUT_MS)
    cluster.campaign()
