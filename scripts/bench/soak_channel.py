"""A broker's connection to the active controller in the soak: pipelined requests, little work per request.

The load generator shares the machine with the nodes, so messages are encoded once, and get only new numbers.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct
from typing import cast

from quorumd.client.admin import AdminClient
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.ids import KafkaUuid
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages import alter_partition_response as altered
from quorumd.protocol.messages import incremental_alter_configs_request as configs
from quorumd.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from scripts.bench.broker_fleet import FAR

ISR_VERSION, CONFIG_VERSION, HEARTBEAT_VERSION = 3, 1, 1
CLIENT_ID = b"soak"
RETRY_S = 0.1
RESOURCES = 1_000
VALUE_BYTES = 200
_INT = Struct(">i")
_START = Struct(">ihhih")
_NUMBER, _EPOCH = 0x5EA15EA2, 0x5EA15EA1
"""Partition number and epoch in a template."""
Handle = Callable[[bytes, float], int]
"""(response without its header, time) -> the error code."""


class Template:
    """A message in which a partition number and a partition epoch are left open."""

    def __init__(self, message: bytes) -> None:
        self._before, _, rest = message.partition(_INT.pack(_NUMBER))
        self._between, _, self._after = rest.partition(_INT.pack(_EPOCH))

    def fill(self, number: int, epoch: int) -> bytes:
        return b"".join((self._before, _INT.pack(number), self._between, _INT.pack(epoch), self._after))


class Channel(asyncio.Protocol):
    """The connection of one broker, which follows the active controller.

    Reasons of failures are counted in `failures`. Changes that are due without a connection are sent once there is
    one.
    """

    def __init__(self, admin: AdminClient, broker_id: int, epoch: int, failures: Counter[str]) -> None:
        self.broker_id = broker_id
        self._admin = admin
        self._epoch = epoch
        self._failures = failures
        self._requests: list[Template] = []
        self._responses: list[Template] = []
        self._free: deque[tuple[int, int]] = deque()
        """(number, epoch) of the partitions without a change in flight, the last changed last."""
        self._transport: asyncio.Transport | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._is_closed = False
        self._unsent: list[tuple[int, int, bytes, Handle]] = []
        self._sent: deque[Handle] = deque()
        self._correlation_id = 0
        self._buffer = b""

    def lead(self, topic_id: KafkaUuid, replicas: Sequence[int], partitions: int) -> None:
        """Lead all partitions of a topic. Their ISRs alternate between two replicas and all."""
        for members in (list(replicas[:-1]), list(replicas)):
            states = [BrokerState(member, -1) for member in members]
            change = PartitionData(_NUMBER, 0, [], states, 0, _EPOCH)
            request = AlterPartitionRequest(self.broker_id, self._epoch, [TopicData("", topic_id, [change])])
            reply = altered.PartitionData(_NUMBER, 0, self.broker_id, 0, members, 0, _EPOCH)
            response = altered.AlterPartitionResponse(0, 0, [altered.TopicData("", topic_id, [reply])])
            self._requests.append(Template(encode(request, ISR_VERSION)))
            self._responses.append(Template(encode(response, ISR_VERSION)))
        self._free.extend((number, 0) for number in range(partitions))

    async def connect(self) -> None:
        """Connect to the active controller, and try again until it succeeds."""
        while not self._is_closed:
            try:
                leader = await self._admin.find_leader()
                await asyncio.get_running_loop().create_connection(lambda: self, leader.host, leader.port)
                return
            except (RequestFailed, OSError):
                await asyncio.sleep(RETRY_S)

    def close(self) -> None:
        self._is_closed = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def outstanding(self) -> int:
        """The number of requests without a response."""
        return len(self._unsent) + len(self._sent)

    def change_isr(self, due: float, latencies_ms: array[float]) -> None:
        """Change the ISR of the partition that was changed least recently.

        A partition is not used again after a failure: its epoch is unknown.
        """
        if not self._free:
            self._failures["AlterPartition: no partition without a change in flight or a failure"] += 1
            return
        number, epoch = self._free.popleft()

        def handle(response: bytes, now: float) -> int:
            if response == self._responses[epoch % 2].fill(number, epoch + 1):
                self._free.append((number, epoch + 1))
                latencies_ms.append((now - due) * 1000)
                return 0
            reply = decode(altered.AlterPartitionResponse, ISR_VERSION, response)
            return self._failed(
                "AlterPartition", reply.error_code or reply.topics[0].partitions[0].error_code
            )

        request = self._requests[epoch % 2].fill(number, epoch)
        self._send(AlterPartitionRequest.API_KEY, ISR_VERSION, request, handle)

    def write_config(self, turn: int, due: float, latencies_ms: array[float]) -> None:
        """Set one of RESOURCES configs to another value than the last time."""

        def handle(response: bytes, now: float) -> int:
            reply = decode(IncrementalAlterConfigsResponse, CONFIG_VERSION, response)
            if error := reply.responses[0].error_code:
                return self._failed("config write", error)
            latencies_ms.append((now - due) * 1000)
            return 0

        request = _config_request(turn % RESOURCES, turn // RESOURCES % 2)
        self._send(configs.IncrementalAlterConfigsRequest.API_KEY, CONFIG_VERSION, request, handle)

    def heartbeat(self) -> None:
        def handle(response: bytes, now: float) -> int:
            reply = decode(BrokerHeartbeatResponse, HEARTBEAT_VERSION, response)
            if reply.error_code:
                return self._failed("heartbeat", reply.error_code)
            if reply.is_fenced:
                self._failures["heartbeat: the broker was fenced"] += 1
            return 0

        request = encode(
            BrokerHeartbeatRequest(self.broker_id, self._epoch, FAR, False, False), HEARTBEAT_VERSION
        )
        self._send(BrokerHeartbeatRequest.API_KEY, HEARTBEAT_VERSION, request, handle)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._buffer = b""
        unsent, self._unsent = self._unsent, []
        for request in unsent:
            self._send(*request)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._is_closed:
            return
        if self._sent:
            self._failures["connection lost before the response"] += len(self._sent)
        self._sent.clear()
        self._reconnecting = asyncio.create_task(self.connect())

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if self._buffer:
            data = self._buffer + data
        position = 0
        while len(data) - position >= 4:
            end = position + 4 + _INT.unpack_from(data, position)[0]
            if end > len(data):
                break
            # Responses come in the order of the requests. Their headers have a correlation id and no tags.
            error = self._sent.popleft()(data[position + 9 : end], now)
            position = end
            if error == ErrorCode.NOT_CONTROLLER and self._transport is not None:
                self._transport.abort()
                return
        self._buffer = data[position:]

    def _send(self, api_key: int, version: int, body: bytes, handle: Handle) -> None:
        if self._transport is None:
            self._unsent.append((api_key, version, body, handle))
            return
        self._sent.append(handle)
        self._correlation_id += 1
        size = _START.size - 4 + len(CLIENT_ID) + 1 + len(body)
        start = _START.pack(size, api_key, version, self._correlation_id, len(CLIENT_ID))
        self._transport.write(b"".join((start, CLIENT_ID, b"\0", body)))

    def _failed(self, what: str, error: int) -> int:
        self._failures[f"{what}: {ErrorCode.describe(error)}"] += 1
        return error


@cache
def _config_request(resource: int, value: int) -> bytes:
    change = configs.AlterableConfig("metrics", 0, "xy"[value] * VALUE_BYTES)
    kind = int(ConfigResourceType.CLIENT_METRICS)
    request = configs.IncrementalAlterConfigsRequest(
        [configs.AlterConfigsResource(kind, f"soak-{resource}", [change])]
    )
    return encode(request, CONFIG_VERSION)
