from __future__ import annotations

import pytest

from quorumd.controller.features import SUPPORTED_FEATURES
from quorumd.controller.partition import Partition, PartitionId, record_of
from quorumd.controller.record_versions import record_version
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.wire import Message

DIRECTORY = KafkaUuid(b"some directory..")
WHERE = PartitionId(KafkaUuid(b"the topic's id.."), 0)
PARTITION = record_of(WHERE, Partition((1,), (1,), 1, directories=(DIRECTORY,)))


@pytest.mark.parametrize(
    ("record", "at_21", "at_23"),
    [
        (PARTITION, 1, 2),
        (PartitionChangeRecord(directories=[DIRECTORY]), 1, 2),
        (RegisterBrokerRecord(1, log_dirs=[DIRECTORY]), 3, 3),
        (BrokerRegistrationChangeRecord(1, 2, fenced=1), 0, 0),
        (BrokerRegistrationChangeRecord(1, 2, in_controlled_shutdown=1), 1, 1),
        (BrokerRegistrationChangeRecord(1, 2, log_dirs=[DIRECTORY]), 2, 2),
        (FeatureLevelRecord("metadata.version", 25), 0, 0),
    ],
)
def test_a_record_is_written_as_readers_at_the_metadata_version_know_it(
    record: Message, at_21: int, at_23: int
) -> None:
    _, lowest, highest = SUPPORTED_FEATURES[0]
    assert [record_version(record, level) for level in (lowest, 22)] == [at_21] * 2
    assert [record_version(record, level) for level in (23, highest)] == [at_23] * 2
    for level in range(lowest, highest + 1):
        assert encode_record(record, record_version(record, level))
