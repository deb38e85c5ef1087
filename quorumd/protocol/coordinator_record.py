"""Keys and values of the records of coordinators, in __consumer_offsets and __transaction_state.

    key     int16 type of the record | key in its only version
    value   int16 version | value in that version; null is a tombstone

Records of other types (share and streams groups) raise UnsupportedVersion; readers skip them, as Kafka's do.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from struct import Struct
from typing import Final

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.protocol import messages
from quorumd.protocol.codec import decode, encode_into
from quorumd.protocol.wire import Message

GROUP: Final = "group"
TRANSACTION: Final = "transaction"
TOPICS: Final = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}
"""The topic of a coordinator's records, by coordinator."""

_PREFIX = Struct(">h")
_KEY_VERSION = 0


@cache
def key_class(coordinator: str, record_type: int) -> type[Message]:
    """The class of a record's key. Raises UnsupportedVersion for an unknown type."""
    return _class(coordinator, record_type, "Key")


@cache
def value_class(coordinator: str, record_type: int) -> type[Message]:
    """The class of a record's value. Raises UnsupportedVersion for an unknown type."""
    return _class(coordinator, record_type, "Value")


def encode_key(key: Message) -> bytes:
    """Encode the key of a record. Raises the errors of `codec.encode`."""
    return _encode(key, _record_type(key), _KEY_VERSION)


def encode_value(value: Message, version: int) -> bytes:
    """Encode the value of a record. Raises the errors of `codec.encode`."""
    _record_type(value)
    return _encode(value, version, version)


def decode_key(coordinator: str, key: bytes) -> Message:
    """Decode the key of a record. Raises UnsupportedVersion for an unknown type, MalformedMessage for invalid
    bytes."""
    return decode(key_class(coordinator, _prefix(key)), _KEY_VERSION, key, _PREFIX.size)


def decode_value(coordinator: str, key: Message, value: bytes) -> Message:
    """Decode the value of the record with this key. Raises UnsupportedVersion for an unknown version,
    MalformedMessage for invalid bytes."""
    return decode(value_class(coordinator, _record_type(key)), _prefix(value), value, _PREFIX.size)


def _encode(message: Message, prefix: int, version: int) -> bytes:
    out = bytearray(_PREFIX.pack(prefix))
    encode_into(message, version, out)
    return bytes(out)


def _prefix(data: bytes) -> int:
    if len(data) < _PREFIX.size:
        raise MalformedMessage(f"a coordinator record has {len(data)} bytes, too few for its type or version")
    (prefix,) = _PREFIX.unpack_from(data)
    return int(prefix)


def _record_type(message: Message) -> int:
    assert message.RECORD_TYPE is not None, f"{message.NAME} is not in a coordinator's record"
    return message.RECORD_TYPE


def _class(coordinator: str, record_type: int, suffix: str) -> type[Message]:
    try:
        name = messages.COORDINATOR_RECORDS[coordinator][record_type] + suffix
    except KeyError:
        raise UnsupportedVersion(f"unknown {coordinator} record type {record_type}") from None
    module = import_module(f"quorumd.protocol.messages.{messages.MODULES[name]}")
    found: type[Message] = getattr(module, name)
    return found
