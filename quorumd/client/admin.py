"""The admin client: asks a cluster, wherever its leader is at the moment.

    async with AdminClient([("127.0.0.1", 9192)]) as admin:
        quorum = await admin.describe_quorum()
        await admin.alter_configs(ResourceType.TOPIC, "orders", {"retention.ms": "1000"})
        await admin.alter_quorum([0, 3, 4])

A request is sent again, after a wait that grows (KIP-580), when a connection fails, when a node does not answer
in time, and when the answer says that the leader is elsewhere; so it may be carried out more than once. All of
it ends at one deadline.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from types import TracebackType
from typing import Literal, NamedTuple, TypeVar

from quorumd.client.backoff import backoff_ms
from quorumd.client.connection import NodeConnection
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, NO_NODE, Endpoint, ReplicaKey
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import VersionRanges
from quorumd.protocol.messages import add_raft_voter_request, alter_quorum_request, describe_quorum_request
from quorumd.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from quorumd.protocol.messages.alter_quorum_response import AlterQuorumResponse
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from quorumd.protocol.messages.describe_quorum_response import DescribeQuorumResponse, PartitionData
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from quorumd.protocol.wire import Message, MessageStruct

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

_ENDPOINTS_OF_CONTROLLERS = 2
_SET, _DELETE = 0, 1

ASK_AGAIN = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that another node, or the same one later, may not have."""


