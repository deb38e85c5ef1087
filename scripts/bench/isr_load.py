"""ISR changes as a load: brokers that each have one AlterPartition request in flight, as brokers do.

    leaders = await create_leaders(fleet, admin, in_flight, partitions)
    run = await run_load(leaders, seconds)

A request shrinks or expands the ISRs of all partitions of its broker; the next one is sent when its response has
arrived. The generator shares the machine with the nodes, so it does little work: requests are encoded once, and get
only the new correlation id and partition epochs. A response must equal the expected one, byte by byte.
"""

from __future__ import annotations

import asyncio
import time
from struct import Struct
from typing import cast

from quorumd.client.admin import AdminClient
from quorumd.ids import KafkaUuid
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages import alter_partition_response as altered
from quorumd.protocol.messages import create_topics_request as creation
from quorumd.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse
from scripts.bench.broker_fleet import BrokerStub, Fleet
from scripts.bench.processes import BenchError
from scripts.bench.summary import Latency, Run

WARM_UP_S = 0.5
VERSION = 3
CLIENT_ID = b"isr-load"
_EPOCH = Struct(">i")
_REQUEST_START = Struct(">ihhih")
_RESPONSE_START = Struct(">iix")
"""Remaining size, correlation id, no tags."""
_PLACE = 0x5EA15EA1
"""The partition epoch in a template."""


class Isr:
    """One of the two ISRs between which the partitions of a broker alternate."""

    def __init__(self, broker: BrokerStub, topic_id: KafkaUuid, partitions: int, members: list[int]) -> None:
        states = [BrokerState(member, -1) for member in members]
        proposals = [PartitionData(n, 0, [], states, 0, _PLACE) for n in range(partitions)]
        request = AlterPartitionRequest(broker.id, broker.epoch, [TopicData("", topic_id, proposals)])
        replies = [altered.PartitionData(n, 0, broker.id, 0, members, 0, _PLACE) for n in range(partitions)]
        topic = altered.TopicData("", topic_id, replies)
        self._request = _template(encode(request, VERSION), partitions)
        self._response = _template(encode(altered.AlterPartitionResponse(0, 0, [topic]), VERSION), partitions)

    def request(self, epoch: int) -> bytes:
        """Return the request that proposes this ISR at a partition epoch."""
        return _EPOCH.pack(epoch).join(self._request)

    def response(self, epoch: int) -> bytes:
        """Return the expected response to that request."""
        return _EPOCH.pack(epoch + 1).join(self._response)


def _template(message: bytes, partitions: int) -> list[bytes]:
    """Return the parts of a message between its partition epochs."""
    parts = message.split(_EPOCH.pack(_PLACE))
    assert len(parts) == partitions + 1
    return parts


class IsrLeader(asyncio.Protocol):
    """A broker with its own connection, which leads `count` partitions."""

    def __init__(
        self,
        broker: BrokerStub,
        topic_id: KafkaUuid,
        count: int,
        followers: tuple[int, int],
        address: tuple[str, int],
    ) -> None:
        self.broker = broker
        self._address = address
        self.count = count
        self._isrs = [Isr(broker, topic_id, count, [broker.id, *some]) for some in (followers[:1], followers)]
        self._epoch = 0
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    async def run(self, begin: float, end: float) -> list[float]:
        """Change ISRs until `end`; return the latencies, in ms, of changes from `begin` on. Raises BenchError."""
        loop = asyncio.get_running_loop()
        self._begin, self._end, self._took_ms = begin, end, list[float]()
        self._finished: asyncio.Future[None] = loop.create_future()
        if self._transport is None:
            await loop.create_connection(lambda: self, *self._address)
        self._send()
        await self._finished
        return self._took_ms

    @property
    def changes(self) -> int:
        """The number of accepted requests so far."""
        return self._epoch

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._finished.done():
            self._finished.set_exception(BenchError(f"broker {self.broker.id} lost its connection: {error}"))

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        if len(buffer) < _RESPONSE_START.size or len(buffer) < 4 + _EPOCH.unpack_from(buffer)[0]:
            return
        now = time.perf_counter()
        response = bytes(buffer[_RESPONSE_START.size :])
        buffer.clear()
        if response != self._isrs[self._epoch % 2].response(self._epoch):
            self._finished.set_exception(BenchError(_describe(response)))
            return
        self._epoch += 1
        if self._begin <= now < self._end:
            self._took_ms.append((now - self._sent) * 1000)
        if now < self._end:
            self._send()
        else:
            self._finished.set_result(None)

    def _send(self) -> None:
        assert self._transport is not None
        body = self._isrs[self._epoch % 2].request(self._epoch)
        size = _REQUEST_START.size - 4 + len(CLIENT_ID) + 1 + len(body)
        start = _REQUEST_START.pack(size, AlterPartitionRequest.API_KEY, VERSION, self._epoch, len(CLIENT_ID))
        self._sent = time.perf_counter()
        self._transport.write(b"".join((start, CLIENT_ID, b"\0", body)))


def _describe(response: bytes) -> str:
    reply = decode(altered.AlterPartitionResponse, VERSION, response)
    errors = {partition.error_code for topic in reply.topics for partition in topic.partitions}
    return f"AlterPartition was rejected: error {reply.error_code}, partition errors {sorted(errors)}: {reply!r:.300}"


async def create_leaders(fleet: Fleet, admin: AdminClient, count: int, partitions: int) -> list[IsrLeader]:
    """Create a topic for each of `count` brokers, which leads all partitions of its topic."""
    brokers = fleet.brokers
    topics = []
    for number in range(count):
        topic = creation.CreatableTopic(f"isr-{count}-{partitions}-{number}", -1, -1)
        replicas = [brokers[(number + step) % len(brokers)].id for step in range(3)]
        topic.assignments = [creation.CreatableReplicaAssignment(n, replicas) for n in range(partitions)]
        topics.append(topic)
    reply = await admin.send(creation.CreateTopicsRequest(topics, 60_000, False))
    assert isinstance(reply, CreateTopicsResponse)
    leaders = []
    for number, parsed in enumerate(reply.topics):
        if parsed.error_code:
            raise BenchError(f"the topic {parsed.name} was not created: {parsed.error_message}")
        followers = brokers[(number + 1) % len(brokers)].id, brokers[(number + 2) % len(brokers)].id
        leaders.append(IsrLeader(brokers[number], parsed.topic_id, partitions, followers, fleet.address))
    return leaders


async def run_load(leaders: list[IsrLeader], seconds: float) -> Run:
    """Measure with one request in flight per leader; only changes acknowledged after the warm-up count."""
    begin = time.perf_counter() + WARM_UP_S
    runs = await asyncio.gather(*(leader.run(begin, begin + seconds) for leader in leaders))
    changes = sum(leader.count * len(took_ms) for leader, took_ms in zip(leaders, runs, strict=True))
    return Run(changes / seconds, Latency.of([each for took_ms in runs for each in took_ms]), len(leaders))
