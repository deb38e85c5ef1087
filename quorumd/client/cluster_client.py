"""Sends requests to a cluster and follows its leader.

A request is retried with exponential backoff (KIP-580) if a connection fails, a node does not respond in time or is
not the leader, so it may be executed more than once. All attempts share one deadline.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Literal, NamedTuple, Self, TypeVar

from quorumd.client.backoff import backoff_ms
from quorumd.client.connection import NodeConnection
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.ids import NO_NODE
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import VersionRanges
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message

R = TypeVar("R", bound=Message)
T = TypeVar("T")

Address = tuple[str, int]
Target = int | Literal["leader"] | None
"""A node id, the leader, or None for any node."""

DEFAULT_TIMEOUT_MS = 15_000
DEFAULT_ATTEMPT_TIMEOUT_MS = 3_000
RETRY_BACKOFF_MS = 50
RETRY_BACKOFF_MAX_MS = 1_000
"""Kafka's retry.backoff.max.ms; its retry.backoff.ms of 100 is longer than an election takes here."""

BROKER_ENDPOINTS = 1
CONTROLLER_ENDPOINTS = 2
"""DescribeCluster's endpoint types (KIP-919)."""

RETRIABLE_ERRORS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that may not occur at another node, or later."""


class Leader(NamedTuple):
    """The active controller and where it listens."""

    id: int
    host: str
    port: int


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
        if not bootstrap:
            raise ValueError("at least one bootstrap address is needed")
        self._bootstrap = tuple(bootstrap)
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self.attempt_timeout_ms = attempt_timeout_ms
        self._nodes: dict[int, Address] = {}
        self._leader: int | None = None
        self._next_node = 0
        self._connections: dict[Address, NodeConnection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}

    @property
    def addresses(self) -> list[Address]:
        """The bootstrap addresses and the addresses of nodes in the last response."""
        return list(dict.fromkeys([*self._bootstrap, *self._nodes.values()]))

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

    async def find_leader(self) -> Leader:
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
        """The response of the node at an address, which need not be in `addresses`. Raises as `send` does."""

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
        failure = RequestFailed("no node responded")
        attempt = 0
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                while True:
                    try:
                        return await once()
                    except RequestFailed as again:
                        failure = again
                    # Use another node next time and look up the leader, or that node, again.
                    self._next_node += 1
                    self._leader = None
                    if isinstance(node, int):
                        self._nodes.pop(node, None)
                    wait_ms = backoff_ms(attempt, RETRY_BACKOFF_MS, RETRY_BACKOFF_MAX_MS, random.random())
                    await asyncio.sleep(wait_ms / 1000)
                    attempt += 1
        except TimeoutError:
            raise RequestFailed(
                f"{what} did not succeed within {self._timeout_ms:.0f} ms; last error: {failure}",
                failure.error_code,
            ) from None

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
        """The connection for a request: to another node that supports it if the leader does not, because a stock
        controller may lead."""
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
            addresses = self.addresses
            return await self._connection(addresses[self._next_node % len(addresses)])
        if node == "leader":
            leader = self._leader
            node = leader if leader is not None else (await self._discover_leader()).id
        elif node not in self._nodes:
            await self._discover_nodes()
        if node not in self._nodes:
            raise RequestFailed(f"node {node} is unknown; known nodes: {sorted(self._nodes)}")
        return await self._connection(self._nodes[node])

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

    async def _discover_leader(self) -> Leader:
        """Look up the leader at one node. Raises RequestFailed if the node does not respond or knows no leader."""
        await self._discover_nodes()
        if self._leader is None:
            raise RequestFailed("the leader of the quorum is unknown", ErrorCode.NOT_CONTROLLER)
        return Leader(self._leader, *self._nodes[self._leader])

    async def _discover_nodes(self) -> None:
        """Update the nodes and the leader with Metadata, or with DescribeCluster at a stock controller."""
        connection = await self._connection_to(None)
        if ApiKey.METADATA in connection.peer_ranges:
            metadata = await self._exchange(connection, MetadataRequest())
            assert isinstance(metadata, MetadataResponse)
            nodes = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
            leader = metadata.controller_id
        else:
            request = DescribeClusterRequest(endpoint_type=CONTROLLER_ENDPOINTS)
            cluster = await self._exchange(connection, request)
            assert isinstance(cluster, DescribeClusterResponse)
            nodes = {broker.broker_id: (broker.host, broker.port) for broker in cluster.brokers}
            leader = cluster.controller_id
        self._nodes = nodes
        self._leader = leader if leader != NO_NODE and leader in nodes else None


_REMEDIES: dict[int, str] = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "set delegation.token.secret.key on every node and broker",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "authenticate with SASL or a TLS certificate, not with a token",
}
"""The remedies of errors whose responses have no message."""


def _serves(ranges: VersionRanges, message: Message) -> bool:
    """Whether a node with these APIs supports the request. Stock controllers, the only nodes without Metadata, reject
    DescribeCluster for brokers with MISMATCHED_ENDPOINT_TYPE."""
    if isinstance(message, DescribeClusterRequest) and message.endpoint_type == BROKER_ENDPOINTS:
        return message.API_KEY in ranges and ApiKey.METADATA in ranges
    return message.API_KEY in ranges


def describe_error(code: int, text: str | None) -> str:
    text = text or _REMEDIES.get(code)
    return f"{ErrorCode.describe(code)}: {text}" if text else ErrorCode.describe(code)


def raise_on_error(code: int, text: str | None, what: str) -> None:
    if code != ErrorCode.NONE:
        raise RequestFailed(f"{what}: {describe_error(code, text)}", code)
