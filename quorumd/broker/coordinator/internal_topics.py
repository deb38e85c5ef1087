"""The topics of coordinators: which partition coordinates a key, and the creation of a missing topic."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from quorumd.broker.controller_channel import ControllerChannel, NoResponse
from quorumd.broker.coordinator.settings import GroupSettings, TransactionSettings
from quorumd.broker.metadata import BrokerMetadata
from quorumd.controller.cluster_image import Topic
from quorumd.controller.partition import NO_LEADER
from quorumd.errors import ErrorCode
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse

logger = logging.getLogger("quorumd.broker")

RETRY_MS: Final = 1_000.0
"""The least time between two requests to create a topic."""
CREATE_TIMEOUT_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """Name and configuration of an internal topic to create."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


def offsets_topic(settings: GroupSettings) -> InternalTopic:
    """Return __consumer_offsets."""
    return InternalTopic(
        "__consumer_offsets",
        settings.topic_partitions,
        settings.topic_replication_factor,
        (
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(settings.topic_segment_bytes)),
        ),
    )


def transactions_topic(settings: TransactionSettings) -> InternalTopic:
    """Return __transaction_state."""
    return InternalTopic(
        "__transaction_state",
        settings.topic_partitions,
        settings.topic_replication_factor,
        (
            ("cleanup.policy", "compact"),
            ("compression.type", "uncompressed"),
            ("min.insync.replicas", str(settings.topic_min_isr)),
            ("segment.bytes", str(settings.topic_segment_bytes)),
            ("unclean.leader.election.enable", "false"),
        ),
    )


def java_hash(text: str) -> int:
    """Return the hash of a string in Java: over its UTF-16 code units, as a signed number of 32 bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_of(key: str, partitions: int) -> int:
    """Return the partition that coordinates a group id or transactional id, as in Kafka."""
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partitions


class InternalTopics:
    """The internal topics in the broker's metadata, created at the controller when they are first needed."""

    def __init__(self, metadata: BrokerMetadata, channel: ControllerChannel, clock: Clock) -> None:
        self._metadata = metadata
        self._channel = channel
        self._clock = clock
        self._next_attempt_ms: dict[str, float] = {}

    def find(self, topic: InternalTopic) -> Topic | None:
        """Return the topic in the metadata."""
        image = self._metadata.image
        topic_id = image.topic_ids.get(topic.name)
        return None if topic_id is None else image.topics[topic_id]

    def partition_of(self, topic: InternalTopic, key: str) -> int:
        """Return the partition that coordinates the key."""
        found = self.find(topic)
        return partition_of(key, len(found.partitions) if found is not None else topic.partitions)

    def leader_of(self, topic: InternalTopic, key: str) -> int | None:
        """Return the broker that coordinates the key; None without a leader. Creates a missing topic."""
        found = self.find(topic)
        if found is None:
            self.create(topic)
            return None
        leader = found.partitions[partition_of(key, len(found.partitions))].leader
        return None if leader == NO_LEADER else leader

    def create(self, topic: InternalTopic) -> None:
        """Request the topic from the controller, unless that has just been tried."""
        now_ms = self._clock.now_ms()
        if now_ms < self._next_attempt_ms.get(topic.name, 0.0):
            return
        self._next_attempt_ms[topic.name] = now_ms + CREATE_TIMEOUT_MS

        def build(version: int) -> CreateTopicsRequest:
            del version
            configs = [CreatableTopicConfig(name, value) for name, value in topic.configs]
            requested = CreatableTopic(topic.name, topic.partitions, topic.replication_factor, [], configs)
            return CreateTopicsRequest([requested], CREATE_TIMEOUT_MS, False)

        def on_response(response: Any) -> None:
            assert isinstance(response, CreateTopicsResponse)
            self._retry_later(topic)
            for result in response.topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    logger.warning(
                        "%s is not created: %s %s; without it there is no coordinator",
                        topic.name,
                        ErrorCode.describe(result.error_code),
                        result.error_message or "",
                    )

        def on_failure(failure: NoResponse) -> None:
            self._retry_later(topic)
            logger.info("%s is not created: %s", topic.name, failure.reason)

        self._channel.send(ApiKey.CREATE_TOPICS, build, on_response, on_failure)

    def _retry_later(self, topic: InternalTopic) -> None:
        self._next_attempt_ms[topic.name] = self._clock.now_ms() + RETRY_MS
