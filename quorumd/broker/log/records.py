"""Locates and copies the records of a data batch without decoding them.

Used where single records matter: compaction, lookups by timestamp, keys of compacted topics, and markers. There is no
decoder for zstd: `decompressed` returns None, and callers treat the batch as a unit.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator
from typing import NamedTuple

from quorumd.broker.log.decompression import decompress_lz4, decompress_snappy
from quorumd.errors import MalformedMessage
from quorumd.protocol.batch_header import HEADER_SIZE, BatchHeader
from quorumd.protocol.primitives import read_varlong, write_varlong

GZIP = 1
SNAPPY = 2
LZ4 = 3
ENCODABLE = (0, GZIP)
"""Codecs with an encoder and a native decoder."""
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
GZIP_BYTES_PER_STEP = 64 * 1024
MAX_DECOMPRESSED_BYTES = 16 * 1024 * 1024
"""A batch that is larger when decompressed is treated as if its codec had no decoder: a megabyte can become a
gigabyte."""
MAX_RECORDS = 100_000
"""A batch with more records is treated so too: each takes 220 bytes while it is compacted."""


class NotDecoded(Exception):
    """The codec has no decoder, or the records are incomplete or exceed the limit."""


class RecordSpan(NamedTuple):
    """The positions of a record in the uncompressed records of its batch; -1 for a key or value that is null."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key_start: int
    key_end: int
    value_start: int
    value_end: int


def record_spans(payload: bytes, count: int) -> Iterator[RecordSpan]:
    """Yield the positions of `count` uncompressed records. Raises MalformedMessage."""
    position = 0
    try:
        for _ in range(count):
            start = position
            length, body = read_varlong(payload, position)
            end = body + length
            timestamp_delta, position = read_varlong(payload, body + 1)
            offset_delta, position = read_varlong(payload, position)
            size, position = read_varlong(payload, position)
            key_start = position if size >= 0 else -1
            position += max(size, 0)
            key_end = position if size >= 0 else -1
            size, position = read_varlong(payload, position)
            value_start = position if size >= 0 else -1
            position += max(size, 0)
            value_end = position if size >= 0 else -1
            if length < 6 or position >= end or end > len(payload):
                raise MalformedMessage(f"record at position {start}: its fields exceed its length {length}")
            yield RecordSpan(
                start, end, timestamp_delta, offset_delta, key_start, key_end, value_start, value_end
            )
            position = end
    except IndexError:
        raise MalformedMessage(f"record at position {position}: it exceeds the batch") from None
    if position != len(payload):
        raise MalformedMessage(f"{len(payload) - position} bytes follow the {count} records")


def decompressed(data: bytes, batch: BatchHeader, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes | None:
    """The uncompressed records of a complete batch; None if they exceed `limit` bytes or the codec has no decoder.

    Raises MalformedMessage.
    """
    steps = decompress_in_steps(data, batch, limit)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: bytes | None = end.value
            return found


def decompress_in_steps(data: bytes, batch: BatchHeader, limit: int) -> Generator[None, None, bytes | None]:
    """As `decompressed`, in steps of less than a millisecond; None if the records exceed `limit` bytes."""
    payload = data[batch.position + HEADER_SIZE : batch.position + batch.size]
    # Compaction leaves an empty batch without a compressed payload.
    if batch.codec == 0 or batch.count == 0:
        return payload
    if batch.codec == SNAPPY:
        return (yield from decompress_snappy(payload, limit))
    if batch.codec == LZ4:
        return (yield from decompress_lz4(payload, limit))
    if batch.codec != GZIP:
        return None
    pieces: list[bytes] = []
    try:
        for piece in gzip_pieces(data, batch, limit):
            pieces.append(piece)
            yield
    except NotDecoded:
        return None
    return b"".join(pieces)


def gzip_pieces(data: bytes, batch: BatchHeader, limit: int) -> Iterator[bytes]:
    """Yield the uncompressed records of a gzip batch in pieces of at most GZIP_BYTES_PER_STEP.

    Raises MalformedMessage, NotDecoded.
    """
    position, end = batch.position + HEADER_SIZE, batch.position + batch.size
    decoder = zlib.decompressobj(_GZIP_FORMAT)
    size = 0
    while not decoder.eof:
        given = decoder.unconsumed_tail or data[position : min(position + GZIP_BYTES_PER_STEP, end)]
        if not decoder.unconsumed_tail:
            position += len(given)
        try:
            piece = decoder.decompress(given, GZIP_BYTES_PER_STEP)
        except zlib.error as fault:
            raise MalformedMessage(f"batch at offset {batch.base_offset}: invalid gzip: {fault}") from None
        size += len(piece)
        if size > limit or not (piece or given or decoder.eof):
            raise NotDecoded
        yield piece


def all_records(data: bytes, batch: BatchHeader) -> tuple[bytes, list[RecordSpan]] | None:
    """The uncompressed records of a batch and their positions; None if they are too many or too large, malformed, or
    the codec has no decoder."""
    if batch.count > MAX_RECORDS:
        return None
    try:
        payload = decompressed(data, batch, MAX_DECOMPRESSED_BYTES)
        return None if payload is None else (payload, list(record_spans(payload, batch.count)))
    except MalformedMessage:
        return None


def compressed(payload: bytes, codec: int) -> bytes:
    """Compress records with a codec of ENCODABLE."""
    if codec == 0:
        return payload
    encoder = zlib.compressobj(wbits=_GZIP_FORMAT)
    return encoder.compress(payload) + encoder.flush()


def encode_record(offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    """Encode one record without headers."""
    body = bytearray(1)
    write_varlong(body, timestamp_delta)
    write_varlong(body, offset_delta)
    for part in (key, value):
        write_varlong(body, -1 if part is None else len(part))
        body += part or b""
    body.append(0)
    record = bytearray()
    write_varlong(record, len(body))
    return bytes(record + body)


def with_timestamp_delta(payload: bytes, span: RecordSpan, timestamp_delta: int) -> bytes:
    """Return the record with another timestamp delta, for a batch whose base timestamp changes."""
    _, body = read_varlong(payload, span.start)
    _, after_timestamp = read_varlong(payload, body + 1)
    changed = bytearray(payload[body : body + 1])
    write_varlong(changed, timestamp_delta)
    changed += payload[after_timestamp : span.end]
    record = bytearray()
    write_varlong(record, len(changed))
    return bytes(record + changed)
