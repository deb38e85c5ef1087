"""The listeners for clients of the broker: router, bound addresses and accepted connections.

A process with both roles has separate listeners for clients and for the quorum. In a process that is only a broker,
the same listeners serve both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from quorumd.broker.api.group_rights import GROUP_RULES
from quorumd.broker.api.rights import TOPIC_RULES, Rule, metadata_without_creation
from quorumd.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from quorumd.node.api.authorization import RequestAuthorization
from quorumd.node.api.cluster import ClusterApis
from quorumd.node.api.configs import ConfigApis
from quorumd.node.api.context import ApiContext
from quorumd.node.api.controller import ControllerApis
from quorumd.node.api.describe_node import NodeApis
from quorumd.node.api.quorum import QuorumApis
from quorumd.node.api.rights import checked_by_handler, unrestricted
from quorumd.node.api.sasl import SaslApis
from quorumd.node.api.security import SecurityApis
from quorumd.node.api.topics import TopicApis
from quorumd.node.api.voters import VoterApis
from quorumd.node.broker.large_requests import handled_in_parts
from quorumd.node.broker_settings import BrokerRoleSettings
from quorumd.node.listeners import BoundListeners
from quorumd.node.sessions.connections import IncomingConnections, RejectedConnection
from quorumd.node.sessions.context import SessionContext
from quorumd.node.sessions.delegating_session import DelegatingSession
from quorumd.node.sessions.router import RequestRouter
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.ports import Connection
from quorumd.protocol.apis import FORWARDABLE, ApiKey, request_class
from quorumd.protocol.connection import Request
from quorumd.protocol.endpoint_type import EndpointType
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.routes import Handler, Route, Session
from quorumd.protocol.wire import Message
from quorumd.security.authorizer import Access

PUBLIC_APIS: Final = FORWARDABLE | {
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.DESCRIBE_NODE,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
"""The APIs of a node that clients of a broker use. Requests that only the leader can handle are forwarded to it."""
FIRST_TOPICS: Final = 1000
"""Topics of a Metadata request among which the metadata log is found."""
BROKER_RULES: Final = {
    **TOPIC_RULES,
    **GROUP_RULES,
    ApiKey.LIST_GROUPS: checked_by_handler,
    ApiKey.LIST_TRANSACTIONS: checked_by_handler,
}
"""The ACL operations that the broker's APIs require, except for Fetch, which checks the partitions of its session."""
_FAMILIES: Final = (
    QuorumApis,
    VoterApis,
    ClusterApis,
    TopicApis,
    ConfigApis,
    ControllerApis,
    SecurityApis,
    NodeApis,
    SaslApis,
)


def _names_metadata_log(message: Message) -> bool:
    """Whether a Metadata request names the metadata log among its first topics, to find the leader of the quorum."""
    assert isinstance(message, MetadataRequest)
    topics = (message.topics or [])[:FIRST_TOPICS]
    return any(each.name == METADATA_TOPIC or each.topic_id == METADATA_TOPIC_ID for each in topics)


def _describes_controllers(message: Message) -> bool:
    assert isinstance(message, DescribeClusterRequest)
    return message.endpoint_type == EndpointType.CONTROLLER


_CONCERNS_QUORUM: Final[dict[int, Callable[[Message], bool]]] = {
    ApiKey.METADATA: _names_metadata_log,
    ApiKey.DESCRIBE_CLUSTER: _describes_controllers,
}


class ClientListeners:
    """Accepts connections while `is_open`: before the broker serves clients, they would get the APIs and metadata of
    the node.

    The addresses are bound earlier, so that an invalid address is reported at the start.
    """

    def __init__(
        self,
        settings: BrokerRoleSettings,
        context: SessionContext,
        quorum_router: RequestRouter,
        quorum_connections: IncomingConnections,
        listeners: BoundListeners,
    ) -> None:
        self.is_open = False
        self.router = quorum_router
        self.quotas = context.quotas
        self._authorization: RequestAuthorization | None = None
        self.settings = settings
        self._max_partitions_per_part = context.node.settings.max_partitions_per_part
        self._listeners = listeners
        self._connections = quorum_connections
        if not self.uses_quorum_listeners:
            self.router = RequestRouter()
            self._connections = IncomingConnections(self.router, context)

    @property
    def uses_quorum_listeners(self) -> bool:
        """Whether the listeners of the quorum serve clients too."""
        return not self.settings.listen

    def accept(self, listener: str) -> Connection:
        """Create the session of a connection that is being accepted by the listener with this name."""
        return self._connections.accept(listener) if self.is_open else RejectedConnection()

    def bind(self) -> None:
        """Bind the listeners for clients, unless the listeners of the node serve clients."""
        for each in self.settings.listen:
            self._listeners.bind(each, self.accept)

    def bound_port(self, listener: str) -> int:
        """The port of the listener with this name."""
        return self._listeners.port(listener)

    def add_public_apis(self, context: ApiContext) -> None:
        """Serve the APIs that every node has. APIs of the broker are added later and take precedence."""
        self._authorization = context.gates.authorization
        self._connections.serves = context.gates.authorization.serves
        if not self.uses_quorum_listeners:
            routes = public_routes(replace(context, gates=replace(context.gates, router=self.router)))
            self.router.add(context.gates.authorization.guard(routes))

    def add_broker_apis(self, routes: Iterable[Route], scheduler: SliceScheduler) -> None:
        """Serve the APIs of the broker, large requests in parts; requests about the quorum itself stay with the
        node."""
        assert self._authorization is not None
        rules: dict[int, Rule] = {**BROKER_RULES, ApiKey.FETCH: unrestricted}
        if not self.settings.template.auto_create_topics:
            rules[ApiKey.METADATA] = metadata_without_creation
        self.router.add(
            Route(
                request_class(route.api_key), self._keep_quorum_requests(route, scheduler), route.min_version
            )
            for route in self._authorization.guard(routes, rules)
        )

    def check_configs(self, is_checked: Callable[[Message], bool]) -> None:
        """Mark the requests to alter configs for which `is_checked(message)` returns true as checked by a broker."""
        for key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
            handler = self.router.handler(key)
            assert handler is not None
            self.router.add([Route(request_class(key), _marking(handler, is_checked))])

    def access(self, session: Session, api_key: int) -> Access | None:
        """See `RequestAuthorization.access`."""
        assert self._authorization is not None
        return self._authorization.access(session, api_key)

    def _keep_quorum_requests(self, route: Route, scheduler: SliceScheduler) -> Handler[Message]:
        node_handler = self.router.handler(route.api_key)
        broker_handler = handled_in_parts(route, scheduler, self._max_partitions_per_part)
        concerns_quorum = _CONCERNS_QUORUM.get(route.api_key)
        if node_handler is None or concerns_quorum is None:
            return broker_handler

        def handle(session: Session, request: Request[Message]) -> None:
            (node_handler if concerns_quorum(request.message) else broker_handler)(session, request)

        return handle

    def close(self) -> None:
        """Close all connections of clients."""
        self.is_open = False
        self._connections.close()


def _marking(handler: Handler[Message], is_checked: Callable[[Message], bool]) -> Handler[Message]:
    """Return a handler that marks the requests that this broker has checked."""

    def handle(session: Session, request: Request[Message]) -> None:
        if is_checked(request.message):
            session = DelegatingSession(session, replace(session.origin, comes_from_broker=True))
        handler(session, request)

    return handle


def public_routes(context: ApiContext) -> Iterable[Route]:
    """Yield the routes of a node that clients of brokers use."""
    for family in _FAMILIES:
        for route in family(context).routes():
            if route.api_key in PUBLIC_APIS:
                yield route
