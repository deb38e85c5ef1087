"""Control records, which the quorum writes into its log in addition to the metadata.

The key is int16 version 0 and int16 type. The value is the message without a prefix, always in version 0 of its
schema: LeaderChange has a version 1, but every stock reader reads version 0. Types 0 and 1 are those of transactions,
and a stock reader halts on an unknown type, so only 2 to 6 may be in this log.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages.kraft_version_record import KRaftVersionRecord
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage
from quorumd.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from quorumd.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from quorumd.protocol.messages.voters_record import VotersRecord

ControlMessage = (
    LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord
)

VALUE_VERSION = 0
_KEY = Struct(">hh")
_KEY_VERSION = 0


class ControlType(IntEnum):
    """Kafka's types since 3.0; the KIP-595 draft uses 2 and 3 for other records."""

    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CLASSES: dict[int, type[ControlMessage]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
_KEYS = {message_class: _KEY.pack(_KEY_VERSION, number) for number, message_class in _CLASSES.items()}


def encode_control(message: ControlMessage) -> tuple[bytes, bytes]:
    """Encode a control record as (key, value), for `record_batch.encode_control_batch`.

    Raises UnsupportedVersion for a field that version 0 cannot carry: the directory ids of a LeaderChange.
    """
    return _KEYS[type(message)], encode(message, VALUE_VERSION)


def control_type(key: bytes) -> int:
    """Read the type, known or not, from the key of a control record. Raises MalformedMessage."""
    if len(key) != _KEY.size:
        raise MalformedMessage(f"the key of a control record has {len(key)} bytes, expected {_KEY.size}")
    version, number = _KEY.unpack(key)
    if version != _KEY_VERSION:
        raise MalformedMessage(f"the key of a control record has version {version}, expected {_KEY_VERSION}")
    return int(number)


def decode_control(key: bytes, value: bytes) -> ControlMessage:
    """Decode a control record into the message class of its type.

    Raises UnsupportedVersion for an unknown type, MalformedMessage for bytes that are not a control record.
    """
    number = control_type(key)
    message_class = _CLASSES.get(number)
    if message_class is None:
        raise UnsupportedVersion(f"unknown control record type {number}; known types: 2 to 6")
    return decode(message_class, VALUE_VERSION, value)
