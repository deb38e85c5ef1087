"""A broker's metadata: the image of what is committed, and what each batch changed."""

from __future__ import annotations

import pytest

from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.broker.metadata.metadata_delta import MetadataDelta, RemovedTopic
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import PartitionId
from quorumd.errors import MalformedMessage
from quorumd.ids import KafkaUuid
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.clear_elr_record import ClearElrRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch
from quorumd.protocol.wire import Message

FIRST, SECOND = KafkaUuid(b"the first topic."), KafkaUuid(b"the second topic")


def apply(metadata: BrokerMetadata, *records: Message) -> MetadataDelta:
    frames = [encode_record(record, record.MAX_VERSION) for record in records]
    data = encode_batch(metadata.offset + 1, 1, 0, frames)
    return metadata.apply(data, next(iter(headers(data))))


def topic(topic_id: KafkaUuid, name: str, partitions: int = 1) -> list[Message]:
    created = [PartitionRecord(number, topic_id, [1], [1], leader=1) for number in range(partitions)]
    return [TopicRecord(name, topic_id), *created]


def test_delta_names_each_change_once_in_order() -> None:
    metadata = BrokerMetadata()
    delta = apply(
        metadata,
        *topic(FIRST, "first", 2),
        ConfigRecord(2, "first", "retention.ms", "1"),
        PartitionChangeRecord(0, FIRST, isr=[1]),
        ConfigRecord(2, "first", "retention.bytes", "1"),
    )
    assert delta == MetadataDelta(
        5, False, (FIRST,), (), (PartitionId(FIRST, 0), PartitionId(FIRST, 1)), ((2, "first"),)
    )
    assert metadata.offset == 5


def test_removed_topic_has_its_former_partitions() -> None:
    metadata = BrokerMetadata()
    apply(metadata, *topic(FIRST, "first", 2))
    delta = apply(metadata, PartitionChangeRecord(0, FIRST, isr=[1]), RemoveTopicRecord(FIRST))
    assert delta == MetadataDelta(4, removed_topics=(RemovedTopic(FIRST, "first", (0, 1)),))


def test_topic_created_and_deleted_in_one_batch_is_not_a_change() -> None:
    delta = apply(BrokerMetadata(), *topic(FIRST, "first"), RemoveTopicRecord(FIRST))
    assert delta == MetadataDelta(2)


def test_records_of_a_transaction_count_at_its_end() -> None:
    metadata = BrokerMetadata()
    assert apply(metadata, BeginTransactionRecord(), *topic(FIRST, "first")) == MetadataDelta(2)
    assert FIRST not in metadata.image.topics
    delta = apply(metadata, EndTransactionRecord())
    assert (delta.new_topics, delta.partitions) == ((FIRST,), (PartitionId(FIRST, 0),))
    apply(metadata, BeginTransactionRecord(), *topic(SECOND, "second"))
    assert apply(metadata, AbortTransactionRecord()) == MetadataDelta(7)


def test_snapshot_changes_everything_and_removes_what_it_lacks() -> None:
    metadata = BrokerMetadata()
    apply(metadata, *topic(FIRST, "first"), ConfigRecord(2, "first", "retention.ms", "1"))
    image = ClusterImage()
    for record in topic(SECOND, "second"):
        image.apply(record, [])
    delta = metadata.load(image, 30)
    assert delta == MetadataDelta(
        29,
        True,
        (SECOND,),
        (RemovedTopic(FIRST, "first", (0,)),),
        (PartitionId(SECOND, 0),),
        ((2, "first"),),
    )
    assert (metadata.image, metadata.offset) == (image, 29)


def test_contradiction_is_reported_with_its_offset() -> None:
    metadata = BrokerMetadata()
    apply(metadata, *topic(FIRST, "first"))
    with pytest.raises(MalformedMessage, match="at offset 3: "):
        apply(metadata, ConfigRecord(2, "first", "retention.ms", "1"), *topic(SECOND, "first"))


def test_cleared_elr_changes_the_partitions_of_one_topic_or_of_all() -> None:
    metadata = BrokerMetadata()
    apply(metadata, *topic(FIRST, "first", 2), *topic(SECOND, "second"))
    first = (PartitionId(FIRST, 0), PartitionId(FIRST, 1))
    assert apply(metadata, ClearElrRecord("first")).partitions == first
    assert set(apply(metadata, ClearElrRecord()).partitions) == {*first, PartitionId(SECOND, 0)}


def test_changed_broker_is_named() -> None:
    metadata = BrokerMetadata()
    registered = RegisterBrokerRecord(4, broker_epoch=7, fenced=True)
    assert apply(metadata, registered).brokers == (4,)
    assert apply(metadata, UnfenceBrokerRecord(4, 7)).brokers == (4,)
    assert apply(metadata, FenceBrokerRecord(4, 7)).brokers == (4,)
    assert metadata.endpoint(4, "UNKNOWN") is None
    assert metadata.endpoint(5, "PLAINTEXT") is None


@pytest.mark.parametrize(
    ("kind", "name", "changes"),
    [
        (ConfigResourceType.BROKER, "1", True),
        (ConfigResourceType.BROKER, "", True),
        (ConfigResourceType.BROKER, "2", False),
        (ConfigResourceType.TOPIC, "1", False),
    ],
)
def test_configs_of_a_broker_are_its_own_and_those_of_all(
    kind: ConfigResourceType, name: str, changes: bool
) -> None:
    delta = apply(BrokerMetadata(), ConfigRecord(int(kind), name, "cordoned.log.dirs", "/data"))
    assert delta.changes_broker_configs(1) is changes


def test_snapshot_may_change_the_configs_of_every_broker() -> None:
    assert BrokerMetadata().load(ClusterImage(), 5).changes_broker_configs(1)
