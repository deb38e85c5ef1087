"""Frames of metadata records: the values of the data records in the log, as in Kafka's.

    uvarint frame version 1 | uvarint API key of the record | uvarint version of the record | body in that version

A stock reader halts on an unknown frame version, key or version, and on bytes after the body.
"""

from __future__ import annotations

from typing import Final

from quorumd.errors import MalformedMessage
from quorumd.protocol.apis import record_class
from quorumd.protocol.codec import decode, encode_into
from quorumd.protocol.primitives import read_uvarint, write_uvarint
from quorumd.protocol.wire import Message

FRAME_VERSION = 1

HEAD_SIZE = 3
"""Number of bytes of frame version, API key and version, each a varint of one byte in every known record."""
_DECODED: Final[dict[bytes, tuple[type[Message], int]]] = {}
"""Class and version of the records decoded so far, by head: the three varints are read once for each kind."""


_STARTS: Final[dict[int, bytes]] = {}
"""Frame version, API key and version of the records encoded so far, by API key and version."""


def _frame_start(api_key: int, version: int) -> bytes:
    key = api_key << 16 | version
    start = _STARTS.get(key)
    if start is None:
        out = bytearray([FRAME_VERSION])
        write_uvarint(out, api_key)
        write_uvarint(out, version)
        start = _STARTS[key] = bytes(out)
    return start


def encode_record(message: Message, version: int) -> bytes:
    """Encode the frame of a metadata record: a value for `record_batch.encode_batch`.

    Raises the errors of `codec.encode`.
    """
    api_key = message.API_KEY
    assert api_key is not None, f"{message.NAME} is not a metadata record"
    out = bytearray(_frame_start(api_key, version))
    encode_into(message, version, out)
    return bytes(out)


def decode_record(value: bytes) -> Message:
    """Decode the metadata record in a frame.

    Raises UnsupportedVersion for an unknown record or version, MalformedMessage for bytes that are not a frame.
    """
    head = value[:HEAD_SIZE]
    known = _DECODED.get(head)
    if known is not None:
        return decode(known[0], known[1], value, HEAD_SIZE)
    record, version = decode_frame(value)
    if max(head) < 0x80:
        _DECODED[head] = type(record), version
    return record


def decode_frame(value: bytes) -> tuple[Message, int]:
    """Decode as `decode_record` does; return the record and its version. Raises its errors."""
    try:
        frame_version, position = read_uvarint(value, 0)
        api_key, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError:
        raise MalformedMessage(
            f"a metadata record of {len(value)} bytes ends within its frame header"
        ) from None
    if frame_version != FRAME_VERSION:
        raise MalformedMessage(
            f"a metadata record has frame version {frame_version}, expected {FRAME_VERSION}"
        )
    return decode(record_class(api_key), version, value, position), version
