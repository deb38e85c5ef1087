"""The faults of `test_raft_invariants` during voter changes.

Targets are set, replaced and cancelled, voters added and removed one at a time, at leaders and at others. In
addition every request gets one response, and any target is reached after the faults.
"""

from __future__ import annotations

from functools import partial

import pytest

from quorumd.raft.effects import VoterChangeResult
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import AddVoter, RemoveVoter, SetTargetVoters, VoterChange, VoterChangeRequested
from quorumd.raft.voters import Voter
from tests.property.test_raft_invariants import RaftInvariants
from tests.support.raft.quorum import endpoint, key


class VoterChangeInvariants(RaftInvariants):
    def __init__(self, seed: int, voters: int, observers: int) -> None:
        super().__init__(seed, voters, observers)
        self.open: list[tuple[int, RaftEngine]] = []

    def propose(self) -> None:
        super().propose()
        change = self.random_change()
        for node_id, node in self.quorum.nodes.items():
            if node.up and self.random.random() < 0.6:
                self.request_change(node_id, change)

    def random_change(self) -> VoterChange:
        ids = list(self.quorum.nodes)
        target = tuple(self.random.sample(ids, self.random.randint(1, min(5, len(ids)))))
        one = self.random.choice(ids)
        added = Voter(key(one), (endpoint(one),))
        at_once = self.random.random() < 0.5
        return self.random.choice(
            [
                *[SetTargetVoters(target)] * 3,
                SetTargetVoters(None),
                AddVoter(added, ack_when_committed=not at_once),
                RemoveVoter(key(one)),
            ]
        )

    def request_change(self, node_id: int, change: VoterChange) -> None:
        request = (node_id, self.quorum.nodes[node_id].engine)
        self.open.append(request)
        self.quorum.step(node_id, VoterChangeRequested(partial(self.record_response, request), change))

    def record_response(self, request: tuple[int, RaftEngine], response: VoterChangeResult) -> None:
        self.open.remove(request)

    def stabilize(self) -> None:
        self.restart_all()
        target = tuple(sorted(self.random.sample(list(self.quorum.nodes), 3)))
        assert self.quorum.run(120_000, partial(self.votes, target)), f"{target} not reached: {self.quorum}"
        super().stabilize()
        leader = self.quorum.leader_of_voters()
        assert leader in target
        assert self.quorum.nodes[leader].engine.voters.current.ids == target
        lives = [(n, engine) for n, engine in self.open if self.quorum.nodes[n].engine is engine]
        assert not lives, "voter change requests without a response"

    def votes(self, target: tuple[int, ...]) -> bool:
        """Whether the committed voters are exactly `target`; requests the change if not."""
        leader = self.quorum.leader_of_voters()
        if leader is None:
            return False
        engine = self.quorum.nodes[leader].engine
        if engine.voters.target is None and engine.voters.current.ids == target:
            return engine.voters_before(engine.high_watermark) == engine.voters
        if engine.voters.target != target:
            self.request_change(leader, SetTargetVoters(target))
        return False


@pytest.mark.parametrize(("voters", "observers"), [(1, 3), (2, 2), (3, 3)])
@pytest.mark.parametrize("seed", [6, 8, 11, 13, 14, 17])
def test_any_target_is_reached_after_faults(voters: int, observers: int, seed: int) -> None:
    """Seeds that find: a removed leader that counts itself or votes for itself, one that must campaign and does
    not, two changes at once, a voter set that outlives its record."""
    chaos = VoterChangeInvariants(seed, voters, observers)
    chaos.run(60)
    chaos.stabilize()
