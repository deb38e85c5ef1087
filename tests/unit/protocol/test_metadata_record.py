"""Frames of metadata records: golden bytes and rejected input."""

from __future__ import annotations

import pytest

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.protocol import messages
from quorumd.protocol.apis import record_class
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.metadata_record import decode_frame, decode_record, encode_record

FEATURE_LEVEL = bytes.fromhex("010c00 11 6d657461646174612e76657273696f6e 0019 00")


def test_golden_bytes() -> None:
    """Frame version 1, key 12, version 0, then metadata.version = 25."""
    record = FeatureLevelRecord("metadata.version", 25)
    assert encode_record(record, 0) == FEATURE_LEVEL
    assert decode_record(FEATURE_LEVEL) == record
    assert decode_frame(FEATURE_LEVEL) == (record, 0)


def test_longer_varints_in_the_head() -> None:
    """The head of a frame that has been decoded is known by its first three bytes only if it ends there."""
    record = FeatureLevelRecord("metadata.version", 25)
    frames = [
        bytes.fromhex(head) + FEATURE_LEVEL[3:] for head in ("010c00", "018c0000", "010c8000", "81000c00")
    ]
    for frame in (*frames, *reversed(frames)):
        assert decode_record(frame) == record
    with pytest.raises(MalformedMessage):
        decode_record(bytes.fromhex("018c00"))


def test_config_record_with_a_deleted_value() -> None:
    record = ConfigRecord(4, "1", "log.retention.ms", None)
    frame = encode_record(record, 0)
    assert frame[:3] == b"\x01\x04\x00"
    assert decode_record(frame) == record


ORIGINALS_1_2 = bytes.fromhex("904e 09 03 00000001 00000002")
"""Tag 10000, 9 bytes, 2 elements."""


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("record_type", [PartitionRecord, PartitionChangeRecord])
def test_originals_of_a_reassignment_are_an_additional_tagged_field(
    record_type: type[PartitionRecord | PartitionChangeRecord], version: int
) -> None:
    """It is the last field: the other bytes are those of a stock writer."""
    without = encode_record(record_type(2, replicas=[4, 1]), version)
    record = record_type(2, replicas=[4, 1], original_replicas=[1, 2])
    encoded = encode_record(record, version)
    assert encoded.endswith(ORIGINALS_1_2)
    before = encoded.removesuffix(ORIGINALS_1_2)
    changed = [at for at, (old, new) in enumerate(zip(without, before, strict=True)) if old != new]
    (tag_count,) = changed
    assert before[tag_count] == without[tag_count] + 1
    assert decode_frame(encoded) == (record, version)


@pytest.mark.parametrize("api_key", messages.RECORDS)
def test_every_record_type_round_trips_in_every_version(api_key: int) -> None:
    message_class = record_class(api_key)
    assert api_key == message_class.API_KEY
    for version in range(message_class.MIN_VERSION, message_class.MAX_VERSION + 1):
        record = message_class()
        assert decode_frame(encode_record(record, version)) == (record, version)


def test_unknown_tag_is_skipped() -> None:
    assert decode_record(b"\x01\x14\x00\x01\x4d\x02hi") == NoOpRecord()


def test_another_frame_version_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match=r"frame version 2\b"):
        decode_record(b"\x02" + FEATURE_LEVEL[1:])


def test_bytes_after_the_body_are_malformed() -> None:
    with pytest.raises(MalformedMessage, match="FeatureLevelRecord v0"):
        decode_record(FEATURE_LEVEL + b"\0")


@pytest.mark.parametrize("length", range(len(FEATURE_LEVEL)))
def test_every_prefix_is_malformed(length: int) -> None:
    with pytest.raises(MalformedMessage):
        decode_record(FEATURE_LEVEL[:length])


def test_overlong_varint_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="32 bits"):
        decode_record(b"\x01\xff\xff\xff\xff\xff\x01\x00")


def test_unknown_record_is_distinguished_from_malformed() -> None:
    with pytest.raises(UnsupportedVersion, match="metadata record type 30"):
        decode_record(b"\x01\x1e\x00\x00")
    with pytest.raises(UnsupportedVersion, match="FeatureLevelRecord v9"):
        decode_record(b"\x01\x0c\x09\x00")
