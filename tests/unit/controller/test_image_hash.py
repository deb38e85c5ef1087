"""Rows that differ have different hashes, and the sum of a cluster detects swapped fields."""

from __future__ import annotations

from random import Random
from typing import Any

from quorumd.controller.broker import Broker, BrokerEndpoint, BrokerFeature
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.image_hash import (
    HASH_BITS,
    broker_row,
    config_change,
    partition_row,
    replace_row,
    text_row,
)
from quorumd.controller.partition import Partition, PartitionId
from quorumd.controller.undo_log import UndoEntry
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.producer_ids_record import ProducerIdsRecord
from quorumd.protocol.messages.topic_record import TopicRecord

TOPIC, OTHER = KafkaUuid(bytes(16)), KafkaUuid(bytes(15) + b"\x01")
FIELDS: dict[str, Any] = {
    "replicas": (1, 2),
    "isr": (1,),
    "leader": 1,
    "leader_epoch": 3,
    "partition_epoch": 4,
    "adding": (),
    "removing": (),
    "original": (),
    "elr": (),
    "last_known_elr": (),
    "recovery": 0,
    "directories": (TOPIC, OTHER),
}
CHANGED: list[dict[str, Any]] = [
    {},
    {"replicas": (2, 1)},
    {"replicas": (1, 3)},
    {"isr": (2,)},
    {"isr": (1, 2)},
    {"isr": (2, 1)},
    {"isr": ()},
    {"leader": 2},
    {"leader": -1},
    {"leader_epoch": 4},
    {"partition_epoch": 3},
    *({name: (5,)} for name in ("adding", "removing", "original", "elr", "last_known_elr")),
    *({name: (5, 1)} for name in ("adding", "removing", "original", "elr", "last_known_elr")),
    {"adding": (5,), "original": (1,)},
    {"removing": (5,), "original": (1,)},
    {"original": (5, 1), "elr": (5,)},
    {"elr": (5,), "last_known_elr": (1,)},
    {"recovery": 1},
    {"directories": ()},
    {"directories": (OTHER, TOPIC)},
]


def test_every_partition_field_changes_its_row() -> None:
    partitions = [Partition(**(FIELDS | changed)) for changed in CHANGED]
    places = [PartitionId(TOPIC, 0), PartitionId(TOPIC, 1), PartitionId(OTHER, 0)]
    rows = [partition_row(tp, partition) for tp in places for partition in partitions]
    assert len(set(rows)) == len(rows)
    assert all(0 < row < 1 << HASH_BITS for row in rows)


def test_rows_of_many_replicas() -> None:
    tp = PartitionId(TOPIC, 0)
    rows = set()
    for count in range(1, 100):
        replicas = tuple(range(count))
        rows |= {partition_row(tp, Partition(replicas, isr, 0)) for isr in (replicas, replicas[::-1])}
    assert len(rows) == 2 * 99 - 1


def test_image_remembers_the_rows_of_its_partitions() -> None:
    image, changes = ClusterImage(), list[UndoEntry]()
    image.apply(TopicRecord("t", TOPIC), changes)
    for number in range(2):
        image.apply(PartitionRecord(number, TOPIC, [1, 2], [1, 2], leader=1), changes)
    image.apply(PartitionChangeRecord(1, TOPIC, isr=[1]), changes)
    for number, partition in image.topics[TOPIC].partitions.items():
        assert partition.row == partition_row(PartitionId(TOPIC, number), partition)


def test_every_broker_field_changes_its_row() -> None:
    broker = Broker(
        1,
        2,
        TOPIC,
        (BrokerEndpoint("L", "h", 1, 0),),
        (BrokerFeature("f", 0, 1),),
        None,
        True,
        False,
        (TOPIC,),
    )
    brokers = [
        broker,
        broker._replace(id=2),
        broker._replace(epoch=3),
        broker._replace(incarnation_id=OTHER),
        broker._replace(endpoints=(BrokerEndpoint("L", "h", 2, 0),)),
        broker._replace(features=()),
        broker._replace(rack=""),
        broker._replace(is_fenced=False),
        broker._replace(in_controlled_shutdown=True),
        broker._replace(directories=(OTHER,)),
    ]
    assert len({broker_row(each) for each in brokers}) == len(brokers)


def test_boundaries_of_strings_change_the_row() -> None:
    configs = [
        ((2, "ab"), "c", "d"),
        ((2, "a"), "bc", "d"),
        ((2, "a"), "b", "cd"),
        ((2, "ab\0c"), "", "d"),
        ((22, "ab"), "c", "d"),
        ((2, "2,1,ab"), "c", "d"),
    ]
    assert len({config_change(resource, key, None, value) for resource, key, value in configs}) == len(
        configs
    )
    texts = [("a", "b"), ("ab",), ("a\0b",), ("a", "b", ""), ("a', 'b",)]
    assert len({text_row(*parts) for parts in texts}) == len(texts)


def test_swapped_fields_do_not_cancel_out() -> None:
    """In a sum of plain checksums they often would: one change alters many rows by the same difference."""
    lots, differences = Random(1), set()
    for number in range(3000):
        tp, epochs = PartitionId(TOPIC, number), (lots.randrange(1 << 31), lots.randrange(1 << 31))
        one, other = (partition_row(tp, Partition((1, 2), (1, 2), leader, *epochs)) for leader in (1, 2))
        differences.add(replace_row(0, one, other))
    assert len(differences) == 3000


def test_producer_ids_are_hashed() -> None:
    image, other = ClusterImage(), ClusterImage()
    image.apply(ProducerIdsRecord(1, 1, 1000), [])
    other.apply(ProducerIdsRecord(1, 1, 2000), [])
    assert image.hash != other.hash
    other.apply(ProducerIdsRecord(2, 2, 1000), [])
    assert image.hash == other.hash


def test_replaced_row_leaves_no_trace() -> None:
    """Nodes that replaced rows in another order have the same hash."""
    one, other = text_row("one"), text_row("other")
    first = replace_row(0, 0, one)
    assert replace_row(first, one, other) == replace_row(0, 0, other)
    assert replace_row(first, one, 0) == 0
