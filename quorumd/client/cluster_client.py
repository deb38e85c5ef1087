"""Sends requests to a cluster and follows its leader.

A request is retried with exponential backoff (KIP-580) if a connection fails, a node does not respond in time or is
not the leader, so it may be executed more than once. All attempts share one deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Literal, Self, TypeVar

from quorumd.client.connection import NodeConnection
from quorumd.client.leader_discovery import NODE_ERRORS, Address, LeaderDiscovery, NodeAddress, Retries
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import VersionRanges
from quorumd.protocol.endpoint_type import EndpointType
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message

R = TypeVar("R", bound=Message)
T = TypeVar("T")

Target = int | Literal["leader"] | None
"""A node id, the leader, or None for any node."""

DEFAULT_TIMEOUT_MS = 15_000
DEFAULT_ATTEMPT_TIMEOUT_MS = 3_000

RETRIABLE_ERRORS = NODE_ERRORS | {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT}
"""Errors that may not occur at another node, or later."""


class ClusterClient:
    """A client of the cluster of `bootstrap`, with one connection per node, opened on demand.

    `timeout_ms` bounds every call, retries and waits included; `attempt_timeout_ms` one attempt at one node.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        client_id: str = "quorumd",
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
        attempt_timeout_ms: float = DEFAULT_ATTEMPT_TIMEOUT_MS,
    ) -> None:
        self._discovery = LeaderDiscovery(bootstrap)
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self.attempt_timeout_ms = attempt_timeout_ms
        self._connections: dict[Address, NodeConnection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The bootstrap addresses and the addresses of nodes in the last response."""
        return self._discovery.addresses

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; calls in progress fail."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def api_versions(self, node: Target = None) -> VersionRanges:
        """The version range of each API that a node supports. Raises RequestFailed."""

        async def once() -> VersionRanges:
            return (await self._connection_to(node)).peer_ranges

        return await self._retry("ApiVersions", node, once)

    async def find_leader(self) -> NodeAddress:
        """The current leader, looked up again. Raises RequestFailed if there is none before the deadline."""
        return await self._retry("finding the leader", None, self._discover_leader)

    async def send(self, message: Message, node: Target = None) -> Message:
        """The response of a node to any request, in the highest version that both sides support.

        For "leader" and any node (None), a response that the node is not the leader is retried at the leader. The
        response of a node given by id is returned unchanged. Raises RequestFailed at the deadline, with the last
        error code if there was one, and UnsupportedVersion for a request that the node does not support.
        """
        return (await self._send_with_retries(message, node))[0]

    async def request(self, message: Message, response_class: type[R], node: Target) -> R:
        """As `send`, with a known class of response."""
        return (await self.request_counting_attempts(message, response_class, node))[0]

    async def request_counting_attempts(
        self, message: Message, response_class: type[R], node: Target
    ) -> tuple[R, int]:
        """As `request`, with the number of attempts: an earlier attempt may already have taken effect."""
        response, attempts = await self._send_with_retries(message, node)
        assert isinstance(response, response_class)
        return response, attempts

    async def request_at(self, address: Address, message: Message) -> Message:
        """The response of the node at an address, even if it is not in `addresses`. Raises the errors of `send`."""

        async def once() -> Message:
            return await self._exchange(await self._connection(address), message)

        return await self._retry(message.NAME, None, once)

    async def _send_with_retries(self, message: Message, node: Target) -> tuple[Message, int]:
        target, attempts = node, 0

        async def once() -> Message:
            nonlocal target, attempts
            attempts += 1
            response = await self._exchange(await self._connection_for(message, target), message)
            error = next((error for error in errors_in(response) if error[0] in RETRIABLE_ERRORS), None)
            if error is None or isinstance(node, int):
                return response
            target = "leader"
            raise RequestFailed(f"{message.NAME} failed with {describe_error(*error)}", error[0])

        return await self._retry(message.NAME, node, once), attempts

    async def _retry(self, what: str, node: Target, once: Callable[[], Awaitable[T]]) -> T:
        """Call `once` until it succeeds or the deadline passes, with backoff after RequestFailed."""
        loop, timeout_s = asyncio.get_running_loop(), self._timeout_ms / 1000
        retries = Retries(what, timeout_s, loop.time())
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    try:
                        return await once()
                    except RequestFailed as failure:
                        self._discovery.on_failure(node if isinstance(node, int) else None)
                        wait_s = retries.wait_s(failure, loop.time())
                    await asyncio.sleep(wait_s)
        except TimeoutError:
            raise retries.expired() from None

    async def _exchange(self, connection: NodeConnection, message: Message) -> Message:
        """Send one request and return its response. Raises RequestFailed and closes the connection on a timeout."""
        try:
            async with asyncio.timeout(self.attempt_timeout_ms / 1000):
                return await connection.send(message)
        except TimeoutError:
            connection.close()
            where = f"{connection.host}:{connection.port}"
            raise RequestFailed(f"{where} did not respond to {message.NAME}{self._timeout_text()}") from None

    def _timeout_text(self) -> str:
        return f" within {self.attempt_timeout_ms:.0f} ms"

    async def _connection_for(self, message: Message, node: Target) -> NodeConnection:
        """The connection for a request: to another node if the leader does not support it, since a stock controller
        may lead."""
        connection = await self._connection_to(node)
        if node != "leader" or _serves(connection.peer_ranges, message):
            return connection
        for address in self.addresses:
            with suppress(RequestFailed):
                other = await self._connection(address)
                if _serves(other.peer_ranges, message):
                    return other
        return connection

    async def _connection_to(self, node: Target) -> NodeConnection:
        if node is None:
            return await self._connection(self._discovery.next_address)
        if node == "leader":
            known = self._discovery.leader or await self._discover_leader()
        else:
            known = self._discovery.node(node) or await self._discover_node(node)
        return await self._connection(known.address)

    async def _connection(self, address: Address) -> NodeConnection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or not connection.is_open:
                try:
                    async with asyncio.timeout(self.attempt_timeout_ms / 1000):
                        connection = await NodeConnection.open(*address, self._client_id)
                except TimeoutError:
                    where = f"{address[0]}:{address[1]}"
                    raise RequestFailed(
                        f"{where} did not accept a connection{self._timeout_text()}"
                    ) from None
                self._connections[address] = connection
            return connection

    async def _discover_leader(self) -> NodeAddress:
        """Look up the leader at one node. Raises RequestFailed if the node does not respond or knows no leader."""
        await self._discover_nodes()
        if self._discovery.leader is None:
            raise RequestFailed("the leader of the quorum is unknown", ErrorCode.NOT_CONTROLLER)
        return self._discovery.leader

    async def _discover_node(self, node_id: int) -> NodeAddress:
        await self._discover_nodes()
        node = self._discovery.node(node_id)
        if node is None:
            known = sorted(node.id for node in self._discovery.nodes)
            raise RequestFailed(f"node {node_id} is unknown; known nodes: {known}")
        return node

    async def _discover_nodes(self) -> None:
        """Update the nodes and the leader with Metadata, or with DescribeCluster at a stock controller."""
        connection = await self._connection_to(None)
        if ApiKey.METADATA in connection.peer_ranges:
            metadata = await self._exchange(connection, MetadataRequest())
            assert isinstance(metadata, MetadataResponse)
            nodes = tuple(NodeAddress(each.node_id, each.host, each.port) for each in metadata.brokers)
            leader = metadata.controller_id
        else:
            request = DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLER)
            cluster = await self._exchange(connection, request)
            assert isinstance(cluster, DescribeClusterResponse)
            nodes = tuple(NodeAddress(each.broker_id, each.host, each.port) for each in cluster.brokers)
            leader = cluster.controller_id
        self._discovery.nodes = nodes
        self._discovery.leader = self._discovery.node(leader)


_REMEDIES: dict[int, str] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the client lacks a right on the cluster; see `quorumd acls add`",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "set delegation.token.secret.key on every node and broker",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "authenticate with SASL or a TLS certificate, not with a token",
}
"""The remedies of errors whose responses have no message of their own."""


def _serves(ranges: VersionRanges, message: Message) -> bool:
    """Whether a node with these APIs supports the request. Stock controllers, the only nodes without Metadata, reject
    DescribeCluster for brokers with MISMATCHED_ENDPOINT_TYPE."""
    if isinstance(message, DescribeClusterRequest) and message.endpoint_type == EndpointType.BROKER:
        return message.API_KEY in ranges and ApiKey.METADATA in ranges
    return message.API_KEY in ranges


def describe_error(code: int, text: str | None) -> str:
    name = ErrorCode.describe(code)
    if not text or text == name:
        text = _REMEDIES.get(code)
    return f"{name}: {text}" if text else name


def raise_on_error(code: int, text: str | None, what: str) -> None:
    if code != ErrorCode.NONE:
        raise RequestFailed(f"{what}: {describe_error(code, text)}", code)
