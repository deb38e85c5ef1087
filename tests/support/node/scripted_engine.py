"""The Raft engine as the other parts of a node read it."""

from __future__ import annotations

from dataclasses import dataclass, field

from quorumd.ids import ReplicaKey
from quorumd.raft.events import RequestReceived
from quorumd.raft.messages import BeginEpochRequest
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet


def voters_of(*ids: int) -> VoterAssignment:
    """Voters without directory ids and endpoints."""
    return VoterAssignment(VoterSet(tuple(Voter(ReplicaKey(node_id), ()) for node_id in ids)))


@dataclass
class ScriptedEngine:
    """The state of an engine that a test sets: node 1 leads voters 1 to 3, whose addresses are in no voter record.

    `needs_leader`: whether the node is to look for a leader."""

    leader_id: int = 1
    epoch: int = 4
    is_leader: bool = True
    is_voter: bool = True
    role_name: str = "leader"
    high_watermark: int = 9
    leader_high_watermark: int = 9
    voters: VoterAssignment = field(default_factory=lambda: voters_of(1, 2, 3))
    voters_offset: int = 0
    founders: VoterSet = field(default_factory=VoterSet)
    log_is_empty: bool = False
    is_blank: bool = False
    contact_limit_ms: int = 2000
    handover_complete: bool = False
    needs_leader: bool = False

    def contact_ms(self, now: float) -> float:
        """The last contact is never in the past."""
        del now
        return 0.0

    def should_probe_leader(self, now: float) -> bool:
        del now
        return self.needs_leader

    def accepts_leader(self, event: RequestReceived, now: float) -> bool:
        del now
        assert isinstance(event.request, BeginEpochRequest)
        return event.request.epoch >= self.epoch
