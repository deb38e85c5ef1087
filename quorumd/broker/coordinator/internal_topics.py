"""Finds the internal topics of the coordinators and the partition of a key, and creates missing topics."""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.broker.controller_requests.topic_creation import NewTopic, TopicCreation
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.broker.settings.coordinator_settings import GroupSettings, TransactionSettings
from quorumd.controller.cluster_image import Topic
from quorumd.controller.partition import NO_LEADER


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """The name and configuration of an internal topic."""

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
    """Return Java's `String.hashCode()`, a signed 32-bit integer over the UTF-16 code units."""
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
    """Finds the internal topics in the metadata; the controller creates them when they are first needed."""

    def __init__(self, metadata: BrokerMetadata, creation: TopicCreation) -> None:
        self._metadata = metadata
        self._creation = creation

    def find(self, topic: InternalTopic) -> Topic | None:
        """Return the topic in the metadata, None if it does not exist."""
        image = self._metadata.image
        topic_id = image.topic_ids.get(topic.name)
        return None if topic_id is None else image.topics[topic_id]

    def partition_of(self, topic: InternalTopic, key: str) -> int:
        """Return the partition that coordinates the key."""
        found = self.find(topic)
        return partition_of(key, len(found.partitions) if found is not None else topic.partitions)

    def leader_of(self, topic: InternalTopic, key: str) -> int | None:
        """Return the coordinator of the key, None if its partition has no leader. Creates a missing topic."""
        found = self.find(topic)
        if found is None:
            new = NewTopic(topic.partitions, topic.replication_factor, dict(topic.configs))
            self._creation.create({topic.name: new})
            return None
        leader = found.partitions[partition_of(key, len(found.partitions))].leader
        return None if leader == NO_LEADER else leader
