"""A stand-in for a part of a node has no state or method that the part lacks."""

from __future__ import annotations

from dataclasses import fields
from inspect import isfunction

import pytest

from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.peers.connections import PeerConnections
from quorumd.node.peers.discovery import Discovery
from quorumd.node.state.state_machine import StateMachine
from quorumd.raft.engine import RaftEngine
from tests.support.node.recording_connections import RecordingConnections
from tests.support.node.runner_harness import ScriptedLog, SteppedEngine
from tests.support.node.scripted_discovery import ScriptedDiscovery
from tests.support.node.scripted_engine import ScriptedEngine
from tests.support.node.scripted_image import ScriptedImage


@pytest.mark.parametrize(
    ("stand_in", "part"),
    [
        (ScriptedEngine, RaftEngine),
        (SteppedEngine, RaftEngine),
        (ScriptedDiscovery, Discovery),
        (ScriptedImage, StateMachine),
        (ScriptedLog, SegmentedLog),
        (RecordingConnections, PeerConnections),
    ],
)
def test_methods_of_a_stand_in_are_methods_of_the_part(stand_in: type, part: type) -> None:
    methods = [name for name, each in vars(stand_in).items() if isfunction(each) and name[0] != "_"]
    assert methods
    assert [name for name in methods if not hasattr(part, name)] == []


def test_state_of_the_scripted_engine_is_that_of_the_engine() -> None:
    state = {each.name for each in fields(ScriptedEngine)} - {"needs_leader"}
    assert [name for name in sorted(state) if not hasattr(RaftEngine, name)] == []
