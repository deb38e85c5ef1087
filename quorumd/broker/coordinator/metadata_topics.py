"""The topics in the broker's metadata, for the coordinators of groups."""

from __future__ import annotations

from collections.abc import Hashable

from quorumd.broker.coordinator.metadata_hash import topic_hash
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.broker.metadata.metadata_delta import MetadataDelta
from quorumd.controller.partition import Partition
from quorumd.ids import KafkaUuid


class MetadataTopics:
    """The `coordinator.topics.Topics` of the broker's metadata."""

    def __init__(self, metadata: BrokerMetadata) -> None:
        self.created_offset = -1
        self._metadata = metadata
        self._hashes: dict[KafkaUuid, tuple[Hashable, int]] = {}
        """Topic id -> (revision of the topic, its hash)."""

    @property
    def offset(self) -> int:
        return self._metadata.offset

    def partitions(self, name: str) -> tuple[KafkaUuid, int] | None:
        """See `Topics`."""
        topic = self._metadata.image.topic_by_name(name)
        return None if topic is None else (topic.id, len(topic.partitions))

    def name(self, topic_id: KafkaUuid) -> str | None:
        """See `Topics`."""
        topic = self._metadata.image.topics.get(topic_id)
        return None if topic is None else topic.name

    def hash(self, name: str) -> int | None:
        """See `Topics`."""
        image = self._metadata.image
        topic = image.topic_by_name(name)
        if topic is None:
            return None
        revision = image.topic_revision(topic.id)
        known = self._hashes.get(topic.id)
        if known is None or known[0] != revision:
            racks = [self._racks(topic.partitions[number]) for number in sorted(topic.partitions)]
            known = self._hashes[topic.id] = (revision, topic_hash(topic.id, name, racks))
        return known[1]

    def _racks(self, partition: Partition) -> list[str]:
        brokers = [self._metadata.broker(replica) for replica in partition.replicas]
        return [broker.rack for broker in brokers if broker is not None and broker.rack is not None]

    def apply(self, delta: MetadataDelta) -> None:
        """Record a change of the metadata."""
        if delta.new_topics or delta.is_snapshot:
            self.created_offset = delta.offset
        for removed in delta.removed_topics:
            self._hashes.pop(removed.id, None)
