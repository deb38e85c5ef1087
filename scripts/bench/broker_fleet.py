"""Minimal brokers for a controller: they register, send heartbeats and requests."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from quorumd.client.connection import NodeConnection
from quorumd.controller.metadata_versions import SUPPORTED_FEATURES
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import broker_registration_request as registration
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from quorumd.protocol.wire import Message
from scripts.bench.processes import BenchError

M = TypeVar("M", bound=Message)

HEARTBEAT_S = 2.0
FIRST_BROKER = 1000
FAR = 2**40
"""A metadata offset beyond any log: these brokers read no log, and report that they have caught up."""


class BrokerStub:
    """One broker on one connection to the leader."""

    def __init__(self, broker_id: int, connection: NodeConnection) -> None:
        self.id = broker_id
        self.connection = connection
        self.epoch = -1

    async def send(self, request: Message, response: type[M]) -> M:
        reply = await self.connection.send(request)
        assert isinstance(reply, response)
        return reply

    async def register(self, cluster_id: str) -> None:
        """Register the broker. Raises BenchError if it is rejected."""
        number = self.id.to_bytes(8, "big")
        request = registration.BrokerRegistrationRequest(self.id, cluster_id, KafkaUuid(b"a start:" + number))
        request.listeners = [registration.Listener("PLAINTEXT", "127.0.0.1", 9, 0)]
        request.features = [
            registration.Feature(each.name, each.lowest, each.highest) for each in SUPPORTED_FEATURES
        ]
        request.log_dirs = [KafkaUuid(b"a folder" + number)]
        reply = await self.send(request, BrokerRegistrationResponse)
        if reply.error_code:
            raise BenchError(f"broker {self.id} was not registered: error {reply.error_code}")
        self.epoch = reply.broker_epoch
        if await self.heartbeat():
            raise BenchError(f"broker {self.id} stays fenced")

    async def heartbeat(self) -> bool:
        """Send a heartbeat; returns whether the broker is fenced."""
        request = BrokerHeartbeatRequest(self.id, self.epoch, FAR, False, False)
        reply = await self.send(request, BrokerHeartbeatResponse)
        return bool(reply.error_code or reply.is_fenced)


class Fleet:
    """Many brokers, kept alive while the context is open."""

    def __init__(self, brokers: list[BrokerStub]) -> None:
        self.brokers = brokers
        self._beating = asyncio.create_task(self._beat())

    @classmethod
    async def register(cls, host: str, port: int, cluster_id: str, count: int) -> Fleet:
        """Register all brokers. Raises BenchError."""
        brokers = []
        for number in range(count):
            connection = await NodeConnection.open(host, port, f"broker-{FIRST_BROKER + number}")
            brokers.append(BrokerStub(FIRST_BROKER + number, connection))
        await asyncio.gather(*(broker.register(cluster_id) for broker in brokers))
        return cls(brokers)

    def close(self) -> None:
        self._beating.cancel()
        for broker in self.brokers:
            broker.connection.close()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await asyncio.gather(*(broker.heartbeat() for broker in self.brokers))
