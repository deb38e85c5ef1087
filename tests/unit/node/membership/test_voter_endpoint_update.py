from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint, ReplicaKey
from quorumd.node.membership.voter_endpoint_update import VoterEndpointUpdate
from quorumd.node.peers.connection import Failure
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages.update_raft_voter_response import UpdateRaftVoterResponse
from quorumd.raft.effects import VoterChangeResult
from quorumd.raft.events import UpdateVoter, VoterChangeRequested
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from tests.support.node.parts import CLUSTER_ID, OWN, NodeParts
from tests.support.node.scripted_engine import ScriptedEngine

OLD, NEW = Endpoint("CONTROLLER", "host", 9092), Endpoint("CONTROLLER", "host", 9192)
OTHER = Endpoint("BROKER", "host", 9093)


def recorded(key: ReplicaKey = OWN, *endpoints: Endpoint) -> VoterAssignment:
    """A voter record with one voter, at OLD unless `endpoints` are given."""
    return VoterAssignment(VoterSet((Voter(key, endpoints or (OLD,)),)))


class EndpointHarness(NodeParts):
    """The endpoint update of replica OWN, whose epoch is 7."""

    def __init__(self, voters: VoterAssignment, *, is_leader: bool = False) -> None:
        super().__init__()
        self.engine = ScriptedEngine(epoch=7, is_leader=is_leader, voters=voters)
        self.own_voter = VoterEndpointUpdate(self.basics, self.quorum(), self.call_leader)


def test_voter_sends_all_its_listeners_to_the_leader() -> None:
    """One has moved, one is new, and one of the record is gone."""
    harness = EndpointHarness(recorded(OWN, OLD, OTHER._replace(name="GONE")))
    harness.own_voter.update((OTHER, NEW))
    (call,) = harness.leader_calls
    assert call.api_key == ApiKey.UPDATE_RAFT_VOTER
    message: Any = call.build(0)
    message = decode(type(message), 0, encode(message, 0))
    assert (message.cluster_id, message.current_leader_epoch) == (CLUSTER_ID, 7)
    assert (message.voter_id, message.voter_directory_id) == OWN
    assert [(e.name, e.host, e.port) for e in message.listeners] == [OTHER, NEW]
    versions = message.kraft_version_feature
    assert (versions.min_supported_version, versions.max_supported_version) == (0, 1)


@pytest.mark.parametrize(
    "voters",
    [
        recorded(OWN, NEW),
        recorded(ReplicaKey(2, OWN.directory_id)),
        recorded(ReplicaKey(1)),
        recorded(OWN, OTHER),
    ],
    ids=["recorded", "no voter", "another replica", "a listener that is not in the record"],
)
def test_no_update_is_sent_if_the_record_is_right_or_missing(voters: VoterAssignment) -> None:
    harness = EndpointHarness(voters)
    harness.own_voter.update((NEW,))
    assert harness.leader_calls == []


def test_update_is_sent_one_at_a_time_until_the_record_changes() -> None:
    harness = EndpointHarness(recorded())
    harness.own_voter.update((NEW,))
    harness.own_voter.update((NEW,))
    assert len(harness.leader_calls) == 1
    harness.leader_calls[0].on_response(UpdateRaftVoterResponse(0, int(ErrorCode.REQUEST_TIMED_OUT)))
    harness.own_voter.update((NEW,))
    harness.leader_calls[1].on_failure(Failure("connection lost"))
    harness.own_voter.update((NEW,))
    assert len(harness.leader_calls) == 3


def test_update_waits_for_a_leader() -> None:
    harness = EndpointHarness(recorded())
    harness.has_leader = False
    harness.own_voter.update((NEW,))
    harness.has_leader = True
    harness.own_voter.update((NEW,))
    assert len(harness.leader_calls) == 1


def test_leader_appends_its_own_listeners_one_change_at_a_time() -> None:
    """No other node would do it, and brokers that know only its other listener could not find it."""
    harness = EndpointHarness(recorded(OWN, NEW), is_leader=True)
    harness.own_voter.update((NEW, OTHER))
    harness.own_voter.update((NEW, OTHER))
    (event,) = harness.events
    assert isinstance(event, VoterChangeRequested)
    assert event.change == UpdateVoter(Voter(OWN, (NEW, OTHER)), 7)
    event.token(VoterChangeResult(event.token, ErrorCode.REQUEST_TIMED_OUT))
    harness.own_voter.update((NEW, OTHER))
    assert len(harness.events) == 2
    assert harness.leader_calls == []
