"""Frames of metadata records: the values of data records, as every KRaft node reads them.

    uvarint 1 (version of the frame) | uvarint API key of the record | uvarint version | body in that version

A stock reader halts on an unknown frame version, key or version, and on bytes after the body.
"""

from __future__ import annotations

from functools import cache

from quorumd.errors import MalformedMessage
from quorumd.protocol.apis import record_class
from quorumd.protocol.codec import decode, encode_into
from quorumd.protocol.primitives import read_uvarint, write_uvarint
from quorumd.protocol.wire import Message

FRAME_VERSION = 1


@cache
def _frame_start(api_key: int, version: int) -> bytes:
    out = bytearray([FRAME_VERSION])
    write_uvarint(out, api_key)
    write_uvarint(out, version)
    return bytes(out)


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
    return decode_frame(value)[0]


def decode_frame(value: bytes) -> tuple[Message, int]:
    """Decode like `decode_record`; also return the version of the record."""
    try:
        frame_version, position = read_uvarint(value, 0)
        api_key, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError:
        raise MalformedMessage(f"a metadata record ends within its first {len(value)} bytes") from None
    if frame_version != FRAME_VERSION:
        raise MalformedMessage(
            f"a metadata record has frame version {frame_version}, only {FRAME_VERSION} is known"
        )
    return decode(record_class(api_key), version, value, position), version
