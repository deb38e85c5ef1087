from __future__ import annotations

import pytest

from quorumd.controller.metadata_versions import SUPPORTED_FEATURES
from quorumd.controller.partition import Partition, PartitionId, partition_record
from quorumd.controller.record_versions import encode_for_version, record_version
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.metadata_record import decode_frame, encode_record
from quorumd.protocol.wire import Message

DIRECTORY = KafkaUuid(b"some directory..")
WHERE = PartitionId(KafkaUuid(b"the topic's id.."), 0)
PARTITION = partition_record(WHERE, Partition((1,), (1,), 1, directories=(DIRECTORY,)))


@pytest.mark.parametrize(
    ("record", "at_21", "at_23", "at_30"),
    [
        (PARTITION, 1, 2, 2),
        (PartitionChangeRecord(directories=[DIRECTORY]), 1, 2, 2),
        (RegisterBrokerRecord(1, log_dirs=[DIRECTORY]), 3, 3, 4),
        (BrokerRegistrationChangeRecord(1, 2, fenced=1), 0, 0, 0),
        (BrokerRegistrationChangeRecord(1, 2, in_controlled_shutdown=1), 1, 1, 1),
        (BrokerRegistrationChangeRecord(1, 2, log_dirs=[DIRECTORY]), 2, 2, 2),
        (FeatureLevelRecord("metadata.version", 25), 0, 0, 0),
    ],
)
def test_record_version_follows_the_metadata_version(
    record: Message, at_21: int, at_23: int, at_30: int
) -> None:
    _, lowest, highest = SUPPORTED_FEATURES[0]
    assert [record_version(record, level) for level in (lowest, 22)] == [at_21] * 2
    assert [record_version(record, level) for level in (23, 29)] == [at_23] * 2
    assert [record_version(record, level) for level in (30, highest)] == [at_30] * 2
    for level in range(lowest, highest + 1):
        assert encode_record(record, record_version(record, level))


@pytest.mark.parametrize("level", [7, 8, 14, 17, 22, 23, 29, 30])
def test_fields_unknown_at_a_level_are_not_written(level: int) -> None:
    """As in Kafka: 3.4-IV0 has brokers that migrate from ZooKeeper, 3.7-IV2 directories, 4.0-IV1 the ELR,
    4.3-IV0 cordoned directories."""
    partition = PartitionRecord(0, WHERE.topic_id, [1], [1], leader=1, directories=[DIRECTORY])
    change = PartitionChangeRecord(0, WHERE.topic_id, directories=[DIRECTORY])
    for record in (partition, change):
        record.eligible_leader_replicas = [1]
    broker = RegisterBrokerRecord(1, True, DIRECTORY, 5, log_dirs=[DIRECTORY], cordoned_log_dirs=[DIRECTORY])
    broker_change = BrokerRegistrationChangeRecord(1, 5, 0, 1, [DIRECTORY], [DIRECTORY])
    versions = []
    for record in (partition, change, broker, broker_change):
        written, version = decode_frame(encode_for_version(record, level))
        assert written == record, "the applied record holds what was written"
        versions.append(version)
    of_partitions = 2 if level >= 23 else 1 if level >= 17 else 0
    of_brokers = 4 if level >= 30 else 3 if level >= 17 else 2 if level >= 8 else 1
    of_changes = 3 if level >= 30 else 2 if level >= 17 else 1
    assert versions == [of_partitions, of_partitions, of_brokers, of_changes]


@pytest.mark.parametrize("level", [7, 8, 14, 17, 22, 23, 29, 30])
def test_fields_known_at_a_level_are_written(level: int) -> None:
    partition = PartitionRecord(0, WHERE.topic_id, [1], [1], leader=1, directories=[DIRECTORY])
    partition.eligible_leader_replicas = [1]
    broker = RegisterBrokerRecord(1, True, DIRECTORY, 5, log_dirs=[DIRECTORY], cordoned_log_dirs=[DIRECTORY])
    change = BrokerRegistrationChangeRecord(1, 5, 0, 1, [DIRECTORY], [DIRECTORY])
    for record in (partition, broker, change):
        encode_for_version(record, level)
    assert broker.is_migrating_zk_broker is (level >= 8)
    for directories in (partition.directories, broker.log_dirs, change.log_dirs):
        assert bool(directories) is (level >= 17)
    assert bool(partition.eligible_leader_replicas) is (level >= 23)
    for cordoned in (broker.cordoned_log_dirs, change.cordoned_log_dirs):
        assert bool(cordoned) is (level >= 30)
