"""The changes that a batch of the metadata log made to a broker's image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from quorumd.controller.cluster_image import ALL_BROKERS, ClusterImage, Resource
from quorumd.controller.partition import PartitionId
from quorumd.ids import KafkaUuid
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.clear_elr_record import ClearElrRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from quorumd.protocol.wire import Message


class RemovedTopic(NamedTuple):
    """A deleted topic that existed before the batch; `partitions` are its partition numbers."""

    id: KafkaUuid
    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """The entities that changed up to `offset`, each once, in the order of their first change.

    The image has the new state. `new_topics` and `partitions` contain only entities that exist in it.
    """

    offset: int
    is_snapshot: bool = False
    """Whether a snapshot replaced the image: all its partitions, brokers and configs count as changed."""
    new_topics: tuple[KafkaUuid, ...] = ()
    removed_topics: tuple[RemovedTopic, ...] = ()
    partitions: tuple[PartitionId, ...] = ()
    configs: tuple[Resource, ...] = ()
    brokers: tuple[int, ...] = ()
    features: tuple[str, ...] = ()

    def changes_broker_configs(self, broker_id: int) -> bool:
        """Whether configs of this broker, or of all brokers, may have changed."""
        own = (int(ConfigResourceType.BROKER), str(broker_id))
        return self.is_snapshot or any(resource in (own, ALL_BROKERS) for resource in self.configs)


class DeltaBuilder:
    """Collects the changes of records. Call `note` with each record before the image applies it."""

    def __init__(self) -> None:
        self._in_transaction: list[Message] | None = None
        self._reset()

    def _reset(self) -> None:
        self._new_topics: dict[KafkaUuid, None] = {}
        self._removed_topics: dict[KafkaUuid, RemovedTopic] = {}
        self._partitions: dict[PartitionId, None] = {}
        self._configs: dict[Resource, None] = {}
        self._brokers: dict[int, None] = {}
        self._features: dict[str, None] = {}

    def note(self, record: Message, image: ClusterImage) -> None:
        """Collect the change of a record that the image has not applied yet; inside a transaction, at its end."""
        kind = type(record)
        if kind is BeginTransactionRecord:
            self._in_transaction = []
        elif kind is AbortTransactionRecord:
            self._in_transaction = None
        elif kind is EndTransactionRecord:
            pending, self._in_transaction = self._in_transaction or [], None
            for each in pending:
                self._note(each, image)
        elif self._in_transaction is not None:
            self._in_transaction.append(record)
        else:
            self._note(record, image)

    def _note(self, record: Message, image: ClusterImage) -> None:
        note = _NOTES.get(type(record))
        if note is not None:
            note(self, record, image)

    def _note_new_topic(self, record: TopicRecord, image: ClusterImage) -> None:
        self._new_topics[record.topic_id] = None

    def _note_removed_topic(self, record: RemoveTopicRecord, image: ClusterImage) -> None:
        topic = image.topics.get(record.topic_id)
        if topic is not None and record.topic_id not in self._new_topics:
            removed = RemovedTopic(topic.id, topic.name, tuple(topic.partitions))
            self._removed_topics[topic.id] = removed
        self._new_topics.pop(record.topic_id, None)
        for each in [each for each in self._partitions if each.topic_id == record.topic_id]:
            del self._partitions[each]

    def _note_partition(self, record: PartitionRecord | PartitionChangeRecord, image: ClusterImage) -> None:
        self._partitions[PartitionId(record.topic_id, record.partition_id)] = None

    def _note_cleared_elr(self, record: ClearElrRecord, image: ClusterImage) -> None:
        named = image.topic_by_name(record.topic_name)
        for topic in [named] if named is not None else list(image.topics.values()):
            for number in topic.partitions:
                self._partitions[PartitionId(topic.id, number)] = None

    def _note_config(self, record: ConfigRecord, image: ClusterImage) -> None:
        self._configs[record.resource_type, record.resource_name] = None

    def _note_broker(
        self,
        record: RegisterBrokerRecord | UnregisterBrokerRecord | BrokerRegistrationChangeRecord,
        image: ClusterImage,
    ) -> None:
        self._brokers[record.broker_id] = None

    def _note_fencing(self, record: FenceBrokerRecord | UnfenceBrokerRecord, image: ClusterImage) -> None:
        self._brokers[record.id] = None

    def _note_feature(self, record: FeatureLevelRecord, image: ClusterImage) -> None:
        self._features[record.name] = None

    def build(self, offset: int) -> MetadataDelta:
        """Return the changes since the last call. An open transaction continues."""
        delta = MetadataDelta(
            offset,
            False,
            tuple(self._new_topics),
            tuple(self._removed_topics.values()),
            tuple(self._partitions),
            tuple(self._configs),
            tuple(self._brokers),
            tuple(self._features),
        )
        self._reset()
        return delta


_NOTES: dict[type, Callable[[DeltaBuilder, Any, ClusterImage], None]] = {
    TopicRecord: DeltaBuilder._note_new_topic,
    RemoveTopicRecord: DeltaBuilder._note_removed_topic,
    PartitionRecord: DeltaBuilder._note_partition,
    PartitionChangeRecord: DeltaBuilder._note_partition,
    ClearElrRecord: DeltaBuilder._note_cleared_elr,
    ConfigRecord: DeltaBuilder._note_config,
    RegisterBrokerRecord: DeltaBuilder._note_broker,
    UnregisterBrokerRecord: DeltaBuilder._note_broker,
    BrokerRegistrationChangeRecord: DeltaBuilder._note_broker,
    FenceBrokerRecord: DeltaBuilder._note_fencing,
    UnfenceBrokerRecord: DeltaBuilder._note_fencing,
    FeatureLevelRecord: DeltaBuilder._note_feature,
}


def difference(before: ClusterImage, after: ClusterImage, offset: int) -> MetadataDelta:
    """Return the delta from an image to the image of a snapshot that replaces it."""
    return MetadataDelta(
        offset,
        True,
        tuple(topic_id for topic_id in after.topics if topic_id not in before.topics),
        tuple(
            RemovedTopic(topic.id, topic.name, tuple(topic.partitions))
            for topic in before.topics.values()
            if topic.id not in after.topics
        ),
        tuple(
            PartitionId(topic.id, number) for topic in after.topics.values() for number in topic.partitions
        ),
        tuple(dict.fromkeys([*before.configs, *after.configs])),
        tuple(dict.fromkeys([*before.brokers, *after.brokers])),
        tuple(dict.fromkeys([*before.features, *after.features])),
    )
