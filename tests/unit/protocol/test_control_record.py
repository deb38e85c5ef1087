"""Control records: the shipped types and bytes, not the draft's."""

from __future__ import annotations

import pytest

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.ids import KafkaUuid
from quorumd.protocol import layouts
from quorumd.protocol.control_record import (
    ControlMessage,
    ControlType,
    control_type,
    decode_control,
    encode_control,
)
from quorumd.protocol.messages.kraft_version_record import KRaftVersionRecord
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from quorumd.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from quorumd.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from quorumd.protocol.messages.voters_record import VotersRecord

LEADER_CHANGE = bytes.fromhex("00000000000104000000010000000002000000000300030000000100000000020000")


def leader_change() -> LeaderChangeMessage:
    return LeaderChangeMessage(0, 1, [Voter(1), Voter(2), Voter(3)], [Voter(1), Voter(2)])


def test_golden_leader_change() -> None:
    assert encode_control(leader_change()) == (b"\0\0\0\2", LEADER_CHANGE)
    assert decode_control(b"\0\0\0\2", LEADER_CHANGE) == leader_change()


def test_golden_kraft_version() -> None:
    assert encode_control(KRaftVersionRecord(0, 1)) == (b"\0\0\0\5", bytes.fromhex("0000000100"))


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (leader_change(), ControlType.LEADER_CHANGE),
        (SnapshotHeaderRecord(0, 1_700_000_000_000), ControlType.SNAPSHOT_HEADER),
        (SnapshotFooterRecord(0), ControlType.SNAPSHOT_FOOTER),
        (KRaftVersionRecord(0, 1), ControlType.KRAFT_VERSION),
        (VotersRecord(0), ControlType.KRAFT_VOTERS),
    ],
)
def test_every_type_round_trips(message: ControlMessage, kind: ControlType) -> None:
    key, value = encode_control(message)
    assert control_type(key) == kind
    assert layouts.ControlRecordKey.parse(key) == {"version": 0, "type": kind}
    assert layouts.ControlRecordKey.build({"version": 0, "type": kind}) == key
    assert decode_control(key, value) == message


def test_leader_change_has_no_directory_ids() -> None:
    """Version 1 could carry them, and no stock reader could read it."""
    with pytest.raises(UnsupportedVersion, match="voter_directory_id"):
        encode_control(LeaderChangeMessage(0, 1, [Voter(1, KafkaUuid(b"d" * 16))]))


@pytest.mark.parametrize("number", [0, 1, 7, -1])
def test_other_types_are_unknown(number: int) -> None:
    with pytest.raises(UnsupportedVersion, match=rf"type {number}\b"):
        decode_control(b"\0\0" + number.to_bytes(2, "big", signed=True), b"")


@pytest.mark.parametrize("key", [b"", b"\0\0\0", b"\0\0\0\2\0"])
def test_key_of_another_size_is_malformed(key: bytes) -> None:
    with pytest.raises(MalformedMessage, match=f"{len(key)} bytes, expected 4"):
        decode_control(key, LEADER_CHANGE)


def test_key_of_another_version_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match=r"version 1, .*\b0\b"):
        decode_control(b"\0\1\0\2", LEADER_CHANGE)


@pytest.mark.parametrize("length", range(len(LEADER_CHANGE)))
def test_every_prefix_of_a_value_is_malformed(length: int) -> None:
    with pytest.raises(MalformedMessage):
        decode_control(b"\0\0\0\2", LEADER_CHANGE[:length])


def test_bytes_after_a_value_are_malformed() -> None:
    with pytest.raises(MalformedMessage, match="1 bytes follow"):
        decode_control(b"\0\0\0\2", LEADER_CHANGE + b"\0")
