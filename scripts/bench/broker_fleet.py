"""Minimal brokers for a controller: they register, and send heartbeats and other requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import uuid4

from quorumd.client.admin import AdminClient
from quorumd.client.cluster_client import raise_on_error
from quorumd.client.connection import NodeConnection
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.lifecycle import registration_of
from scripts.bench.processes import BenchError

M = TypeVar("M", bound=Message)
Send = Callable[[Message], Awaitable[Message]]

HEARTBEAT_S = 2.0
HEARTBEAT_TIMEOUT_MS = 4_000.0
FIRST_BROKER = 1000
FAR = 2**40
"""A metadata offset beyond any log: these brokers read no log, and report that they have caught up."""


class BrokerStub:
    """A broker that sends requests to the active controller."""

    def __init__(
        self,
        broker_id: int,
        send: Send,
        address: tuple[str, int] = ("127.0.0.1", 9),
        rack: str | None = None,
    ) -> None:
        self.id = broker_id
        self.epoch = -1
        self._send = send
        self._address = address
        self._rack = rack
        self._incarnation = KafkaUuid(uuid4().bytes)
        self._directory = KafkaUuid(uuid4().bytes)

    async def send(self, request: Message, response: type[M]) -> M:
        reply = await self._send(request)
        assert isinstance(reply, response)
        return reply

    async def register(self, cluster_id: str) -> None:
        """Register the broker. Raises RequestFailed if it is rejected."""
        request = registration_of(
            self.id, cluster_id, self._incarnation, self._address, [self._directory], -1, self._rack
        )
        reply = await self.send(request, BrokerRegistrationResponse)
        raise_on_error(reply.error_code, None, f"registration of broker {self.id}")
        self.epoch = reply.broker_epoch

    async def heartbeat(self, send: Send | None = None) -> bool:
        """Send a heartbeat, by default like any request; return True if fenced. Raises RequestFailed."""
        request = BrokerHeartbeatRequest(self.id, self.epoch, FAR, False, False)
        reply = await (send or self._send)(request)
        assert isinstance(reply, BrokerHeartbeatResponse)
        raise_on_error(reply.error_code, None, f"heartbeat of broker {self.id}")
        return reply.is_fenced


class Fleet:
    """Many brokers, whose heartbeats are sent until `close`, to another node once that leads."""

    def __init__(self, brokers: list[BrokerStub], connections: list[NodeConnection]) -> None:
        self.brokers = brokers
        self._connections = connections
        self._beating = asyncio.create_task(self._beat())

    @classmethod
    async def register(
        cls, host: str, port: int, cluster_id: str, count: int, first: int = FIRST_BROKER
    ) -> Fleet:
        """Register `count` brokers with the leader, with ids from `first` on. Raises RequestFailed, or BenchError for
        a broker that stays fenced."""
        ids = range(first, first + count)
        connections = [await NodeConnection.open(host, port, f"broker-{each}") for each in ids]
        brokers = [
            BrokerStub(each, connection.send) for each, connection in zip(ids, connections, strict=True)
        ]
        await asyncio.gather(*(broker.register(cluster_id) for broker in brokers))
        if any(await asyncio.gather(*(broker.heartbeat() for broker in brokers))):
            raise BenchError("a broker stays fenced")
        return cls(brokers, connections)

    @property
    def address(self) -> tuple[str, int]:
        """The address of the node that the brokers are connected to."""
        return self._connections[0].host, self._connections[0].port

    def close(self) -> None:
        self._beating.cancel()
        for connection in self._connections:
            connection.close()

    async def _beat(self) -> None:
        async with AdminClient([self.address], timeout_ms=HEARTBEAT_TIMEOUT_MS) as admin:
            while True:
                await asyncio.sleep(HEARTBEAT_S)
                beats = (broker.heartbeat(lambda beat: admin.send(beat, "leader")) for broker in self.brokers)
                # The controller fences a broker whose heartbeats fail for longer.
                await asyncio.gather(*beats, return_exceptions=True)
