"""Whatever records come in whatever order: the image, its hash and its indexes are those of its records, and every
change can be taken back."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

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
broker_ids = st.sampled_from(BROKERS)
names = st.sampled_from(["a", "b", "c"])
uuids = st.integers(1, 4).map(lambda number: KafkaUuid(bytes(15) + bytes([number])))
replicas = st.permutations(list(BROKERS)).flatmap(lambda ids: st.integers(1, 4).map(lambda n: list(ids)[:n]))
few = st.lists(broker_ids, max_size=3, unique=True)
leaders = st.sampled_from([-1, *BROKERS])


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


class Records(RuleBasedStateMachine):
    """`image` sees all records; `ahead` sees those of transactions at once, and no markers."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.ahead = ClusterImage(), ClusterImage()
        self.changes: list[Change] = []
        self.changes_ahead: list[Change] = []
        self.began: tuple[int, object, int] | None = None
        """Of the open transaction: the changes ahead, fingerprint and hash when it began."""
        self.marks: list[Any] = []

    def write(self, record: Any) -> None:
        record = decode_record(encode_record(record, record_version(record, METADATA_VERSION)))
        self.image.apply(record, self.changes)
        self.ahead.apply(record, self.changes_ahead)

    @rule(
        broker_id=broker_ids,
        epoch=st.integers(0, 3),
        uuid=uuids,
        rack=st.none() | names,
        fenced=st.booleans(),
    )
    def register(self, broker_id: int, epoch: int, uuid: KafkaUuid, rack: str | None, fenced: bool) -> None:
        self.write(
            RegisterBrokerRecord(
                broker_id,
                False,
                uuid,
                epoch,
                [BrokerEndpoint("L", f"host{epoch}", 9092, 0)],
                [BrokerFeature("metadata.version", 1, 20 + epoch)],
                rack,
                fenced,
                False,
                [uuid],
            )
        )

    @precondition(lambda self: self.ahead.brokers)
    @rule(
        data=st.data(),
        fenced=st.integers(-1, 1),
        draining=st.integers(0, 1),
        folders=st.lists(uuids, max_size=2),
    )
    def change_broker(
        self, data: st.DataObject, fenced: int, draining: int, folders: list[KafkaUuid]
    ) -> None:
        broker = self.ahead.brokers[data.draw(st.sampled_from(sorted(self.ahead.brokers)))]
        self.write(BrokerRegistrationChangeRecord(broker.id, broker.epoch, fenced, draining, folders))

    @precondition(lambda self: self.ahead.brokers)
    @rule(
        data=st.data(), kind=st.sampled_from([FenceBrokerRecord, UnfenceBrokerRecord, UnregisterBrokerRecord])
    )
    def fence_or_unregister(self, data: st.DataObject, kind: Any) -> None:
        broker = self.ahead.brokers[data.draw(st.sampled_from(sorted(self.ahead.brokers)))]
        self.write(kind(broker.id, broker.epoch))

    @rule(name=names, uuid=uuids)
    def topic(self, name: str, uuid: KafkaUuid) -> None:
        if name not in self.ahead.topic_ids and uuid not in self.ahead.topics:
            self.write(TopicRecord(name, uuid))

    @precondition(lambda self: self.ahead.topics)
    @rule(data=st.data())
    def remove_topic(self, data: st.DataObject) -> None:
        self.write(RemoveTopicRecord(data.draw(st.sampled_from(sorted(self.ahead.topics)))))

    @precondition(lambda self: self.ahead.topics)
    @rule(data=st.data(), number=st.integers(0, 2), ids=replicas, isr=few, adding=few, removing=few, elr=few,
          leader=leaders, has_folders=st.booleans(), folder=uuids, recovery=st.integers(0, 1))  # fmt: skip
    def partition(
        self, data: st.DataObject, number: int, ids: list[int], isr: list[int], adding: list[int],
        removing: list[int], elr: list[int], leader: int, has_folders: bool, folder: KafkaUuid, recovery: int,
    ) -> None:  # fmt: skip
        topic_id = data.draw(st.sampled_from(sorted(self.ahead.topics)))
        folders = [folder] * len(ids) if has_folders else []
        record = PartitionRecord(
            number, topic_id, ids, isr, removing, adding, leader, recovery, 3, 4, folders
        )
        record.eligible_leader_replicas = elr or None
        record.last_known_elr = data.draw(st.none() | few)
        record.original_replicas = data.draw(st.none() | replicas)
        self.write(record)

    @precondition(lambda self: partitions_of(self.ahead))
    @rule(data=st.data(), isr=st.none() | few, elr=st.none() | few, adding=st.none() | few, removing=st.none() | few,
          last=st.none() | few, ids=st.none() | replicas, leader=st.just(-2) | leaders, folder=uuids,
          recovery=st.integers(-1, 1))  # fmt: skip
    def change_partition(
        self, data: st.DataObject, isr: list[int] | None, elr: list[int] | None, adding: list[int] | None,
        removing: list[int] | None, last: list[int] | None, ids: list[int] | None, leader: int,
        folder: KafkaUuid, recovery: int,
    ) -> None:  # fmt: skip
        where = data.draw(st.sampled_from(sorted(partitions_of(self.ahead))))
        record = PartitionChangeRecord(where.number, where.topic_id)
        record.isr, record.eligible_leader_replicas, record.last_known_elr = isr, elr, last
        record.adding_replicas, record.removing_replicas = adding, removing
        record.leader, record.leader_recovery_state, record.replicas = leader, recovery, ids
        record.original_replicas = data.draw(st.none() | replicas)
        if ids is not None:
            record.directories = [folder] * len(ids)
        self.write(record)

    @rule(kind=st.sampled_from([2, 4, 16, 32]), name=names, key=names, value=st.none() | st.text(max_size=2))
    def config(self, kind: int, name: str, key: str, value: str | None) -> None:
        self.write(ConfigRecord(kind, name, key, value))

    @rule(name=names, level=st.integers(0, 3))
    def feature(self, name: str, level: int) -> None:
        self.write(FeatureLevelRecord(name, level))

    @rule(next_id=st.integers(0, 5))
    def producer_ids(self, next_id: int) -> None:
        self.write(ProducerIdsRecord(1, 1, next_id))

    @rule(data=st.data())
    def clear_elr(self, data: st.DataObject) -> None:
        self.write(ClearElrRecord(data.draw(st.sampled_from(["", *sorted(self.ahead.topic_ids)]))))

    @precondition(lambda self: self.began is None)
    @rule()
    def begin(self) -> None:
        self.began = len(self.changes_ahead), self.image.fingerprint(), self.image.hash
        self.image.apply(BeginTransactionRecord(), self.changes)

    @precondition(lambda self: self.began is not None)
    @rule(aborts=st.booleans())
    def end(self, aborts: bool) -> None:
        assert self.began is not None
        if aborts:
            undo(reversed(self.changes_ahead[self.began[0] :]))
            del self.changes_ahead[self.began[0] :]
            # Nothing leads back into what was never done.
            while self.marks and self.marks[-1][2] is not None:
                self.marks.pop()
        self.image.apply(AbortTransactionRecord() if aborts else EndTransactionRecord(), self.changes)
        self.began = None

    @rule()
    def mark(self) -> None:
        self.marks.append((len(self.changes), len(self.changes_ahead), self.began, self.seen()))

    @precondition(lambda self: self.marks)
    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.marks) - 1))
        length, length_ahead, self.began, seen = self.marks[place]
        del self.marks[place + 1 :]
        undo(reversed(self.changes[length:]))
        undo(reversed(self.changes_ahead[length_ahead:]))
        del self.changes[length:], self.changes_ahead[length_ahead:]
        assert self.seen() == seen

    def seen(self) -> object:
        image, ahead = self.image, self.ahead
        return (
            (image.fingerprint(), image.hash, index_of(image), image.in_transaction),
            (ahead.fingerprint(), ahead.hash, index_of(ahead)),
        )

    @invariant()
    def transactions_are_applied_at_their_end(self) -> None:
        image, ahead = self.image, self.ahead
        assert image.in_transaction == (self.began is not None)
        if self.began is not None:
            assert (image.fingerprint(), image.hash) == self.began[1:]
        else:
            assert (image.fingerprint(), image.hash) == (ahead.fingerprint(), ahead.hash)

    @invariant()
    def the_index_is_that_of_the_partitions(self) -> None:
        assert index_of(self.image) == counted(self.image)
        assert index_of(self.ahead) == counted(self.ahead)

    @invariant()
    def its_records_make_it_again(self) -> None:
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


Records.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestClusterImage = Records.TestCase
