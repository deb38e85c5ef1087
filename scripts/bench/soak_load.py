"""The load of the soak: brokers that change ISRs and write configs, at times that are fixed in advance.

A change is sent at its time whether or not earlier ones have responses, and its latency counts from that time, so
that a stall of a node delays all changes that were due in it (no coordinated omission).
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from quorumd.client.admin import AdminClient
from quorumd.errors import RequestFailed
from quorumd.protocol.messages import create_topics_request as creation
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse
from scripts.bench.broker_fleet import FIRST_BROKER, HEARTBEAT_S, BrokerStub
from scripts.bench.processes import BenchError
from scripts.bench.soak_channel import Channel

TOPICS_PER_REQUEST = 10
REPLICAS = 3
DRAIN_S = 60.0
POLL_S = 0.05
ISR_CHANGES, CONFIG_WRITES, LATENESS = "AlterPartition", "config writes", "sent after its time"


@dataclass(slots=True)
class Outcome:
    """Latencies and failures of the changes of a run."""

    latencies_ms: dict[str, array[float]] = field(
        default_factory=lambda: {name: array("d") for name in (ISR_CHANGES, CONFIG_WRITES, LATENESS)}
    )
    """The time from when a change was due to its response, by kind, and until it was sent."""
    failures: Counter[str] = field(default_factory=Counter)
    """Changes and heartbeats without success, by reason."""

    @property
    def committed(self) -> int:
        return len(self.latencies_ms[ISR_CHANGES]) + len(self.latencies_ms[CONFIG_WRITES])


class SoakLoad:
    """Registered brokers, each of which leads the partitions of a topic and sends heartbeats until `close`."""

    def __init__(self, admin: AdminClient) -> None:
        self.outcome = Outcome()
        self._admin = admin
        self._channels: list[Channel] = []
        self._beating: list[asyncio.Task[None]] = []

    async def start(self, count: int, partitions: int) -> None:
        """Register brokers and create their topics. Raises RequestFailed, or BenchError for a rejected topic."""
        brokers = [
            BrokerStub(FIRST_BROKER + number, lambda message: self._admin.send(message, "leader"))
            for number in range(count)
        ]
        cluster_id = (await self._admin.describe_cluster()).cluster_id
        await asyncio.gather(*(broker.register(cluster_id) for broker in brokers))
        if any(await asyncio.gather(*(broker.heartbeat() for broker in brokers))):
            raise BenchError("a broker stays fenced")
        self._channels = [
            Channel(self._admin, broker.id, broker.epoch, self.outcome.failures) for broker in brokers
        ]
        for number, channel in enumerate(self._channels):
            await channel.connect()
            self._beating.append(asyncio.create_task(_beat(channel, number / count * HEARTBEAT_S)))
        for first in range(0, count, TOPICS_PER_REQUEST):
            await self._create_topics(range(first, min(first + TOPICS_PER_REQUEST, count)), partitions)

    def close(self) -> None:
        for task in self._beating:
            task.cancel()
        for channel in self._channels:
            channel.close()

    async def run(self, changes_per_second: float, seconds: float) -> None:
        """Send changes for `seconds`, ISR changes and config writes in turns, and wait for their responses."""
        latencies, channels = self.outcome.latencies_ms, self._channels
        begin = time.perf_counter()
        for number in range(round(changes_per_second * seconds)):
            due = begin + number / changes_per_second
            if (wait_s := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait_s)
            latencies[LATENESS].append((time.perf_counter() - due) * 1000)
            turn = number // 2
            channel = channels[turn % len(channels)]
            if number % 2:
                channel.write_config(turn, due, latencies[CONFIG_WRITES])
            else:
                channel.change_isr(due, latencies[ISR_CHANGES])
        end = time.perf_counter() + DRAIN_S
        while (left := sum(channel.outstanding for channel in channels)) and time.perf_counter() < end:
            await asyncio.sleep(POLL_S)
        if left:
            self.outcome.failures[f"no response {DRAIN_S:.0f} s after the end"] += left

    async def _create_topics(self, numbers: Sequence[int], partitions: int) -> None:
        """Create one topic for each of these brokers, which leads its partitions."""
        topics, ids = [], [channel.broker_id for channel in self._channels]
        for number in numbers:
            replicas = [ids[(number + step) % len(ids)] for step in range(REPLICAS)]
            topic = creation.CreatableTopic(f"soak-{number}", -1, -1)
            topic.assignments = [
                creation.CreatableReplicaAssignment(index, replicas) for index in range(partitions)
            ]
            topics.append(topic)
        request = creation.CreateTopicsRequest(topics, 60_000, False)
        try:
            reply = await self._admin.request(request, CreateTopicsResponse, "leader")
        except RequestFailed as error:
            raise BenchError(f"while topics were created: {error}") from None
        for number, topic, created in zip(numbers, topics, reply.topics, strict=True):
            if created.error_code:
                raise BenchError(f"topic {created.name} was not created: {created.error_message}")
            self._channels[number].lead(created.topic_id, topic.assignments[0].broker_ids, partitions)


async def _beat(channel: Channel, delay_s: float) -> None:
    await asyncio.sleep(delay_s)
    while True:
        channel.heartbeat()
        await asyncio.sleep(HEARTBEAT_S)
