from __future__ import annotations

from contextlib import suppress

import pytest

from quorumd.controller import intern_pool
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.image_records import snapshot_frames, snapshot_records
from quorumd.controller.opaque_records import canonical_frame
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.errors import MalformedMessage
from quorumd.ids import KafkaUuid
from quorumd.protocol import messages
from quorumd.protocol.apis import record_class
from quorumd.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.delegation_token_record import DelegationTokenRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from quorumd.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from quorumd.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from quorumd.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unregister_controller_record import UnregisterControllerRecord
from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from quorumd.protocol.metadata_record import decode_record, encode_record
from quorumd.protocol.wire import Message

TOPIC = KafkaUuid(b"an id of 16 byte")


def test_image_records_are_ordered_with_features_first() -> None:
    image = ClusterImage()
    image.set_config((32, "g"), "b", "2", [])
    image.set_config((32, "g"), "a", "", [])
    image.set_config((4, ""), "z", "1", [])
    image.set_config((4, "1"), "gone", "1", [])
    image.set_config((4, "1"), "gone", None, [])
    image.apply(FeatureLevelRecord("metadata.version", 25), [])
    image.apply(FeatureLevelRecord("group.version", 1), [])
    assert list(snapshot_records(image)) == [
        FeatureLevelRecord("group.version", 1),
        FeatureLevelRecord("metadata.version", 25),
        ConfigRecord(4, "", "z", "1"),
        ConfigRecord(32, "g", "a", ""),
        ConfigRecord(32, "g", "b", "2"),
    ]


def test_image_handles_every_record_type() -> None:
    """A record without state, or whose state is missing, may be rejected, but none is ignored."""
    for api_key in messages.RECORDS:
        with suppress(MalformedMessage):
            ClusterImage().apply(record_class(api_key)(), [])


OPAQUE_KEYS = [
    (AccessControlEntryRecord(TOPIC, 2, "t"), RemoveAccessControlEntryRecord(TOPIC)),
    (UserScramCredentialRecord("u", 1, b"s"), RemoveUserScramCredentialRecord("u", 1)),
    (DelegationTokenRecord("u", "u", [], 1, 2, 3, "t"), RemoveDelegationTokenRecord("t")),
    (
        ClientQuotaRecord([EntityData("user", None), EntityData("client-id", "c")], "rate", 0.1),
        ClientQuotaRecord([EntityData("client-id", "c"), EntityData("user", None)], "rate", remove=True),
    ),
    (RegisterControllerRecord(7), UnregisterControllerRecord(7)),
]


@pytest.mark.parametrize(("record", "removal"), OPAQUE_KEYS, ids=lambda record: type(record).__name__)
def test_unused_records_are_kept_until_removed(record: Message, removal: Message) -> None:
    image = ClusterImage()
    image.apply(record, [])
    assert list(snapshot_records(image)) == [record]
    changes: list[UndoEntry] = []
    with_it = image.fingerprint(), image.hash
    image.apply(removal, changes)
    assert (image.fingerprint(), image.hash) == (ClusterImage().fingerprint(), 0)
    undo(reversed(changes))
    assert (image.fingerprint(), image.hash) == with_it


@pytest.mark.parametrize(("record", "removal"), OPAQUE_KEYS, ids=lambda record: type(record).__name__)
def test_removing_missing_state_is_ignored_or_rejected_as_in_kafka(record: Message, removal: Message) -> None:
    image = ClusterImage()
    if isinstance(removal, RemoveAccessControlEntryRecord):
        with pytest.raises(MalformedMessage, match="does not exist"):
            image.apply(removal, [])
    else:
        image.apply(removal, [])
    assert image.hash == 0


