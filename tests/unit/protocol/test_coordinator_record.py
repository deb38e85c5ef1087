"""Keys and values of the records of coordinators."""

from __future__ import annotations

import pytest

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.protocol.coordinator_record import (
    GROUP,
    TRANSACTION,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    key_class,
    value_class,
)
from quorumd.protocol.messages import COORDINATOR_RECORDS
from quorumd.protocol.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from quorumd.protocol.messages.offset_commit_key import OffsetCommitKey
from quorumd.protocol.messages.offset_commit_value import OffsetCommitValue
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.transaction_log_key import TransactionLogKey
from quorumd.protocol.messages.transaction_log_value import TransactionLogValue

KEY = bytes.fromhex("0001 0001 67 0001 74 00000007")
"""Type 1, group g, topic t, partition 7."""
VALUE = bytes.fromhex("0003 000000000000002a 00000005 0000 0000000000000064")
"""Version 3, offset 42, leader epoch 5, no metadata, committed at 100."""


def test_golden_bytes_of_a_committed_offset() -> None:
    key, value = OffsetCommitKey("g", "t", 7), OffsetCommitValue(42, 5, "", 100)
    assert encode_key(key) == KEY
    assert encode_value(value, 3) == VALUE
    assert decode_key(GROUP, KEY) == key
    assert decode_value(GROUP, key, VALUE) == value


def test_type_0_depends_on_the_coordinator() -> None:
    key = TransactionLogKey("id")
    assert encode_key(key) == bytes.fromhex("0000 0002 6964")
    assert decode_key(TRANSACTION, encode_key(key)) == key
    assert decode_value(TRANSACTION, key, encode_value(TransactionLogValue(9), 1)) == TransactionLogValue(9)
    assert key_class(GROUP, 0).NAME == "LegacyOffsetCommitKey"


@pytest.mark.parametrize("coordinator", COORDINATOR_RECORDS)
def test_every_record_round_trips_in_every_version(coordinator: str) -> None:
    for record_type in COORDINATOR_RECORDS[coordinator]:
        key, values = key_class(coordinator, record_type)(), value_class(coordinator, record_type)
        assert key.RECORD_TYPE == values.RECORD_TYPE == record_type
        assert key.API_KEY is values.API_KEY is None
        assert decode_key(coordinator, encode_key(key)) == key
        for version in range(values.MIN_VERSION, values.MAX_VERSION + 1):
            assert decode_value(coordinator, key, encode_value(values(), version)) == values()


@pytest.mark.parametrize("record_type", [9, 15, 17, -1])
def test_record_of_another_coordinator_is_unsupported(record_type: int) -> None:
    """Types 9 to 15 are share groups', 17 and above those of streams groups."""
    with pytest.raises(UnsupportedVersion, match=f"record type {record_type}$"):
        decode_key(GROUP, record_type.to_bytes(2, "big", signed=True) + KEY[2:])


def test_unknown_version_of_a_value_is_unsupported() -> None:
    with pytest.raises(UnsupportedVersion, match=r"OffsetCommitValue v5 .*0 to 4"):
        decode_value(GROUP, OffsetCommitKey(), b"\x00\x05" + VALUE[2:])


@pytest.mark.parametrize("data", [b"", b"\x00", KEY[:-1], KEY + b"\x00"])
def test_malformed_key_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_key(GROUP, data)


@pytest.mark.parametrize("data", [b"", b"\x00", VALUE[:-1], VALUE + b"\x00"])
def test_malformed_value_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_value(GROUP, OffsetCommitKey(), data)


def test_null_of_a_tagged_struct_differs_from_its_default() -> None:
    """Without the field a stock reader would take a consumer for one that uses the classic protocol."""
    key = key_class(GROUP, 5)()
    default = ConsumerGroupMemberMetadataValue()
    null = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    assert encode_value(null, 0) == encode_value(default, 0)[:-1] + bytes.fromhex("01 00 01 00")
    for value in (default, null):
        assert decode_value(GROUP, key, encode_value(value, 0)) == value


def test_only_records_of_coordinators_are_encoded() -> None:
    with pytest.raises(AssertionError, match="coordinator's record"):
        encode_key(TopicRecord())
