"""Where clients of a listener reach other nodes."""

from __future__ import annotations

import pytest

from quorumd.ids import Endpoint, KafkaUuid, ReplicaKey
from quorumd.node.api.endpoints import NodeEndpoints
from quorumd.protocol.messages.register_controller_record import ControllerEndpoint, RegisterControllerRecord
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from tests.support.node.api_harness import ApiHarness
from tests.support.node.scripted_discovery import LISTENER
from tests.support.node.scripted_engine import ScriptedEngine

CLIENTS = "CLIENTS"
RECORDED = Endpoint(CLIENTS, "recorded", 9094)
USUAL = {node_id: Endpoint(LISTENER, f"host-{node_id}", 9092) for node_id in (1, 2, 3, 4)}


def endpoints(registers: bool = False) -> NodeEndpoints:
    """Node 1 has a listener for clients in the voter record, node 2 has none, and node 4 has no vote."""
    voters = VoterSet((Voter(ReplicaKey(1), (USUAL[1], RECORDED)), Voter(ReplicaKey(2), (USUAL[2],))))
    harness = ApiHarness(engine=ScriptedEngine(voters=VoterAssignment(voters)))
    if registers:
        listener = ControllerEndpoint(CLIENTS, "registered", 9095)
        incarnation = KafkaUuid(b"some incarnation")
        for node_id in (1, 4):
            harness.image.apply(RegisterControllerRecord(node_id, incarnation, False, [listener]), [])
    return NodeEndpoints(harness.context)


def test_voter_is_reached_at_its_recorded_listener_of_that_name() -> None:
    assert endpoints().endpoint_of(1, CLIENTS) == RECORDED
    assert endpoints().endpoint_of(1, LISTENER) == USUAL[1]


@pytest.mark.parametrize("node_id", [2, 4])
def test_node_without_such_a_listener_is_reached_at_its_usual_one(node_id: int) -> None:
    assert endpoints().endpoint_of(node_id, CLIENTS) == USUAL[node_id]


@pytest.mark.parametrize("node_id", [1, 4])
def test_registered_listener_takes_precedence(node_id: int) -> None:
    assert endpoints(registers=True).endpoint_of(node_id, CLIENTS) == Endpoint(CLIENTS, "registered", 9095)
