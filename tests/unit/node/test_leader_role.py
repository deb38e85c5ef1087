from __future__ import annotations

from typing import cast

from quorumd.node.leader_role import LeaderRole
from quorumd.raft.engine import RaftEngine
from tests.support.node.scripted_engine import ScriptedEngine, voters_of


def test_leader_is_active_controller_once_its_image_is_complete() -> None:
    role = LeaderRole(cast(RaftEngine, ScriptedEngine()), 1)
    assert (role.is_leader, role.is_active_controller) == (True, False)
    role.is_image_complete = True
    assert role.is_active_controller


def test_follower_removed_leader_and_leader_that_hands_over_are_not_leaders() -> None:
    for engine, is_handing_over in (
        (ScriptedEngine(is_leader=False), False),
        (ScriptedEngine(voters=voters_of(2, 3)), False),
        (ScriptedEngine(), True),
    ):
        role = LeaderRole(cast(RaftEngine, engine), 1)
        role.is_image_complete, role.is_handing_over = True, is_handing_over
        assert not role.is_leader
        assert not role.is_active_controller
