"""The effect of each record on the image, as in stock readers, and records that every reader rejects."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from quorumd.controller.cluster_image import KRAFT_VERSION, ClusterImage
from quorumd.controller.partition import RECOVERING, Partition, PartitionId, partition_record
from quorumd.errors import MalformedMessage
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
from quorumd.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

TOPIC = KafkaUuid(bytes(15) + b"\x07")
OTHER = KafkaUuid(bytes(15) + b"\x08")
WHERE = PartitionId(TOPIC, 0)
DIRECTORY_IDS = [KafkaUuid(bytes(15) + bytes([number])) for number in range(1, 5)]


def change(**fields: Any) -> PartitionChangeRecord:
    record = PartitionChangeRecord(0, TOPIC)
    for name, value in fields.items():
        setattr(record, name, value)
    return record


@pytest.fixture
def image() -> ClusterImage:
    image = ClusterImage()
    for broker_id in (1, 2, 3):
        image.apply(
            RegisterBrokerRecord(broker_id, False, DIRECTORY_IDS[broker_id], 10 + broker_id, fenced=True), []
        )
    image.apply(TopicRecord("t", TOPIC), [])
    image.apply(PartitionRecord(0, TOPIC, [1, 2, 3], [1, 2], leader=1, leader_epoch=4, partition_epoch=9), [])
    return image


def partition(image: ClusterImage) -> Partition:
    found = image.partition(WHERE)
    assert found is not None
    return found


def test_registration_replaces_the_previous_one(image: ClusterImage) -> None:
    endpoint = BrokerEndpoint("L", "host", 9092, 0)
    image.apply(
        RegisterBrokerRecord(
            1, False, DIRECTORY_IDS[3], 20, [endpoint], rack="r", log_dirs=DIRECTORY_IDS[:2]
        ),
        [],
    )
    broker = image.brokers[1]
    assert (broker.epoch, broker.incarnation_id, broker.rack) == (20, DIRECTORY_IDS[3], "r")
    assert broker.endpoints[0].host == "host"
    assert broker.is_fenced
    assert broker.directories == tuple(DIRECTORY_IDS[:2])


def test_broker_change_keeps_unnamed_fields(image: ClusterImage) -> None:
    image.apply(BrokerRegistrationChangeRecord(1, 11, log_dirs=DIRECTORY_IDS[:1]), [])
    assert image.brokers[1].is_fenced
    image.apply(BrokerRegistrationChangeRecord(1, 11, fenced=-1), [])
    assert image.brokers[1].is_active
    image.apply(BrokerRegistrationChangeRecord(1, 11, in_controlled_shutdown=1), [])
    image.apply(BrokerRegistrationChangeRecord(1, 11), [])
    broker = image.brokers[1]
    assert not broker.is_fenced
    assert broker.in_controlled_shutdown
    assert broker.directories == tuple(DIRECTORY_IDS[:1])
    image.apply(BrokerRegistrationChangeRecord(1, 11, fenced=1), [])
    assert image.brokers[1].is_fenced


def test_legacy_fence_and_unfence_records(image: ClusterImage) -> None:
    image.apply(UnfenceBrokerRecord(1, 11), [])
    assert not image.brokers[1].is_fenced
    image.apply(FenceBrokerRecord(1, 11), [])
    assert image.brokers[1].is_fenced


def test_broker_may_unregister_while_partitions_name_it(image: ClusterImage) -> None:
    image.apply(UnregisterBrokerRecord(1, 11), [])
    assert 1 not in image.brokers
    assert partition(image).leader == 1
    assert set(image.index.partitions_with_broker(1)) == {WHERE}
    assert image.index.leader_count(1) == 1
    image.apply(change(isr=[2], leader=2), [])
    assert set(image.index.partitions_with_broker(1)) == set()
    assert image.index.leader_count(1) == 0


def test_change_bumps_partition_epoch_and_leader_epoch_if_it_names_a_leader(
    image: ClusterImage,
) -> None:
    image.apply(change(isr=[1, 2, 3]), [])
    assert (partition(image).leader_epoch, partition(image).partition_epoch) == (4, 10)
    image.apply(change(leader=1), [])
    assert (partition(image).leader_epoch, partition(image).partition_epoch) == (5, 11)
    image.apply(change(leader_recovery_state=RECOVERING), [])
    assert (partition(image).recovery, partition(image).leader_epoch) == (RECOVERING, 5)


def test_partition_record_replaces_existing_partition(image: ClusterImage) -> None:
    image.apply(PartitionRecord(0, TOPIC, [2, 3], [3], leader=3, leader_epoch=0, partition_epoch=0), [])
    assert partition(image) == Partition((2, 3), (3,), 3)
    assert [image.index.leader_count(broker_id) for broker_id in (1, 2, 3)] == [0, 0, 1]


def test_partition_record_has_every_field(image: ClusterImage) -> None:
    written = Partition((1, 2, 3), (1,), 1, 4, 9, (3,), (2,), (1, 2), (2,), (3,), RECOVERING)
    written.directories = tuple(DIRECTORY_IDS[1:])
    image.apply(partition_record(WHERE, written), [])
    assert partition(image) == written


def test_clearing_the_elr_changes_every_partition_that_has_one(image: ClusterImage) -> None:
    """As in stock readers, it bumps the partition epoch but not the leader epoch."""
    image.apply(TopicRecord("u", OTHER), [])
    for topic_id in (TOPIC, OTHER):
        record = PartitionRecord(1, topic_id, [1, 2], [1], leader=1, leader_epoch=4, partition_epoch=9)
        record.eligible_leader_replicas, record.last_known_elr = [2], [3]
        image.apply(record, [])
    untouched = partition(image)
    image.apply(ClearElrRecord("t"), [])
    cleared, other = image.topics[TOPIC].partitions[1], image.topics[OTHER].partitions[1]
    assert cleared == Partition((1, 2), (1,), 1, 4, 10)
    assert other.elr == (2,)
    image.apply(ClearElrRecord(""), [])
    assert image.topics[OTHER].partitions[1] == cleared
    assert (partition(image), image.topics[TOPIC].partitions[1]) == (untouched, cleared)
    assert set(image.index.partitions_with_broker(2)) == {WHERE}


def test_topic_removal_removes_its_configs(image: ClusterImage) -> None:
    image.apply(ConfigRecord(2, "t", "min.insync.replicas", "2"), [])
    image.apply(ConfigRecord(2, "u", "min.insync.replicas", "3"), [])
    image.apply(ConfigRecord(32, "t", "of a group", "1"), [])
    image.apply(RemoveTopicRecord(TOPIC), [])
    assert image.configs == {(2, "u"): {"min.insync.replicas": "3"}, (32, "t"): {"of a group": "1"}}
    assert image.topic_by_name("t") is None
    assert image.partition(WHERE) is None
    assert image.index.leader_counts == {}
    assert image.topic_revision(TOPIC) == image.topic_revision(OTHER)
    image.apply(TopicRecord("t", OTHER), [])
    assert image.min_isr("t") == 1


def test_level_0_removes_a_feature(image: ClusterImage) -> None:
    before = image.hash
    image.apply(FeatureLevelRecord("group.version", 1), [])
    image.apply(FeatureLevelRecord("group.version", 0), [])
    assert image.features == {}
    assert image.hash == before


def test_kraft_version_is_not_a_feature_of_the_image(image: ClusterImage) -> None:
    image.apply(FeatureLevelRecord(KRAFT_VERSION, 1), [])
    assert image.features == {}


def test_allocated_producer_ids_are_recorded(image: ClusterImage) -> None:
    image.apply(ProducerIdsRecord(1, 11, 1000), [])
    assert image.next_producer_id == 1000


@pytest.mark.parametrize(
    "record",
    [
        BrokerRegistrationChangeRecord(1, 10),
        BrokerRegistrationChangeRecord(9, 11),
        BrokerRegistrationChangeRecord(1, 11, fenced=2),
        BrokerRegistrationChangeRecord(1, 11, in_controlled_shutdown=-1),
        FenceBrokerRecord(1, 12),
        UnfenceBrokerRecord(9, 11),
        UnregisterBrokerRecord(1, 12),
        UnregisterBrokerRecord(9, 11),
        TopicRecord("t", OTHER),
        TopicRecord("u", TOPIC),
        RemoveTopicRecord(OTHER),
        PartitionRecord(0, OTHER, [1], [1], leader=1),
        PartitionRecord(0, TOPIC, [1, 2], [1], leader=1, directories=DIRECTORY_IDS[:1]),
        PartitionRecord(0, TOPIC, [1], [1], leader=1, leader_recovery_state=2),
        PartitionChangeRecord(1, TOPIC),
        PartitionChangeRecord(0, OTHER),
        change(replicas=[1, 2], directories=DIRECTORY_IDS[:1]),
        change(leader_recovery_state=2),
        ClearElrRecord("u"),
        EndTransactionRecord(),
        AbortTransactionRecord(),
    ],
    ids=repr,
)
def test_contradictory_record_is_rejected_without_changes(image: ClusterImage, record: Any) -> None:
    before = image.fingerprint(), image.hash
    with pytest.raises(MalformedMessage):
        image.apply(record, [])
    assert (image.fingerprint(), image.hash) == before


def test_replica_change_must_name_directories(image: ClusterImage) -> None:
    image.apply(change(replicas=[1, 2, 3], directories=DIRECTORY_IDS[:3]), [])
    with pytest.raises(MalformedMessage, match=r"2 replicas .*3 directories"):
        image.apply(change(replicas=[1, 2]), [])


def test_nested_transaction_is_rejected(image: ClusterImage) -> None:
    image.apply(BeginTransactionRecord(), [])
    with pytest.raises(MalformedMessage, match="transaction"):
        image.apply(BeginTransactionRecord(), [])


def test_contradiction_in_a_transaction_is_reported_at_its_end(image: ClusterImage) -> None:
    image.apply(BeginTransactionRecord(), [])
    image.apply(RemoveTopicRecord(OTHER), [])
    with pytest.raises(MalformedMessage, match="does not exist"):
        image.apply(EndTransactionRecord(), [])


def test_aborted_transaction_leaves_no_trace(image: ClusterImage) -> None:
    before = image.fingerprint(), image.hash
    for record in (BeginTransactionRecord(), RemoveTopicRecord(TOPIC), AbortTransactionRecord()):
        image.apply(record, [])
    assert (image.fingerprint(), image.hash) == before


def test_equal_tuples_are_interned(image: ClusterImage) -> None:
    """A million partitions share a few replica sets."""
    for number in range(2):
        directory_ids = [KafkaUuid(bytes(each)) for each in DIRECTORY_IDS[:3]]
        image.apply(
            PartitionRecord(number, TOPIC, [1, 2, 3], [1, 2, 3], leader=1, directories=directory_ids), []
        )
    first, second = image.topics[TOPIC].partitions.values()
    assert first.replicas is first.isr is second.replicas is second.isr
    assert first.directories is second.directories
    image.apply(change(isr=[1, 2]), [])
    image.apply(change(isr=[1, 2, 3]), [])
    assert partition(image).isr is second.isr
    ids = [
        next(iter(tp for tp in image.index.partitions_with_broker(broker_id) if tp.number == 0))
        for broker_id in (1, 3)
    ]
    assert ids[0] is ids[1]


def test_replaced_image_is_freed_without_garbage_collection(image: ClusterImage) -> None:
    def images() -> int:
        return sum(type(thing) is ClusterImage for thing in gc.get_objects())

    gc.disable()
    try:
        before = images()
        another = ClusterImage()
        another.apply(TopicRecord("t", TOPIC), [])
        assert images() == before + 1
        del another
        assert images() == before
    finally:
        gc.enable()


def test_open_transaction_is_reported(image: ClusterImage) -> None:
    assert not image.in_transaction
    image.apply(BeginTransactionRecord("t"), [])
    assert image.in_transaction
    image.apply(AbortTransactionRecord(), [])
    assert not image.in_transaction
