"""The discovery of one node, with recorded calls and events."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from random import Random
from types import SimpleNamespace
from typing import Any

from quorumd.ids import NO_NODE, ZERO_UUID, KafkaUuid, ReplicaKey
from quorumd.node.identity.founding import Founding
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.connection import Call, Failure
from quorumd.node.peers.discovery import (
    STABLE_INTERVAL_MS,
    Discovery,
)
from quorumd.node.settings import NodeSettings
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.discover_brokers_request import DiscoverBrokersRequest
from quorumd.protocol.messages.discover_brokers_response import Broker, DiscoverBrokersResponse
from quorumd.protocol.routes import Origin
from quorumd.raft.events import Event
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from quorumd.simulator.environment.entropy import SimulatedEntropy
from tests.support.node.parts import OWN, NodeParts

OURS, THEIRS = "o" * 22, "t" * 22
DIRECTORY = OWN.directory_id
OWN_ADDRESS = Address("me", 9092, 77, DIRECTORY)


class DiscoveryHarness(NodeParts):
    """Node 1 of voters 1 to 3, which knows the address of node 2 and one bootstrap server. `leader_id`: the leader
    that it knows at its start."""

    def __init__(self, cluster_id: str | None = OURS, leader_id: int = NO_NODE) -> None:
        super().__init__(cluster_id)
        self.calls: list[tuple[str, int, Call]] = []
        self.events: list[Event] = []
        self.needs_leader = False
        self.engine: Any = SimpleNamespace(
            should_probe_leader=lambda now: self.needs_leader,
            voters=voters_of(1, 2, 3),
            founders=VoterSet(),
            log_is_empty=False,
            leader_id=leader_id,
            epoch=1,
            is_voter=False,
        )
        self.discovery = Discovery(
            self.basics,
            self.quorum(self.engine, step=self.events.append),
            Founding(OWN, self.settings, self.engine, self.identity, None),
            SimulatedEntropy(Random(1)),
            lambda host, port, call: self.calls.append((host, port, call)),
        )
        self.discovery.announce_to(leader_id)
        self.discovery.start(OWN_ADDRESS)

    @cached_property
    def settings(self) -> NodeSettings:
        return replace(
            NodeParts().settings, bootstrap_servers=(("seed", 1),), voter_addresses=((2, "two", 9092),)
        )

    def queried(self, api_key: int) -> list[tuple[str, int]]:
        return [(host, port) for host, port, call in self.calls if call.api_key == api_key]

    def respond(self, api_key: int, response: Any) -> None:
        """Respond to the last call of an API."""
        *_, call = [call for _, _, call in self.calls if call.api_key == api_key]
        call.on_response(response)

    def respond_with(self, *brokers: Broker, cluster_id: str = "") -> None:
        self.respond(ApiKey.DISCOVER_BROKERS, DiscoverBrokersResponse(0, cluster_id, list(brokers)))

    def announce(self, message: DiscoverBrokersRequest) -> list[tuple[int, int, str, int]]:
        """Handle a node's announcement, and return the addresses in the response."""
        session = RecordingSession()
        self.discovery.discover_brokers(session, request_of(message))
        return [(b.voter_id, b.boot_timestamp, b.host, b.port) for b in session.messages[0].brokers]

    def fail(self) -> None:
        """Let the last call fail."""
        self.calls[-1][2].on_failure(Failure("no response in time"))

    def settle(self) -> None:
        self.respond_with(Broker(3, 5, "three", 9092, ZERO_UUID))
        self.time.pass_ms(STABLE_INTERVAL_MS * 2)
        self.calls.clear()
        self.events.clear()


def voters_of(*ids: int) -> VoterAssignment:
    return VoterAssignment(VoterSet(tuple(Voter(ReplicaKey(node_id), ()) for node_id in ids)))


def report_of(
    node_id: int, directory_id: KafkaUuid = DIRECTORY, cluster_id: str = OURS
) -> DiscoverBrokersResponse:
    """The response of a node."""
    response = DiscoverBrokersResponse(0, cluster_id, [])
    response.replica_id, response.replica_directory_id = node_id, directory_id
    return response


class RecordingSession:
    """A session that records its responses."""

    def __init__(self) -> None:
        self.origin = Origin("test:1", "192.0.2.7", 0)
        self.messages: list[Any] = []

    def respond(self, request: Request, message: Any) -> None:
        self.messages.append(message)

    def respond_encoded(self, request: Request, response: bytes) -> None:
        self.messages.append(response)


def request_of(message: DiscoverBrokersRequest) -> Request:
    return Request(ApiKey.DISCOVER_BROKERS, 0, 1, None, message, b"", 0)
