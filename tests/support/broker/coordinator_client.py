"""A client of the coordinators of simulated brokers, whose messages go through the real codec."""

from __future__ import annotations

from typing import Any

from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode
from quorumd.protocol.apis import api, request_class, response_class
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from quorumd.protocol.routes import Session
from quorumd.protocol.wire import Message
from tests.support.broker.simulated_brokers import SimulatedBrokers
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


class CoordinatorClient:
    """Sends requests to one broker."""

    def __init__(self, cluster: SimulatedBrokers, broker_id: int = 1) -> None:
        self.cluster = cluster
        self.broker_id = broker_id

    def send(self, message: Message, version: int | None = None) -> list[Any]:
        """Send a request; the decoded response is in the list once there is one."""
        assert message.API_KEY is not None
        key = message.API_KEY
        used = api(key).max_version if version is None else version
        decoded = decode(request_class(key), used, encode(message, used))
        request = Request(key, used, 1, "client", decoded, b"", 0)
        responses: list[Any] = []
        session: Session = _Session(
            lambda reply: responses.append(decode(response_class(key), used, encode(reply, used)))
        )
        routes = {route.api_key: route for route in self.cluster.routes(self.broker_id)}
        routes[key].handler(session, request)
        return responses

    def call(self, message: Message, version: int | None = None) -> Any:
        """Send a request and wait for its response."""
        responses = self.send(message, version)
        self.cluster.run_until(lambda: bool(responses))
        assert len(responses) == 1
        return responses[0]

    def find_coordinator(self, key: str, key_type: int = 0) -> int:
        """Wait for the coordinator of a key, and use that broker from now on."""
        found: list[int] = []

        def is_found() -> bool:
            response = self.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]))
            coordinator = response.coordinators[0]
            if coordinator.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                return False
            assert coordinator.error_code == ErrorCode.NONE, coordinator
            found.append(coordinator.node_id)
            return True

        self.cluster.run_until(is_found)
        self.broker_id = found[0]
        return found[0]


class _Session(RecordingSession):
    """Calls back with every response."""

    def __init__(self, on_response: Any) -> None:
        super().__init__()
        self._on_response = on_response
        self.peer = "127.0.0.1:1234"

    def respond(self, request: Request[Message], message: Message) -> None:
        self._on_response(message)
