"""Removed servers, which only the Raft thesis covers (4.2.2 and 4.2.3).

A replica whose log has its removal is still needed until that is committed: it may have the newest log. A replica
that never received its removal must not disturb the quorum.
"""

from __future__ import annotations

import pytest

from quorumd.errors import ErrorCode
from quorumd.raft.effects import ControlBatch
from quorumd.raft.events import RemoveVoter, VoterChangeRequested
from quorumd.raft.messages import VoteRequest
from quorumd.raft.roles import Role
from quorumd.raft.voters import VoterAssignment
from tests.support.raft.quorum import Batch, Quorum, key, voter_set
from tests.support.raft.single_engine import EngineHarness, granted

ALL = voter_set(1, 2, 3)


class TestUncommittedRemoval:
    def removed_with_the_only_record(self, voters: int, dead: int = 0) -> tuple[Quorum, int]:
        """A leader appends its own removal and crashes before any other replica has it."""
        quorum = Quorum(voters, seed=3)
        quorum.start()
        leaving = quorum.run_to_leader()
        quorum.run(1000)
        quorum.isolate(leaving)
        quorum.step(leaving, VoterChangeRequested(lambda response: None, RemoveVoter(key(leaving))))
        assert not quorum.nodes[leaving].engine.is_voter
        quorum.crash(leaving)
        for node_id in sorted(set(quorum.nodes) - {leaving})[:dead]:
            quorum.crash(node_id)
        quorum.heal()
        quorum.start(leaving)
        return quorum, leaving

    @pytest.mark.parametrize(("voters", "dead"), [(2, 0), (3, 0), (4, 0), (4, 1)])
    def test_quorum_elects_a_leader(self, voters: int, dead: int) -> None:
        """Four voters of which one is dead: figure 4.6."""
        quorum, _ = self.removed_with_the_only_record(voters, dead)
        assert quorum.run(60_000, lambda: quorum.leader_of_voters() is not None)

    def test_removed_leader_leads_until_the_removal_is_committed(self) -> None:
        quorum, leaving = self.removed_with_the_only_record(2)
        (stays,) = set(quorum.nodes) - {leaving}

        def stays_alone() -> bool:
            engine = quorum.nodes[stays].engine
            return engine.is_leader and engine.high_watermark > 0 and engine.voters.current.ids == (stays,)

        assert quorum.run(60_000, stays_alone)
        assert not quorum.nodes[leaving].engine.is_leader

    def test_removed_candidate_does_not_count_its_own_vote(self) -> None:
        bench = EngineHarness((1, 1), voters=ALL).to_follower(2)
        bench.respond(2, bench.records(Batch(2, 3, 1, ControlBatch((VoterAssignment(voter_set(2, 3)),)))))
        assert bench.to_candidate().requests(VoteRequest).keys() == {2, 3}
        bench.respond(2, granted(2))
        assert bench.engine.role is Role.CANDIDATE
        bench.respond(3, granted(2))
        assert bench.engine.role is Role.LEADER

    def test_replica_does_not_campaign_after_committed_removal(self) -> None:
        bench = EngineHarness((1, 1), voters=ALL).to_follower(2)
        removal = Batch(2, 3, 1, ControlBatch((VoterAssignment(voter_set(2, 3)),)))
        bench.respond(2, bench.records(removal, high_watermark=3))
        for _ in range(20):
            bench.fire_timer()
        assert not any(isinstance(request, VoteRequest) for _, request in bench.sent)

    def test_later_changes_prove_that_it_was_committed(self) -> None:
        bench = EngineHarness((1, 1), voters=ALL).to_follower(2)
        sets = VoterAssignment(voter_set(2, 3)), VoterAssignment(voter_set(2, 3, 4))
        bench.respond(
            2, bench.records(*(Batch(2 + n, 3 + n, 1, ControlBatch((s,))) for n, s in enumerate(sets)))
        )
        for _ in range(20):
            bench.fire_timer()
        assert not any(isinstance(request, VoteRequest) for _, request in bench.sent)

    def test_leader_claim_alone_does_not_prevent_campaigning(self) -> None:
        """Hole 10: the local log decides. It may have lost the record that the leader reported."""
        bench = EngineHarness((1, 1), voters=ALL).to_follower(2)
        response = bench.records()
        response.error = ErrorCode.NOT_FOLLOWER
        bench.respond(2, response)
        assert bench.engine.role_name == "observer"
        for _ in range(20):
            bench.fire_timer()
        assert {peer for peer, request in bench.sent if isinstance(request, VoteRequest)} == {2, 3}

    def test_removed_node_unaware_of_removal_is_not_disruptive(self) -> None:
        quorum = Quorum(3, seed=3)
        quorum.start()
        leading = quorum.run_to_leader()
        quorum.run(1000)
        removed = max(set(quorum.nodes) - {leading})
        quorum.cut(leading, removed)
        quorum.step(leading, VoterChangeRequested(lambda response: None, RemoveVoter(key(removed))))
        epoch, since = quorum.nodes[leading].engine.epoch, quorum.now
        quorum.run(20_000)
        assert quorum.nodes[removed].engine.is_voter
        sent = [request for at, source, _, request in quorum.trace if at >= since and source == removed]
        assert any(isinstance(request, VoteRequest) for request in sent)
        quorum.heal()
        quorum.run(10_000)
        assert {node.engine.epoch for node in quorum.nodes.values()} == {epoch}
        assert quorum.leader_of_voters() == leading
        assert not quorum.nodes[removed].engine.is_voter
