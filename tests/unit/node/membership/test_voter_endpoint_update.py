from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint, KafkaUuid, ReplicaKey
from quorumd.node.membership.voter_endpoint_update import VoterEndpointUpdate
from quorumd.node.peers.connection import Call, Failure
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages.update_raft_voter_response import UpdateRaftVoterResponse
from quorumd.raft.effects import VoterChangeResult
from quorumd.raft.events import Event, UpdateVoter, VoterChangeRequested
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from tests.support.node.parts import CLUSTER_ID, NodeParts

OWN = ReplicaKey(1, KafkaUuid(bytes(15) + b"\x41"))
OLD, NEW = Endpoint("CONTROLLER", "host", 9092), Endpoint("CONTROLLER", "host", 9192)
OTHER = Endpoint("BROKER", "host", 9093)


class Engine:
    """The part of RaftEngine that the update reads."""

    epoch = 7
    is_leader = False

    def __init__(self, key: ReplicaKey = OWN, *endpoints: Endpoint) -> None:
        self.voters = VoterAssignment(VoterSet((Voter(key, endpoints or (OLD,)),)))


class EndpointHarness(NodeParts):
    """The endpoint update of replica OWN; records the calls to the leader while there is one."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.steps: list[Event] = []
        self.has_leader = True
        self.own_voter = VoterEndpointUpdate(
            self.basics, self.quorum(engine, own=OWN, step=self.steps.append), self._call_leader
        )

    def _call_leader(self, call: Call) -> bool:
        if self.has_leader:
            self.calls.append(call)
        return self.has_leader


def test_voter_sends_all_its_listeners_to_the_leader() -> None:
    """One has moved, one is new, and one of the record is gone."""
    harness = EndpointHarness(Engine(OWN, OLD, OTHER._replace(name="GONE")))
    harness.own_voter.update((OTHER, NEW))
    (call,) = harness.calls
    assert call.api_key == ApiKey.UPDATE_RAFT_VOTER
    message: Any = call.build(0)
    message = decode(type(message), 0, encode(message, 0))
    assert (message.cluster_id, message.current_leader_epoch) == (CLUSTER_ID, 7)
    assert (message.voter_id, message.voter_directory_id) == OWN
    assert [(e.name, e.host, e.port) for e in message.listeners] == [OTHER, NEW]
    versions = message.kraft_version_feature
    assert (versions.min_supported_version, versions.max_supported_version) == (0, 1)


@pytest.mark.parametrize(
    "engine",
    [Engine(OWN, NEW), Engine(ReplicaKey(2, OWN.directory_id)), Engine(ReplicaKey(1)), Engine(OWN, OTHER)],
    ids=["recorded", "no voter", "another replica", "a listener that is not in the record"],
)
def test_no_update_is_sent_if_the_record_is_right_or_missing(engine: Engine) -> None:
    harness = EndpointHarness(engine)
    harness.own_voter.update((NEW,))
    assert harness.calls == []


def test_update_is_sent_one_at_a_time_until_the_record_changes() -> None:
    harness = EndpointHarness(Engine())
    harness.own_voter.update((NEW,))
    harness.own_voter.update((NEW,))
    assert len(harness.calls) == 1
    harness.calls[0].on_response(UpdateRaftVoterResponse(0, int(ErrorCode.REQUEST_TIMED_OUT)))
    harness.own_voter.update((NEW,))
    harness.calls[1].on_failure(Failure("connection lost"))
    harness.own_voter.update((NEW,))
    assert len(harness.calls) == 3


def test_update_waits_for_a_leader() -> None:
    harness = EndpointHarness(Engine())
    harness.has_leader = False
    harness.own_voter.update((NEW,))
    harness.has_leader = True
    harness.own_voter.update((NEW,))
    assert len(harness.calls) == 1


def test_leader_appends_its_own_listeners_one_change_at_a_time() -> None:
    """No other node would do it, and brokers that know only its other listener could not find it."""
    engine = Engine(OWN, NEW)
    engine.is_leader = True
    harness = EndpointHarness(engine)
    harness.own_voter.update((NEW, OTHER))
    harness.own_voter.update((NEW, OTHER))
    (event,) = harness.steps
    assert isinstance(event, VoterChangeRequested)
    assert event.change == UpdateVoter(Voter(OWN, (NEW, OTHER)), 7)
    event.token(VoterChangeResult(event.token, ErrorCode.REQUEST_TIMED_OUT))
    harness.own_voter.update((NEW, OTHER))
    assert len(harness.steps) == 2
    assert harness.calls == []