class ResourceType(IntEnum):
    """Kafka's resource types of configs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Leader(NamedTuple):
    """The active controller and where it listens."""

    id: int
    host: str
    port: int


class AdminClient:
    """Asks the cluster that `bootstrap` belongs to; one connection a node, opened when it is needed.

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
        self._attempt_timeout_ms = attempt_timeout_ms
        self._nodes: dict[int, Address] = {}
        self._leader: int | None = None
        self._turn = 0
        self._connections: dict[Address, NodeConnection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}

    async def __aenter__(self) -> AdminClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; calls under way fail."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def describe_quorum(self) -> PartitionData:
        """The metadata partition as its leader sees it. Raises RequestFailed."""
        topic = describe_quorum_request.TopicData(
            METADATA_TOPIC, [describe_quorum_request.PartitionData(METADATA_PARTITION)]
        )
        request = describe_quorum_request.DescribeQuorumRequest([topic])
        response = await self._ask(request, DescribeQuorumResponse, "leader")
        _raise_for(response.error_code, response.error_message, "DescribeQuorum")
        partitions = [partition for topic in response.topics for partition in topic.partitions]
        if len(partitions) != 1:
            raise RequestFailed(f"DescribeQuorum: {len(partitions)} partitions where one was asked for")
        _raise_for(partitions[0].error_code, partitions[0].error_message, "DescribeQuorum")
        return partitions[0]

    async def alter_quorum(self, voters: Sequence[int] | None) -> None:
        """Set the target that the leader leads the voters to, one after the other; None stays with those of now.

        Returns when the target is committed, before it is reached (KIP-595 draft). Raises RequestFailed.
        """
        wire = alter_quorum_request
        targets = None if voters is None else [wire.TargetVoter(voter) for voter in voters]
        partition = wire.PartitionData(METADATA_PARTITION, targets)
        request = wire.AlterQuorumRequest("", [wire.TopicData(METADATA_TOPIC, [partition])])
        response = await self._ask(request, AlterQuorumResponse, "leader")
        for topic in response.topics:
            for answer in topic.partitions:
                _raise_for(answer.error_code, answer.error_message, "AlterQuorum")

    async def add_voter(self, voter: ReplicaKey, endpoints: Sequence[Endpoint]) -> None:
        """Give one replica a vote (KIP-853); returns when that is committed. While it is not caught up, or other
        voters are changing, it is tried again until the deadline. Raises RequestFailed.
        """
        wire = add_raft_voter_request
        listeners = [wire.Listener(*endpoint) for endpoint in endpoints]
        patience_ms = int(self._attempt_timeout_ms * 2 / 3)
        request = wire.AddRaftVoterRequest(None, patience_ms, *voter, listeners)
        response, attempts = await self._sent(request, "leader")
        assert isinstance(response, AddRaftVoterResponse)
        was_before = response.error_code == ErrorCode.DUPLICATE_VOTER and attempts > 1
        if not (was_before and await self._votes(voter)):
            _raise_for(response.error_code, response.error_message, f"voter {voter.id}")

    async def remove_voter(self, voter: ReplicaKey) -> None:
        """Take one replica its vote (KIP-853); returns when that is committed. Raises RequestFailed."""
        request = RemoveRaftVoterRequest(None, *voter)
        response, attempts = await self._sent(request, "leader")
        assert isinstance(response, RemoveRaftVoterResponse)
        was_before = response.error_code == ErrorCode.VOTER_NOT_FOUND and attempts > 1
        if not (was_before and not await self._votes(voter)):
            _raise_for(response.error_code, response.error_message, f"voter {voter.id}")

    async def describe_cluster(self, node: Target = None) -> DescribeClusterResponse:
        """The nodes of the quorum and their leader as controllers (endpoint type 2). Raises RequestFailed."""
        request = DescribeClusterRequest(endpoint_type=_ENDPOINTS_OF_CONTROLLERS)
        response = await self._ask(request, DescribeClusterResponse, node)
        _raise_for(response.error_code, response.error_message, "DescribeCluster")
        return response

    async def metadata(self, node: Target = None) -> MetadataResponse:
        """The nodes and the controller as Metadata tells them, without topics. Raises RequestFailed."""
        response = await self._ask(MetadataRequest(), MetadataResponse, node)
        _raise_for(response.error_code, None, "Metadata")
        return response

    async def describe_configs(
        self, resource_type: int, name: str, keys: Sequence[str] | None = None, *, node: Target = None
    ) -> list[DescribeConfigsResourceResult]:
        """The configs of one resource, those in `keys` or all of them. Raises RequestFailed."""
        resource = DescribeConfigsResource(resource_type, name, None if keys is None else list(keys))
        response = await self._ask(DescribeConfigsRequest([resource]), DescribeConfigsResponse, node)
        what = f"configs of {_resource(resource_type, name)}"
        if len(response.results) != 1:
            raise RequestFailed(f"{what}: {len(response.results)} results where one was asked for")
        _raise_for(response.results[0].error_code, response.results[0].error_message, what)
        return response.results[0].configs

    async def alter_configs(
        self, resource_type: int, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set configs of one resource, all or none; None deletes. Returns when they are committed.

        Raises RequestFailed.
        """
        configs = [
            AlterableConfig(key, _DELETE if value is None else _SET, value) for key, value in changes.items()
        ]
        request = IncrementalAlterConfigsRequest(
            [AlterConfigsResource(resource_type, name, configs)], validate_only
        )
        response = await self._ask(request, IncrementalAlterConfigsResponse, "leader")
        for answer in response.responses:
            _raise_for(
                answer.error_code, answer.error_message, f"configs of {_resource(resource_type, name)}"
            )

    async def api_versions(self, node: Target = None) -> VersionRanges:
        """The version range of each API key that a node speaks. Raises RequestFailed."""

        async def once() -> VersionRanges:
            return (await self._connection_to(node)).peer_ranges

        return await self._retried("ApiVersions", node, once)

    async def find_leader(self) -> Leader:
        """The leader, asked for anew. Raises RequestFailed when there is none before the deadline."""
        return await self._retried("looking for the leader", None, self._learn_leader)

    async def send(self, message: Message, node: Target = None) -> Message:
        """The response of a node to any request, in the highest version that both sides speak.

        An answer of "leader" or of any node (None) never tells of a leader elsewhere: the request is sent again,
        to the leader. A node given by its id is the only one asked, and answers what it likes. Raises
        RequestFailed at the deadline, with the last error code if there was one, and UnsupportedVersion for a
        request that the node does not know.
        """
        return (await self._sent(message, node))[0]

    async def _sent(self, message: Message, node: Target) -> tuple[Message, int]:
        """As `send`, and how often it was sent: an earlier attempt may have done what the last one came late for."""
        target, attempts = node, 0

        async def once() -> Message:
            nonlocal target, attempts
            attempts += 1
            response = await self._exchange(await self._connection_to(target), message)
            error = next((error for error in _errors(response) if error[0] in ASK_AGAIN), None)
            if error is None or isinstance(node, int):
                return response
            target = "leader"
            raise RequestFailed(f"{message.NAME} was answered with {_described(*error)}", error[0])

        return await self._retried(message.NAME, node, once), attempts

    async def _votes(self, voter: ReplicaKey) -> bool:
        """Whether exactly this replica votes now."""
        quorum = await self.describe_quorum()
        return any((v.replica_id, v.replica_directory_id) == voter for v in quorum.current_voters)

    async def _ask(self, message: Message, response_class: type[R], node: Target) -> R:
        response = await self.send(message, node)
        assert isinstance(response, response_class)
        return response

    async def _retried(self, what: str, node: Target, once: Callable[[], Awaitable[T]]) -> T:
        """What `once` returns; after RequestFailed it is called again, until the deadline."""
        failure = RequestFailed("nobody answered")
        attempt = 0
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                while True:
                    try:
                        return await once()
                    except RequestFailed as again:
                        failure = again
                    # Ask somebody else next time, and look again for where the leader, or that node, is.
                    self._turn += 1
                    self._leader = None
                    if isinstance(node, int):
                        self._nodes.pop(node, None)
                    wait_ms = backoff_ms(attempt, RETRY_BACKOFF_MS, RETRY_BACKOFF_MAX_MS, random.random())
                    await asyncio.sleep(wait_ms / 1000)
                    attempt += 1
        except TimeoutError:
            raise RequestFailed(
                f"{what} failed for {self._timeout_ms:.0f} ms, last: {failure}", failure.error_code
            ) from None

    async def _exchange(self, connection: NodeConnection, message: Message) -> Message:
        """One request and its answer. A connection that is too slow is given up: RequestFailed."""
        try:
            async with asyncio.timeout(self._attempt_timeout_ms / 1000):
                return await connection.send(message)
        except TimeoutError:
            connection.close()
            where = f"{connection.host}:{connection.port}"
            raise RequestFailed(f"{where} left {message.NAME} unanswered{self._patience()}") from None

    def _patience(self) -> str:
        return f" for {self._attempt_timeout_ms:.0f} ms"

    async def _connection_to(self, node: Target) -> NodeConnection:
        if node is None:
            addresses = list(dict.fromkeys([*self._bootstrap, *self._nodes.values()]))
            return await self._connection(addresses[self._turn % len(addresses)])
        if node == "leader":
            leader = self._leader
            node = leader if leader is not None else (await self._learn_leader()).id
        elif node not in self._nodes:
            await self._learn_nodes()
        if node not in self._nodes:
            raise RequestFailed(f"node {node} is not known, these are: {sorted(self._nodes)}")
        return await self._connection(self._nodes[node])

    async def _connection(self, address: Address) -> NodeConnection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or not connection.is_open:
                try:
                    async with asyncio.timeout(self._attempt_timeout_ms / 1000):
                        connection = await NodeConnection.open(*address, self._client_id)
                except TimeoutError:
                    where = f"{address[0]}:{address[1]}"
                    raise RequestFailed(f"{where} left a connection unanswered{self._patience()}") from None
                self._connections[address] = connection
            return connection

    async def _learn_leader(self) -> Leader:
        """Ask one node. Raises RequestFailed when it does not answer or knows no leader."""
        await self._learn_nodes()
        if self._leader is None:
            raise RequestFailed("the quorum has no leader that is known", ErrorCode.NOT_CONTROLLER)
        return Leader(self._leader, *self._nodes[self._leader])

    async def _learn_nodes(self) -> None:
        """By Metadata where it is spoken; a stock controller only speaks DescribeCluster."""
        connection = await self._connection_to(None)
        if ApiKey.METADATA in connection.peer_ranges:
            metadata = await self._exchange(connection, MetadataRequest())
            assert isinstance(metadata, MetadataResponse)
            nodes = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
            leader = metadata.controller_id
        else:
            request = DescribeClusterRequest(endpoint_type=_ENDPOINTS_OF_CONTROLLERS)
            cluster = await self._exchange(connection, request)
            assert isinstance(cluster, DescribeClusterResponse)
            nodes = {broker.broker_id: (broker.host, broker.port) for broker in cluster.brokers}
            leader = cluster.controller_id
        self._nodes = nodes
        self._leader = leader if leader != NO_NODE and leader in nodes else None


def _errors(part: MessageStruct) -> Iterator[tuple[int, str | None]]:
    """Every error code in a response with the text beside it, from the outside in."""
    for name in part.__slots__:
        value = getattr(part, name)
        if name == "error_code":
            yield value, getattr(part, "error_message", None)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, MessageStruct):
                    yield from _errors(item)


def _described(code: int, text: str | None) -> str:
    return f"{ErrorCode.describe(code)}: {text}" if text else ErrorCode.describe(code)


def _raise_for(code: int, text: str | None, what: str) -> None:
    if code != ErrorCode.NONE:
        raise RequestFailed(f"{what}: {_described(code, text)}", code)


def _resource(resource_type: int, name: str) -> str:
    try:
        kind = ResourceType(resource_type).name.lower()
    except ValueError:
        kind = f"resource type {resource_type}"
    return f"{kind} {name!r}"
