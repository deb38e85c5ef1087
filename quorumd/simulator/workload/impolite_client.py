"""A client that sends many requests at once, in pieces, and garbage, does not read for a while, and hangs up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from quorumd.ids import METADATA_TOPIC, KafkaUuid
from quorumd.ports import Transport
from quorumd.protocol.connection import LARGE_REQUEST, ClientConnection
from quorumd.protocol.endpoint_type import EndpointType
from quorumd.protocol.framing import SIZE
from quorumd.protocol.messages import alter_partition_reassignments_request as moves
from quorumd.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.protocol.wire import Message
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.workload.connection_loop import ClientSide, ConnectionLoop

HOST: Final = "10.0.17.1"
NAME: Final = "impolite"
COUNTS: Final = (1, 2, 5, 5, 30, 30, 200, 1100)
"""Number of requests sent at once; more than a thousand may not wait for a response."""
BROKER: Final = 4
TOPIC: Final = 2
TIMEOUT_MS: Final = 2000
_STRANGER: Final = EntryData([EntityData("user", "impolite")], [OpData("producer_byte_rate", 1.0, False)])
_REQUESTS: Final[tuple[tuple[Message, int], ...]] = (
    (ApiVersionsRequest("client", "1"), 3),
    (ApiVersionsRequest("client", "1"), 3),
    (DescribeClusterRequest(), 1),
    (CreateTopicsRequest([CreatableTopic("impolite", 3, 1)], TIMEOUT_MS, True), 7),
    (MetadataRequest([]), 12),
    (AlterClientQuotasRequest([_STRANGER], True), 1),
    (DescribeConfigsRequest([DescribeConfigsResource(BROKER, "", ["log.retention.ms"])]), 4),
    (
        DescribeConfigsRequest(
            [DescribeConfigsResource(BROKER, str(number), None) for number in range(1, 8)]
        ),
        2,
    ),
)
"""Requests without an effect."""
_LIMITS: Final = (
    (EntityData("ip", HOST), "connection_creation_rate", 2.0),
    (EntityData("client-id", NAME), "controller_mutation_rate", 0.5),
)
"""Quotas that the client sets for itself."""
_MANY: Final = 300
"""More items than a node handles at once."""
_VERY_MANY: Final = 1100
_OWN: Final = [DescribeConfigsResource(BROKER, str(number), None) for number in range(1, 8)]
"""Configs of brokers, one of which may be the node itself."""
_NAMES: Final = [f"impolite-{number}" for number in range(_VERY_MANY)]
_LARGE: Final[tuple[tuple[Message, int], ...]] = (
    (DescribeConfigsRequest([DescribeConfigsResource(BROKER, "", None)] * 3), 4),
    (DescribeConfigsRequest([*_OWN, *(DescribeConfigsResource(TOPIC, name) for name in _NAMES[:_MANY])]), 4),
    (CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in _NAMES], TIMEOUT_MS, True), 7),
    (DeleteTopicsRequest([DeleteTopicState(name) for name in _NAMES], [], TIMEOUT_MS), 6),
    (DeleteTopicsRequest([], _NAMES[:_MANY] + _NAMES[:1] * 3, TIMEOUT_MS), 5),
    (
        moves.AlterPartitionReassignmentsRequest(
            TIMEOUT_MS,
            True,
            [
                moves.ReassignableTopic(
                    "impolite", [moves.ReassignablePartition(n, [1]) for n in range(_MANY)]
                ),
            ],
        ),
        1,
    ),
)
"""Large requests without an effect."""
_CONTROLLERS: Final = (DescribeClusterRequest(False, int(EndpointType.CONTROLLER)), 1)
"""The request after which a node treats its sender as a client of the controller, and forwards nothing for it."""
_UNKNOWN_VOTER: Final = 9998, KafkaUuid(bytes(15) + b"\x01")
_OF_CONTROLLER: Final[tuple[tuple[Message, int], ...]] = (
    (DescribeQuorumRequest([TopicData(METADATA_TOPIC, [PartitionData(0)])]), 1),
    (DescribeQuorumRequest([TopicData(METADATA_TOPIC, [PartitionData(0)])]), 2),
    (RemoveRaftVoterRequest(None, *_UNKNOWN_VOTER), 0),
    (RemoveRaftVoterRequest("another cluster", *_UNKNOWN_VOTER), 0),
)


def _damaged(count: int) -> bytes:
    """The frame of a large request that ends within its last element."""
    topics = [CreatableTopic(f"{number:0{LARGE_REQUEST // count + 1}}") for number in range(count)]
    data = bytes(ClientConnection(NAME).request(CreateTopicsRequest(topics, TIMEOUT_MS, True), 7)[1])
    whole = data[SIZE.size : -8]
    return SIZE.pack(len(whole)) + whole


GARBAGE: Final = (
    b"GET / HTTP/1.1\r\n",
    bytes(12),
    b"\x00\x00\x00\x08" + b"\x7f" * 8,
    b"\xff\xff\xff\xff",
    _damaged(20),
    _damaged(300),
)
"""What ends a connection. Of the damaged requests, the first is decoded at once, the second in steps."""


def _limit(limit: tuple[EntityData, str, float], is_removed: bool) -> AlterClientQuotasRequest:
    """The request that sets or removes a quota of this client."""
    entity, key, value = limit
    return AlterClientQuotasRequest([EntryData([entity], [OpData(key, value, is_removed)])])


class ImpoliteClient(ConnectionLoop):
    """Opens connections from time to time."""

    def __init__(self, cluster: Cluster, random: Random, interval_ms: float) -> None:
        super().__init__(cluster, HOST, NAME, random, interval_ms)
        self.counters: Counter[str] = Counter()

    def make(self, machine: Machine, on_end: Callable[[], None]) -> tuple[int, ClientSide]:
        """Draw what to send, and how."""
        connection = ImpoliteConnection(self._heap, self._process, self._random, self.counters, on_end)
        return machine.port, connection


class ImpoliteConnection:
    """Sends requests once connected, and closes after the last response; satisfies `ports.Connection`. Raises
    MalformedMessage for responses that are not in the order of the requests, or that follow garbage."""

    def __init__(
        self,
        heap: EventHeap,
        process: Process,
        random: Random,
        counters: Counter[str],
        on_end: Callable[[], None],
    ) -> None:
        self._heap = heap
        self._process = process
        self._random = random
        self._counters = counters
        self._on_end = on_end
        self._connection = ClientConnection(NAME)
        self._transport: Transport | None = None
        self._is_over = False
        self._hangs_up_early = random.random() < 0.15
        self._ends_with_garbage = random.random() < 0.2

    def abandon(self) -> None:
        """See `ClientSide`."""
        if not self._is_over:
            self._is_over = True
            if self._transport is not None:
                self._transport.close()
            self._on_end()

    def connected(self, transport: Transport) -> None:
        self._transport = transport
        if self._is_over:
            transport.close()
            return
        random = self._random
        requests = [random.choice(_REQUESTS) for _ in range(random.choice(COUNTS))]
        if random.random() < 0.25:
            requests[:2] = [_CONTROLLERS, random.choice((*_OF_CONTROLLER, *_REQUESTS))]
        if random.random() < 0.15:
            requests.append(random.choice(_LARGE))
        if random.random() < 0.3:
            requests.append((_limit(random.choice(_LIMITS), random.random() < 0.4), 1))
        data = b"".join(self._connection.request(*each)[1] for each in requests)
        self._counters["impolite: requests"] += len(requests)
        if self._ends_with_garbage:
            data += random.choice(GARBAGE)
        if random.random() < 0.3:
            transport.pause_reading()
            self._heap.call_later(random.choice((5.0, 100.0, 800.0)), self._read, b"read", self._process)
        self._send(data)

    def _read(self) -> None:
        if self._transport is not None and not self._is_over:
            self._transport.resume_reading()

    def _send(self, data: bytes) -> None:
        """Send all or a piece, and the rest later."""
        if self._transport is None or self._is_over:
            return
        length = len(data)
        if self._random.random() < 0.5:
            length = min(length, 1 + self._random.randrange(3 * len(data) // 2))
        self._transport.write(data[:length])
        if length < len(data):
            wait_ms = self._random.choice((0.0, 1.0, 20.0))
            self._heap.call_later(wait_ms, lambda: self._send(data[length:]), b"piece", self._process)
        elif self._hangs_up_early:
            self._counters["impolite: hung up"] += 1
            self.abandon()

    def received(self, data: bytes) -> None:
        if not self._is_over:
            self._counters["impolite: responses"] += len(self._connection.receive(data))
            if not self._connection.in_flight and not self._ends_with_garbage:
                self.abandon()

    def closed(self, reason: str, refused: bool) -> None:
        self._transport = None
        self.abandon()
