"""Batches of which every byte can be chosen, always with a CRC that matches."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from crc32c import crc32c

from quorumd.protocol.primitives import write_varlong

_BODY = Struct(">hiqqqhii")
_START = Struct(">qiibI")


def varint(value: int, padded_to: int = 0) -> bytes:
    """Encode a zigzag varint, padded to at least `padded_to` bytes. No writer pads, but every reader accepts it."""
    out = bytearray()
    write_varlong(out, value)
    while len(out) < padded_to:
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


def raw_record(
    value: bytes | None,
    offset_delta: int,
    timestamp_delta: int = 0,
    key: bytes | None = None,
    attributes: int = 0,
    after_value: bytes = b"\0",
    padded_to: int = 0,
) -> bytes:
    """Encode one record; `after_value` has the number of its headers and everything after that."""
    body = bytearray([attributes])
    body += varint(timestamp_delta, padded_to) + varint(offset_delta, padded_to)
    body += varint(-1, padded_to) if key is None else varint(len(key), padded_to) + key
    body += varint(-1, padded_to) if value is None else varint(len(value), padded_to) + value
    body += after_value
    return varint(len(body), padded_to) + bytes(body)


def raw_batch(
    records: Sequence[bytes],
    base_offset: int = 0,
    count: int | None = None,
    last_delta: int | None = None,
    base_timestamp: int = 1_700_000_000_000,
    attributes: int = 0,
    epoch: int = 1,
) -> bytes:
    """Encode a batch of encoded records; its counts are correct by default."""
    count = len(records) if count is None else count
    last_delta = count - 1 if last_delta is None else last_delta
    body = _BODY.pack(attributes, last_delta, base_timestamp, base_timestamp, -1, -1, -1, count)
    body += b"".join(records)
    return _START.pack(base_offset, 9 + len(body), epoch, 2, crc32c(body)) + body


def resealed(batch: bytes) -> bytes:
    """Return a batch with the CRC of its current content."""
    # A compiled package takes no bytearray for bytes.
    return bytes(batch[:17]) + crc32c(batch[21:]).to_bytes(4, "big") + batch[21:]
