"""The administrator: creates and deletes topics, reassigns partitions, cancels reassignments and elects leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from quorumd.client.admin import AdminClient, ElectionType, TopicPartition
from quorumd.controller.cluster_image import MIN_INSYNC_REPLICAS, Topic
from quorumd.errors import ErrorCode, RequestFailed
from tests.chaos.fleet.history import NO_RESPONSE, OK, HistoryWriter
from tests.chaos.fleet.metadata import Metadata
from tests.chaos.fleet.request_channel import Address

PAUSE_S = (0.3, 1.7)
TIMEOUT_MS, ATTEMPT_MS = 3000.0, 1000.0
FEWEST_TOPICS, MOST_TOPICS = 4, 8
PARTITIONS = (1, 2, 3, 4)
REPLICAS = 3
MIN_ISR = "2"
NAMES = ("orders", "payments", "clicks", "audit", "stock")


class Administrator:
    """Runs one action at a time, through any node that responds."""

    def __init__(
        self,
        nodes: list[Address],
        brokers: list[int],
        metadata: Metadata,
        history: HistoryWriter,
        random: Random,
    ) -> None:
        self.is_resting = False
        """Whether no more actions are started."""
        self._client = AdminClient(
            nodes, client_id="client-admin", timeout_ms=TIMEOUT_MS, attempt_timeout_ms=ATTEMPT_MS
        )
        self._brokers = brokers
        self._metadata = metadata
        self._history = history
        self._random = random
        self._made = 0

    async def work(self) -> None:
        """Run actions until cancelled or until `is_resting` is set."""
        async with self._client:
            while not self.is_resting:
                topics = sorted(self._metadata.image.topic_ids)
                actions: list[tuple[float, Callable[[], Awaitable[None]]]] = [
                    (4.0 if len(topics) < FEWEST_TOPICS else 0.5, self._create),
                    (0.5, self._delete),
                    (2.0, self._reassign),
                    (1.0, self._cancel),
                    (0.5, self._elect),
                ]
                ((_, action),) = self._random.choices(actions, [weight for weight, _ in actions])
                if topics:
                    await action()
                elif len(self._metadata.image.brokers) >= REPLICAS:
                    await self._create()
                await asyncio.sleep(self._random.uniform(*PAUSE_S))

    async def _record(self, what: str, request: Awaitable[object], value: str | None = None) -> None:
        """Await a response and record its outcome; each error of an item is recorded separately."""
        try:
            response = await request
        except RequestFailed as failure:
            code = failure.error_code
            self._history.record(what, ErrorCode.describe(code) if code else NO_RESPONSE, value)
            return
        refused = [item.code for item in response.values() if item] if isinstance(response, dict) else []
        for code in refused:
            self._history.record(what, ErrorCode.describe(code))
        if not refused:
            self._history.record(what, OK, value)

    def _topic(self) -> Topic | None:
        image = self._metadata.image
        return image.topic_by_name(self._random.choice(sorted(image.topic_ids))) if image.topic_ids else None

    async def _create(self) -> None:
        if len(self._metadata.image.topics) >= MOST_TOPICS:
            return
        self._made += 1
        name = f"{self._random.choice(NAMES)}-{self._made}"
        request = self._client.create_topic(
            name, self._random.choice(PARTITIONS), REPLICAS, configs={MIN_INSYNC_REPLICAS: MIN_ISR}
        )
        await self._record("CreateTopics", request, name)

    async def _delete(self) -> None:
        if len(self._metadata.image.topics) > FEWEST_TOPICS and (topic := self._topic()):
            await self._record("DeleteTopics", self._client.delete_topic(topic.name), topic.name)

    async def _reassign(self) -> None:
        if topic := self._topic():
            numbers = self._random.sample(sorted(topic.partitions), min(2, len(topic.partitions)))
            targets = {
                TopicPartition(topic.name, number): self._random.sample(self._brokers, REPLICAS)
                for number in numbers
            }
            await self._record("AlterPartitionReassignments", self._client.alter_reassignments(targets))

    async def _cancel(self) -> None:
        moving = [
            TopicPartition(topic.name, number)
            for topic in self._metadata.image.topics.values()
            for number, partition in topic.partitions.items()
            if partition.is_reassigning
        ]
        if moving:
            request = self._client.alter_reassignments({self._random.choice(moving): None})
            await self._record("AlterPartitionReassignments, cancelled", request)

    async def _elect(self) -> None:
        if topic := self._topic():
            partition = TopicPartition(topic.name, self._random.choice(sorted(topic.partitions)))
            request = self._client.elect_leaders(ElectionType.PREFERRED, [partition])
            await self._record("ElectLeaders", request)
