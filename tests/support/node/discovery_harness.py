"""The discovery of one node, with recorded calls and events."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from random import Random
from typing import Any

from quorumd.ids import NO_NODE, ZERO_UUID, KafkaUuid
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.connection import Failure
from quorumd.node.peers.discovery import (
    STABLE_INTERVAL_MS,
    Discovery,
)
from quorumd.node.settings import NodeSettings
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.discover_brokers_request import DiscoverBrokersRequest
from quorumd.protocol.messages.discover_brokers_response import Broker, DiscoverBrokersResponse
from quorumd.simulator.environment.entropy import SimulatedEntropy
from tests.support.node.parts import CLUSTER_ID, OWN, NodeParts
from tests.support.node.recording_connections import RecordingConnections
from tests.support.node.recording_session import RecordingSession, request_of
from tests.support.node.scripted_engine import ScriptedEngine

DIRECTORY = OWN.directory_id
OWN_ADDRESS = Address("me", 9092, 77, DIRECTORY)


class DiscoveryHarness(NodeParts):
    """Node 1 of voters 1 to 3, which knows the address of node 2 and one bootstrap server, and at its start the
    leader `leader_id`."""

    def __init__(
        self,
        cluster_id: str | None = CLUSTER_ID,
        leader_id: int = NO_NODE,
        own_address: Address = OWN_ADDRESS,
    ) -> None:
        super().__init__(cluster_id)
        self.connections = RecordingConnections()
        self.calls = self.connections.calls
        self.engine = ScriptedEngine(leader_id=leader_id, epoch=1, is_voter=False)
        self.discovery = Discovery(
            self.basics,
            self.quorum(),
            self.founding(),
            SimulatedEntropy(Random(1)),
            self.connections.call,
        )
        self.discovery.announce_to(leader_id)
        self.discovery.start(own_address)

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
        self.discovery.discover_brokers(session, request_of(message, 0))
        return [(b.voter_id, b.boot_timestamp, b.host, b.port) for b in session.responses[0].brokers]

    def fail(self) -> None:
        """Let the last call fail."""
        self.calls[-1][2].on_failure(Failure("no response in time"))

    def settle(self) -> None:
        self.respond_with(Broker(3, 5, "three", 9092, ZERO_UUID))
        self.time.pass_ms(STABLE_INTERVAL_MS * 2)
        self.calls.clear()
        self.events.clear()


def report_of(
    node_id: int, directory_id: KafkaUuid = DIRECTORY, cluster_id: str = CLUSTER_ID
) -> DiscoverBrokersResponse:
    """Build the response of a node to DiscoverBrokers."""
    response = DiscoverBrokersResponse(0, cluster_id, [])
    response.replica_id, response.replica_directory_id = node_id, directory_id
    return response
