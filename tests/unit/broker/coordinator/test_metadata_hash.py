"""The hash of a group's topics is that of Kafka's `Utils.computeTopicHash` and `computeGroupHash` (4.3.1)."""

from __future__ import annotations

import pytest

from quorumd.broker.coordinator.metadata_hash import NO_TOPICS, group_hash, topic_hash
from quorumd.broker.coordinator.metadata_topics import MetadataTopics
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.ids import KafkaUuid
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch
from quorumd.protocol.wire import Message

ID = KafkaUuid(bytes.fromhex("0123456789abcdeffedcba9876543210"))
OTHER = KafkaUuid(b"\x11" * 8 + b"\x22" * 8)
FOO, BAR = 4231092367357902416, 8733119781167439863


@pytest.mark.parametrize(
    ("topic_id", "name", "racks", "expected"),
    [
        (ID, "foo", [["rack1", "rack0"], ["rack2", "rack1"]], FOO),
        (OTHER, "bar", [[]], BAR),
        (KafkaUuid(bytes(16)), "empty", [], 728769691835767132),
        (ID, "foo", [["r", "r"]], 2883780561648472600),
        (ID, "foo", [["\ue000", "\U0001f600"]], 4767223826197171634),
        (ID, "té", [["é"]], 480043309326700168),
    ],
)
def test_topic_has_kafkas_hash(topic_id: KafkaUuid, name: str, racks: list[list[str]], expected: int) -> None:
    assert topic_hash(topic_id, name, racks) == expected


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ({}, NO_TOPICS),
        ({"foo": FOO}, -3651539661068893492),
        ({"foo": FOO, "bar": BAR}, -556879919459959918),
        ({"bar": 123, "foo": 456}, 1482712172080382793),
    ],
)
def test_group_has_kafkas_hash(topics: dict[str, int], expected: int) -> None:
    assert group_hash(topics) == expected


def apply(metadata: BrokerMetadata, topics: MetadataTopics, *records: Message) -> None:
    frames = [encode_record(record, record.MAX_VERSION) for record in records]
    data = encode_batch(metadata.offset + 1, 1, 0, frames)
    topics.apply(metadata.apply(data, next(iter(headers(data)))))


def test_hash_of_a_topic_follows_the_metadata() -> None:
    metadata = BrokerMetadata()
    topics = MetadataTopics(metadata)
    assert topics.hash("foo") is None
    brokers = [RegisterBrokerRecord(number, broker_epoch=number, rack=f"rack{number}") for number in range(3)]
    partitions = [
        PartitionRecord(0, ID, [0, 1, 9], [0], leader=0),
        PartitionRecord(1, ID, [2, 1], [2], leader=2),
    ]
    apply(metadata, topics, *brokers, TopicRecord("foo", ID), *partitions)
    assert topics.hash("foo") == FOO, "broker 9 is not registered, so it has no rack"
    apply(metadata, topics, PartitionChangeRecord(0, ID, isr=[0, 1]))
    assert topics.hash("foo") == FOO
    apply(metadata, topics, PartitionChangeRecord(0, ID, replicas=[0, 2]))
    moved = topic_hash(ID, "foo", [["rack0", "rack2"], ["rack1", "rack2"]])
    assert topics.hash("foo") == moved
    apply(metadata, topics, RegisterBrokerRecord(2, broker_epoch=7, rack=None))
    assert topics.hash("foo") == topic_hash(ID, "foo", [["rack0"], ["rack1"]])
    apply(metadata, topics, RemoveTopicRecord(ID))
    assert topics.hash("foo") is None
    apply(metadata, topics, TopicRecord("foo", OTHER))
    assert topics.hash("foo") == topic_hash(OTHER, "foo", [])
