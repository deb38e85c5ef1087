"""Clients of simulated brokers, whose requests and responses are encoded and decoded as on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode
from quorumd.node.api.forwarding import decode_response
from quorumd.protocol.apis import api, response_class
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from quorumd.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorumd.protocol.routes import Route
from quorumd.protocol.wire import Message
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.log.data_batches import produced
from tests.support.node.recording_session import RecordingSession


def cluster_with_groups(
    broker_ids: tuple[int, ...] = (1,), replicas: int = 1, **settings: Any
) -> SimulatedBrokers:
    """Start brokers that can coordinate groups."""
    groups = GroupSettings(
        initial_rebalance_delay_ms=0,
        topic_partitions=3,
        topic_replication_factor=replicas,
        load_buffer_bytes=1000,
    )
    cluster = SimulatedBrokers(broker_ids, groups=groups, **settings)
    cluster.start()
    return cluster


class Client:
    """A connection to one broker, which keeps the decoded responses."""

    def __init__(self, cluster: SimulatedBrokers, broker_id: int = 1, client_id: str = "test") -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.client_id = client_id
        self.session: RecordingSession = _WireSession(peer="127.0.0.1:1234")
        self._routes: Iterable[Route] | None = None

    def use(self, routes: Iterable[Route]) -> None:
        """Send further requests to these handlers instead of the broker's own."""
        self._routes = routes

    @property
    def responses(self) -> list[Any]:
        return self.session.responses

    def send(self, message: Message, version: int | None = None) -> None:
        """Send a request, in its newest version if none is given."""
        assert message.API_KEY is not None
        version = api(message.API_KEY).max_version if version is None else version
        decoded = self.cluster.through_the_wire(message, version)
        request: Request[Message] = Request(
            message.API_KEY, version, 7, self.client_id, decoded, b"the received frame", 0
        )
        routes = self.cluster.routes(self.broker_id) if self._routes is None else self._routes
        next(route.handler for route in routes if route.api_key == message.API_KEY)(self.session, request)

    def call(self, message: Message, version: int | None = None) -> Any:
        """Send a request and wait for its response."""
        received = len(self.responses)
        self.send(message, version)
        self.cluster.run_until(lambda: len(self.responses) > received)
        return self.responses[received]

    def find_coordinator(self, key: str, key_type: int = 0) -> int:
        """Wait for the coordinator of a key, and use that broker from now on."""

        def is_found() -> bool:
            response = self.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]))
            coordinator = response.coordinators[0]
            if coordinator.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                return False
            assert coordinator.error_code == ErrorCode.NONE, coordinator
            self.broker_id = coordinator.node_id
            return True

        self.cluster.run_until(is_found)
        return self.broker_id

    def produce(
        self,
        records: bytes | None = None,
        *,
        topic: str = "events",
        number: int = 0,
        acks: int = -1,
        version: int = 12,
        timeout_ms: int = 1000,
    ) -> Any:
        """Produce one batch; return the partition's result."""
        response = self.call(
            produce_request(records, topic=topic, number=number, acks=acks, timeout_ms=timeout_ms), version
        )
        return response.responses[0].partition_responses[0]

    def append_verified(self, records: bytes, topic: str = "events") -> None:
        """Append a batch of a transaction that no coordinator knows, as if it were verified."""
        hosted = self.cluster.hosted(self.broker_id, topic)
        assert hosted is not None
        partitions = self.cluster.brokers[self.broker_id].broker.partitions
        partitions.append(hosted, records, 1, 1_000, lambda appended: None)


def produce_request(
    records: bytes | None = None,
    *,
    topic: str = "events",
    number: int = 0,
    acks: int = -1,
    timeout_ms: int = 1000,
) -> ProduceRequest:
    """Build a request with one batch."""
    data = PartitionProduceData(number, produced() if records is None else records)
    return ProduceRequest(None, acks, timeout_ms, [TopicProduceData(topic, partition_data=[data])])


class _WireSession(RecordingSession):
    """Keeps responses as a client decodes them."""

    def respond(self, request: Request, message: Message) -> None:
        version = request.api_version
        self.responses.append(decode(response_class(request.api_key), version, encode(message, version)))

    def respond_encoded(self, request: Request, response: bytes) -> None:
        self.responses.append(decode_response(request, response))
