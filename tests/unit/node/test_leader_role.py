from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from quorumd.ids import ReplicaKey
from quorumd.node.leader_role import LeaderRole
from quorumd.raft.engine import RaftEngine
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet


def voters(*ids: int) -> VoterAssignment:
    return VoterAssignment(VoterSet(tuple(Voter(ReplicaKey(node_id), ()) for node_id in ids)))


@dataclass
class Engine:
    is_leader: bool = True
    voters: VoterAssignment = field(default_factory=lambda: voters(1, 2))


def test_leader_is_active_controller_once_its_image_is_complete() -> None:
    role = LeaderRole(cast(RaftEngine, Engine()), 1)
    assert (role.is_leader, role.is_active_controller) == (True, False)
    role.is_image_complete = True
    assert role.is_active_controller


def test_follower_removed_leader_and_leader_that_hands_over_are_not_leaders() -> None:
    for engine, is_handing_over in (
        (Engine(is_leader=False), False),
        (Engine(voters=voters(2, 3)), False),
        (Engine(), True),
    ):
        role = LeaderRole(cast(RaftEngine, engine), 1)
        role.is_image_complete, role.is_handing_over = True, is_handing_over
        assert not role.is_leader
        assert not role.is_active_controller