def test_default_entity_differs_from_all_names() -> None:
    image = ClusterImage()
    for name in (None, "", "alice"):
        image.apply(ClientQuotaRecord([EntityData("user", name)], "rate", 1.0), [])
    assert len(list(snapshot_records(image))) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            ClientQuotaRecord([EntityData("user", None), EntityData("client-id", "c")], "rate", 0.1),
            ClientQuotaRecord([EntityData("client-id", "c"), EntityData("user", None)], "rate", 0.1),
        ),
        (
            RegisterControllerRecord(
                7, features=[ControllerFeature("a", 0, 1), ControllerFeature("b", 0, 2)]
            ),
            RegisterControllerRecord(
                7, features=[ControllerFeature("b", 0, 2), ControllerFeature("a", 0, 1)]
            ),
        ),
        (
            RegisterControllerRecord(
                7, end_points=[ControllerEndpoint("A", "h", 1, 0), ControllerEndpoint("B", "h", 2, 0)]
            ),
            RegisterControllerRecord(
                7, end_points=[ControllerEndpoint("B", "h", 2, 0), ControllerEndpoint("A", "h", 1, 0)]
            ),
        ),
    ],
    ids=lambda record: type(record).__name__,
)
def test_record_order_of_stock_controllers_does_not_matter(one: Message, other: Message) -> None:
    images = ClusterImage(), ClusterImage()
    for image, record in zip(images, (one, other), strict=True):
        image.apply(record, [])
        assert list(snapshot_records(image)) == [record]
    assert images[0].fingerprint() == images[1].fingerprint()
    assert images[0].hash == images[1].hash
    images[0].apply(other, [])
    assert images[0].hash == images[1].hash


def test_kept_records_survive_a_transaction_unchanged() -> None:
    image = ClusterImage()
    frame = encode_record(DelegationTokenRecord(token_id="t"), 0)[:-1] + bytes([1, 9, 1, 0xFF])
    for value in (
        encode_record(BeginTransactionRecord(), 0),
        frame,
        encode_record(EndTransactionRecord(), 0),
    ):
        image.apply(decode_record(value), [], value)
    assert list(snapshot_frames(image)) == [frame]


def test_broker_directories_are_kept() -> None:
    image = ClusterImage()
    image.apply(FeatureLevelRecord("metadata.version", 30), [])
    image.apply(RegisterBrokerRecord(1, True, TOPIC, 5, log_dirs=[TOPIC], cordoned_log_dirs=[]), [])
    image.apply(BrokerRegistrationChangeRecord(1, 5), [])
    assert list(snapshot_records(image))[1].cordoned_log_dirs == []
    image.apply(BrokerRegistrationChangeRecord(1, 5, cordoned_log_dirs=[TOPIC]), [])
    record = RegisterBrokerRecord(1, True, TOPIC, 5, log_dirs=[TOPIC], cordoned_log_dirs=[TOPIC])
    assert list(snapshot_frames(image))[1] == encode_record(record, 4)
    image.apply(FeatureLevelRecord("metadata.version", 29), [])
    record.cordoned_log_dirs = None
    assert list(snapshot_frames(image))[1] == encode_record(record, 3)


def test_records_of_topics_are_followed_by_those_of_their_partitions() -> None:
    image = ClusterImage()
    image.apply(TopicRecord("t", TOPIC), [])
    for number in (1, 0):
        image.apply(PartitionRecord(number, TOPIC, [1], [1], leader=1), [])
    kinds = [(type(record), getattr(record, "partition_id", None)) for record in snapshot_records(image)]
    assert kinds == [(TopicRecord, None), (PartitionRecord, 0), (PartitionRecord, 1)]


@pytest.mark.stand_in
def test_full_intern_pool_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intern_pool, "MAX_ENTRIES", 2)
    pool = intern_pool.InternPool()
    for number in range(5):
        directory = KafkaUuid(bytes(15) + bytes([number]))
        assert pool.replicas([number, 9]) is pool.replicas([number, 9])
        assert pool.encoded_replicas(bytes([3, 0, 0, 0, number, 0, 0, 0, 9])) is pool.replicas([number, 9])
        assert pool.directories([directory]) is pool.directories([directory])
        assert pool.encoded_directories(bytes([2]) + directory) is pool.directories([directory])
        assert (pool.replicas([number, 9]), pool.directories([directory])) == ((number, 9), (directory,))
    assert (len(pool._replicas), len(pool._encoded)) == (1, 1)
    assert (len(pool._directories), len(pool._encoded_directories)) == (1, 1)
    assert len(pool._ids) <= 2


def test_record_with_unknown_fields_is_kept_as_written() -> None:
    """Its entries may not be sorted either: an unknown field may depend on their order."""
    entity = [EntityData("user", "u"), EntityData("client-id", "c")]
    known = encode_record(ClientQuotaRecord(entity, "producer_byte_rate", 1.0), 0)
    unknown = known[:-1] + bytes.fromhex("01 63 01 00")
    assert canonical_frame(known) != known
    assert canonical_frame(unknown) == unknown
