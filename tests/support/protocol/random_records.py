"""Random metadata records that are valid after the previous records."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import Partition, PartitionId
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.clear_elr_record import ClearElrRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.producer_ids_record import ProducerIdsRecord
from quorumd.protocol.messages.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

BROKERS = range(1, 6)
NAMES = ["a", "b", "c"]


def partitions_of(image: ClusterImage) -> dict[PartitionId, Partition]:
    return {
        PartitionId(topic.id, number): partition
        for topic in image.topics.values()
        for number, partition in topic.partitions.items()
    }


def uuid(number: int) -> KafkaUuid:
    return KafkaUuid(bytes(15) + bytes([number]))


class RandomRecords:
    """Draws metadata records that are valid for an image, which has applied the previous records."""

    def __init__(self, seed: int, ahead: ClusterImage) -> None:
        self._random = Random(seed)
        self._later = Random(~seed)
        """A separate stream for some fields, which does not affect the other draws."""
        self._ahead = ahead
        self._kinds: dict[Callable[[], Any], int] = {
            self._register: 2,
            self._change_broker: 3,
            self._topic: 2,
            self._remove_topic: 1,
            self._partition: 4,
            self._change_partition: 12,
            self._clear_elr: 1,
            self._setting: 5,
        }

    def between(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def record(self) -> Any:
        """Draw the next record; return None if it is not valid now."""
        (kind,) = self._random.choices(list(self._kinds), list(self._kinds.values()))
        return kind()

    def _some(self, most: int = 3, least: int = 0) -> list[int]:
        return self._random.sample(BROKERS, self.between(least, most))

    def _maybe(self, values: list[int]) -> list[int] | None:
        return self._random.choice([None, None, values])

    def _register(self) -> Any:
        epoch, directory = self.between(0, 3), uuid(self.between(1, 4))
        return RegisterBrokerRecord(
            self._random.choice(BROKERS),
            self._later.random() < 0.2,
            directory,
            epoch,
            [BrokerEndpoint("L", f"host{epoch}", 9092, 0)],
            [BrokerFeature("metadata.version", 1, 20 + epoch)],
            self._random.choice([None, *NAMES]),
            self._random.random() < 0.5,
            False,
            [directory],
            self._directories(),
        )

    def _change_broker(self) -> Any:
        if not self._ahead.brokers:
            return None
        broker = self._ahead.brokers[self._random.choice(list(self._ahead.brokers))]
        kind = self._random.choice([FenceBrokerRecord, UnfenceBrokerRecord, UnregisterBrokerRecord, None])
        if kind is not None:
            return kind(broker.id, broker.epoch)
        directories = [uuid(number) for number in self._some(2)]
        return BrokerRegistrationChangeRecord(
            broker.id, broker.epoch, self.between(-1, 1), self.between(0, 1), directories, self._directories()
        )

    def _directories(self) -> list[KafkaUuid] | None:
        return self._later.choice([None, [], [uuid(1)]])

    def _topic(self) -> Any:
        name, topic_id = self._random.choice(NAMES), uuid(self.between(1, 4))
        exists = name in self._ahead.topic_ids or topic_id in self._ahead.topics
        return None if exists else TopicRecord(name, topic_id)

    def _remove_topic(self) -> Any:
        topics = list(self._ahead.topics)
        return RemoveTopicRecord(self._random.choice(topics)) if topics else None

    def _partition(self) -> Any:
        topics = list(self._ahead.topics)
        if not topics:
            return None
        replicas = self._some(4, 1)
        record = PartitionRecord(
            self.between(0, 2),
            self._random.choice(topics),
            replicas,
            self._some(),
            self._some(1),
            self._some(1),
            self._random.choice([-1, *BROKERS]),
            self.between(0, 1),
            3,
            4,
            self._random.choice([[], [uuid(1)] * len(replicas)]),
        )
        record.eligible_leader_replicas = self._maybe(self._some(2, 1))
        record.last_known_elr = self._maybe(self._some(1, 1))
        record.original_replicas = self._maybe(self._some(3, 1))
        return record

    def _change_partition(self) -> Any:
        partitions = list(partitions_of(self._ahead))
        if not partitions:
            return None
        where = self._random.choice(partitions)
        record = PartitionChangeRecord(where.number, where.topic_id)
        record.isr = self._maybe(self._some())
        record.eligible_leader_replicas = self._maybe(self._some(2))
        record.last_known_elr = self._maybe(self._some(1))
        record.adding_replicas = self._maybe(self._some(1))
        record.removing_replicas = self._maybe(self._some(1))
        record.original_replicas = self._maybe(self._some())
        record.leader = self._random.choice([-2, -2, -1, *BROKERS])
        record.leader_recovery_state = self.between(-1, 1)
        record.replicas = self._maybe(self._some(4, 1))
        if record.replicas is not None:
            record.directories = [uuid(self.between(1, 4)) for _ in record.replicas]
        return record

    def _clear_elr(self) -> Any:
        return ClearElrRecord(self._random.choice(["", *self._ahead.topic_ids]))

    def _setting(self) -> Any:
        name, value = self._random.choice(NAMES), self._random.choice([None, "", "1", "2"])
        return self._random.choice(
            [
                ConfigRecord(self._random.choice([2, 4, 32]), name, self._random.choice(NAMES), value),
                FeatureLevelRecord(name, self.between(0, 2)),
                ProducerIdsRecord(1, 1, self.between(0, 3)),
            ]
        )
