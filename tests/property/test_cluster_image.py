"""Whatever records come in whatever order: the image, its hash and its indexes are those of its records, and every
change can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from quorumd.controller.assignment import Change, undo
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.image_records import records_of
from quorumd.controller.partition import Partition, PartitionId
from quorumd.controller.record_versions import record_version
from quorumd.ids import KafkaUuid
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
from quorumd.protocol.metadata_record import decode_record, encode_record

METADATA_VERSION = 25
BROKERS = range(1, 6)
NAMES = ["a", "b", "c"]
STEPS = 250


def index_of(image: ClusterImage) -> tuple[Any, ...]:
    index = image.index
    return (
        {broker_id: set(index.held_by(broker_id)) for broker_id in BROKERS},
        dict(index.leads),
        set(index.leaderless),
        set(index.reassigning),
    )


def partitions_of(image: ClusterImage) -> dict[PartitionId, Partition]:
    return {
        PartitionId(topic.id, number): partition
        for topic in image.topics.values()
        for number, partition in topic.partitions.items()
    }


def counted(image: ClusterImage) -> tuple[Any, ...]:
    """What the index must be, by looking at every partition."""
    all_of_them = partitions_of(image)
    leaders = [partition.leader for partition in all_of_them.values()]
    return (
        {
            broker_id: {where for where, p in all_of_them.items() if broker_id in (*p.isr, *p.elr)}
            for broker_id in BROKERS
        },
        {broker_id: leaders.count(broker_id) for broker_id in set(leaders) - {-1}},
        {where for where, partition in all_of_them.items() if partition.leader == -1},
        {where for where, partition in all_of_them.items() if partition.adding or partition.removing},
    )


def uuid(number: int) -> KafkaUuid:
    return KafkaUuid(bytes(15) + bytes([number]))


class Lots:
    """Records that make sense after those before them, drawn by lot."""

    def __init__(self, seed: int, ahead: ClusterImage) -> None:
        self._lots = Random(seed)
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
        return self._lots.randint(least, most)

    def record(self) -> Any:
        """None where what was drawn makes no sense now."""
        (kind,) = self._lots.choices(list(self._kinds), list(self._kinds.values()))
        return kind()

    def _some(self, most: int = 3, least: int = 0) -> list[int]:
        return self._lots.sample(BROKERS, self.between(least, most))

    def _maybe(self, values: list[int]) -> list[int] | None:
        return self._lots.choice([None, None, values])

    def _register(self) -> Any:
        epoch, folder = self.between(0, 3), uuid(self.between(1, 4))
        return RegisterBrokerRecord(
            self._lots.choice(BROKERS),
            False,
            folder,
            epoch,
            [BrokerEndpoint("L", f"host{epoch}", 9092, 0)],
            [BrokerFeature("metadata.version", 1, 20 + epoch)],
            self._lots.choice([None, *NAMES]),
            self._lots.random() < 0.5,
            False,
            [folder],
        )

    def _change_broker(self) -> Any:
        if not self._ahead.brokers:
            return None
        broker = self._ahead.brokers[self._lots.choice(list(self._ahead.brokers))]
        kind = self._lots.choice([FenceBrokerRecord, UnfenceBrokerRecord, UnregisterBrokerRecord, None])
        if kind is not None:
            return kind(broker.id, broker.epoch)
        folders = [uuid(number) for number in self._some(2)]
        return BrokerRegistrationChangeRecord(
            broker.id, broker.epoch, self.between(-1, 1), self.between(0, 1), folders
        )

    def _topic(self) -> Any:
        name, topic_id = self._lots.choice(NAMES), uuid(self.between(1, 4))
        is_there = name in self._ahead.topic_ids or topic_id in self._ahead.topics
        return None if is_there else TopicRecord(name, topic_id)

    def _remove_topic(self) -> Any:
        topics = list(self._ahead.topics)
        return RemoveTopicRecord(self._lots.choice(topics)) if topics else None

    def _partition(self) -> Any:
        topics = list(self._ahead.topics)
        if not topics:
            return None
        replicas = self._some(4, 1)
        record = PartitionRecord(
            self.between(0, 2),
            self._lots.choice(topics),
            replicas,
            self._some(),
            self._some(1),
            self._some(1),
            self._lots.choice([-1, *BROKERS]),
            self.between(0, 1),
            3,
            4,
            self._lots.choice([[], [uuid(1)] * len(replicas)]),
        )
        record.eligible_leader_replicas = self._maybe(self._some(2, 1))
        record.last_known_elr = self._maybe(self._some(1, 1))
        record.original_replicas = self._maybe(self._some(3, 1))
        return record

    def _change_partition(self) -> Any:
        partitions = list(partitions_of(self._ahead))
        if not partitions:
            return None
        where = self._lots.choice(partitions)
        record = PartitionChangeRecord(where.number, where.topic_id)
        record.isr = self._maybe(self._some())
        record.eligible_leader_replicas = self._maybe(self._some(2))
        record.last_known_elr = self._maybe(self._some(1))
        record.adding_replicas = self._maybe(self._some(1))
        record.removing_replicas = self._maybe(self._some(1))
        record.original_replicas = self._maybe(self._some())
        record.leader = self._lots.choice([-2, -2, -1, *BROKERS])
        record.leader_recovery_state = self.between(-1, 1)
        record.replicas = self._maybe(self._some(4, 1))
        if record.replicas is not None:
            record.directories = [uuid(self.between(1, 4)) for _ in record.replicas]
        return record

    def _clear_elr(self) -> Any:
        return ClearElrRecord(self._lots.choice(["", *self._ahead.topic_ids]))

    def _setting(self) -> Any:
        name, value = self._lots.choice(NAMES), self._lots.choice([None, "", "1", "2"])
        return self._lots.choice(
            [
                ConfigRecord(self._lots.choice([2, 4, 32]), name, self._lots.choice(NAMES), value),
                FeatureLevelRecord(name, self.between(0, 2)),
                ProducerIdsRecord(1, 1, self.between(0, 3)),
            ]
        )


class Walk:
    """`image` sees all records; `ahead` sees those of transactions at once, and no markers."""

    def __init__(self, seed: int) -> None:
        self.image, self.ahead = ClusterImage(), ClusterImage()
        self.lots = Lots(seed, self.ahead)
        self.changes: list[Change] = []
        self.changes_ahead: list[Change] = []
        self.began: tuple[int, object, int] | None = None
        """Of the open transaction: how many changes there were ahead, fingerprint and hash when it began."""
        self.marks: list[Any] = []

    def step(self) -> None:
        what = self.lots.between(1, 40)
        if what == 1 and self.began is None:
            self.began = len(self.changes_ahead), self.image.fingerprint(), self.image.hash
            self.image.apply(BeginTransactionRecord(), self.changes)
        elif what <= 5 and self.began is not None:
            self.end_transaction(aborts=what % 2 == 0)
        elif what <= 7 and self.marks:
            self.take_back(self.marks[self.lots.between(0, len(self.marks) - 1)])
        elif what <= 12:
            self.marks.append((len(self.changes), len(self.changes_ahead), self.began, self.seen()))
        else:
            self.write(self.lots.record())

    def write(self, record: Any) -> None:
        if record is not None:
            record = decode_record(encode_record(record, record_version(record, METADATA_VERSION)))
            self.image.apply(record, self.changes)
            self.ahead.apply(record, self.changes_ahead)

    def end_transaction(self, aborts: bool) -> None:
        assert self.began is not None
        if aborts:
            undo(reversed(self.changes_ahead[self.began[0] :]))
            del self.changes_ahead[self.began[0] :]
            # Nothing leads back into what was never done.
            while self.marks and self.marks[-1][2] is not None:
                self.marks.pop()
        self.image.apply(AbortTransactionRecord() if aborts else EndTransactionRecord(), self.changes)
        self.began = None

    def take_back(self, mark: Any) -> None:
        length, length_ahead, self.began, seen = mark
        while self.marks[-1] is not mark:
            self.marks.pop()
        undo(reversed(self.changes[length:]))
        undo(reversed(self.changes_ahead[length_ahead:]))
        del self.changes[length:], self.changes_ahead[length_ahead:]
        assert self.seen() == seen

    def seen(self) -> object:
        image, ahead = self.image, self.ahead
        return (
            (image.fingerprint(), image.hash, index_of(image), set(image.configs), image.in_transaction),
            (ahead.fingerprint(), ahead.hash, index_of(ahead), set(ahead.configs)),
        )

    def check(self) -> None:
        image, ahead = self.image, self.ahead
        assert image.in_transaction == (self.began is not None)
        if self.began is not None:
            assert (image.fingerprint(), image.hash) == self.began[1:]
        else:
            assert (image.fingerprint(), image.hash) == (ahead.fingerprint(), ahead.hash)
        assert index_of(image) == counted(image)
        assert index_of(ahead) == counted(ahead)

    def check_that_its_records_make_it_again(self) -> None:
        again, other = ClusterImage(), ClusterImage()
        records = list(records_of(self.ahead))
        for record in records:
            again.apply(decode_record(encode_record(record, record_version(record, METADATA_VERSION))), [])
        # In another order, as far as there is one: partitions come after their topics.
        Random(len(records)).shuffle(records)
        for record in sorted(records, key=lambda record: isinstance(record, PartitionRecord)):
            other.apply(record, [])
        for image in (again, other):
            assert image.fingerprint() == self.ahead.fingerprint()
            assert image.hash == self.ahead.hash
            assert index_of(image) == index_of(self.ahead)
        assert list(records_of(other)) == list(records_of(again))


@pytest.mark.parametrize("seed", range(16))
def test_images_are_those_of_their_records_and_every_change_is_taken_back(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
        walk.check()
        walk.check_that_its_records_make_it_again()
