"""FindCoordinator: the broker that coordinates a group or a transactional id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from quorumd.broker.coordinator.internal_topics import InternalTopic, InternalTopics
from quorumd.controller.broker import BrokerEndpoint
from quorumd.errors import ErrorCode
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from quorumd.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from quorumd.protocol.routes import Route, Session

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
BATCHES_SINCE_VERSION: Final = 4
NO_BROKER: Final = -1


class FindCoordinatorApis:
    """Handles FindCoordinator.

    `topics` are the internal topics by key type. `endpoint(session, broker id)` returns the endpoint of a broker for
    the client of a session, None if there is none now.
    """

    def __init__(
        self,
        internal_topics: InternalTopics,
        topics: Mapping[int, InternalTopic],
        endpoint: Callable[[Session, int], BrokerEndpoint | None],
    ) -> None:
        self._internal_topics = internal_topics
        self._topics = topics
        self._endpoint = endpoint

    def routes(self) -> Iterable[Route]:
        """Return the routes of these APIs."""
        return (Route(FindCoordinatorRequest, self.find_coordinator),)

    def find_coordinator(self, session: Session, request: Request[FindCoordinatorRequest]) -> None:
        """Respond with the leaders of the partitions that coordinate the keys."""
        message = request.message
        if request.api_version >= BATCHES_SINCE_VERSION:
            found = [self._find(session, message.key_type, key) for key in message.coordinator_keys]
            session.respond(request, FindCoordinatorResponse(coordinators=found))
            return
        one = self._find(session, message.key_type, message.key)
        session.respond(
            request,
            FindCoordinatorResponse(
                error_code=one.error_code,
                error_message=one.error_message,
                node_id=one.node_id,
                host=one.host,
                port=one.port,
            ),
        )

    def _find(self, session: Session, key_type: int, key: str) -> Coordinator:
        topic = self._topics.get(key_type)
        if topic is None:
            return _failed(key, ErrorCode.INVALID_REQUEST, f"key type {key_type} is not supported")
        if not key and key_type == TRANSACTION_KEY:
            return _failed(key, ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        leader = self._internal_topics.leader_of(topic, key)
        endpoint = None if leader is None else self._endpoint(session, leader)
        if leader is None or endpoint is None:
            return _failed(
                key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition of {topic.name} has no leader yet"
            )
        return Coordinator(key, leader, endpoint.host, endpoint.port, 0, None)


def _failed(key: str, error: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key, NO_BROKER, "", NO_BROKER, error, text)
