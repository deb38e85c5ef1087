"""The batches of the metadata log: encode them, read their records.

A batch is a header (`batch_header`) and its records. A record is (`layouts` declares it):

    length varint | attributes i8 | timestamp delta varint | offset delta varint
    key length varint (-1 null) | key | value length varint (-1 null) | value | header count varint

The varints are zigzag. The metadata log has no record headers and no compression: quorumd writes neither, and reads
only the batch headers of batches that have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorumd.errors import MalformedMessage
from quorumd.protocol.batch_header import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    BatchHeader,
    body_start,
    seal,
)
from quorumd.protocol.primitives import read_varlong, write_varlong

RECORD_FRAMING_BYTES = 16
"""Maximum size of a data record without its value, in batches of less than 8 MiB."""

_MIN_RECORD_BYTES = 7

_CACHED = 1024
_NOT_SHORT = ~0x3FFE
"""Bits that are zero in the zigzag form of a length that is not negative and fits two bytes."""


def _varint(value: int) -> bytes:
    out = bytearray()
    write_varlong(out, value)
    return bytes(out)


_VARINTS = tuple(_varint(value) for value in range(_CACHED))
_NULL_KEY = b"\x01"
_BEFORE_VALUE = [b"\x00\x00" + varint + _NULL_KEY for varint in _VARINTS]
"""The bytes before a record's value, by offset delta: attributes 0, timestamp delta 0, the offset delta, null key."""
_MAX_CACHED = 16 * 1024
"""Maximum length of that table, which grows with the number of records in a batch."""


class Record:
    """One record. `key` and `value` are None if they are null. `timestamp_ms`: Unix milliseconds."""

    __slots__ = ("key", "offset", "timestamp_ms", "value")

    def __init__(self, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> None:
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value

    def __repr__(self) -> str:
        return f"<record {self.offset} key {self.key!r} value {self.value!r}>"


def size_of_records(values: Sequence[bytes]) -> int:
    """Return the maximum size that data records with these values have in a batch, in bytes."""
    size = RECORD_FRAMING_BYTES * len(values)
    for value in values:
        size += len(value)
    return size


def encode_batch(base_offset: int, epoch: int, timestamp_ms: int, values: Sequence[bytes]) -> bytes:
    """Encode a data batch of records with null keys, one per value, all with the same timestamp (Unix ms).

    The values are frames of metadata records. Raises ValueError without values, since a batch is never empty.
    """
    parts = [body_start(0, len(values), timestamp_ms)]
    before_values = _before_values(len(values))
    for delta, value in enumerate(values):
        size = len(value)
        # The tables save two function calls per record; 16 is more than the bytes around the value.
        if size < _CACHED - 16 and delta < _MAX_CACHED:
            before_value = before_values[delta]
            value_size = _VARINTS[size]
            length = _VARINTS[len(before_value) + len(value_size) + size + 1]
            parts += (length, before_value, value_size, value, b"\x00")
        else:
            parts += _record_parts(delta, b"\x01", value)
    return seal(base_offset, epoch, b"".join(parts))


def encode_control_batch(
    base_offset: int, epoch: int, timestamp_ms: int, records: Sequence[tuple[bytes, bytes]]
) -> bytes:
    """Encode a control batch of (key, value) records as `control_record.encode_control` returns them.

    Raises ValueError without records.
    """
    parts = [body_start(CONTROL_BIT, len(records), timestamp_ms)]
    for delta, (key, value) in enumerate(records):
        parts += _record_parts(delta, _varint(len(key)) + key, value)
    return seal(base_offset, epoch, b"".join(parts))


def _before_values(count: int) -> list[bytes]:
    """Return the bytes before the values of at least `count` records, or of _MAX_CACHED."""
    known = _BEFORE_VALUE
    if len(known) < min(count, _MAX_CACHED):
        # Each zigzag form has two or three groups of seven bits; `_varint` would take several times as long.
        zigzag = [delta << 1 for delta in range(len(known), min(2 * count, _MAX_CACHED))]
        known += [
            bytes((0, 0, value & 0x7F | 0x80, value >> 7, 1))
            if value < 1 << 14
            else bytes((0, 0, value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14, 1))
            for value in zigzag
        ]
    return known


def _record_parts(delta: int, key: bytes, value: bytes) -> tuple[bytes, ...]:
    """Encode one record in parts; `key` is prefixed with its length."""
    before_value = b"\x00\x00" + _varint(delta) + key
    value_size = _varint(len(value))
    length = _varint(len(before_value) + len(value_size) + len(value) + 1)
    return length, before_value, value_size, value, b"\x00"


def records(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """Iterate over the records of one batch that is whole in `data`.

    Raises MalformedMessage for the first malformed record, after yielding those before it, and at once for a
    compressed batch.
    """
    if header.attributes & COMPRESSION_MASK:
        raise MalformedMessage(
            f"batch at offset {header.base_offset} is compressed ({header.compression}); records of the metadata log "
            "are not compressed"
        )
    position = header.position + HEADER_SIZE
    end = header.position + header.size
    if header.count * _MIN_RECORD_BYTES > end - position:
        raise MalformedMessage(
            f"batch at offset {header.base_offset}: {header.count} records do not fit {end - position} bytes"
        )
    for index in range(header.count):
        try:
            record, position = _read_record(data, position, end, header)
        except (IndexError, MalformedMessage) as cause:
            raise MalformedMessage(
                f"batch at offset {header.base_offset}: record {index} of {header.count} is malformed"
                f" ({cause})"
            ) from None
        yield record
    if position != end:
        raise MalformedMessage(
            f"batch at offset {header.base_offset}: {end - position} bytes after its {header.count} records"
        )


def values(data: bytes, header: BatchHeader) -> list[bytes]:
    """Return the values of one data batch that is whole in `data`; the hot path of applying committed records.

    The value at index i has offset `header.base_offset + i`. Raises MalformedMessage as `records` does, and for a
    null value, which no metadata record has.
    """
    found: list[bytes] = []
    end = header.position + header.size
    position = header.position + HEADER_SIZE
    count = header.count
    if count > _MAX_CACHED or header.attributes & COMPRESSION_MASK:
        return _values_slow_path(data, header)
    for before_value in _before_values(count)[:count]:
        # Records as encode_batch writes them, with varints of one or two bytes; all others take the slow path.
        # Positions only grow, so one comparison after the loop detects a record that extends beyond the end.
        try:
            length = data[position]
            if length >= 0x80:
                position += 1
                length = length & 0x7F | data[position] << 7
            body = position + 1
            position = body + len(before_value)
            size = data[position]
            if size >= 0x80:
                position += 1
                size = size & 0x7F | data[position] << 7
            start = position + 1
            position = start + (size >> 1)
            if (
                (length | size) & _NOT_SHORT
                or position + 1 != body + (length >> 1)
                or data[position]
                or not data.startswith(before_value, body)
            ):
                return _values_slow_path(data, header)
        except IndexError:
            return _values_slow_path(data, header)
        found.append(data[start:position])
        position += 1
    if position != end:
        return _values_slow_path(data, header)
    return found


def _values_slow_path(data: bytes, header: BatchHeader) -> list[bytes]:
    found: list[bytes] = []
    for index, record in enumerate(records(data, header)):
        if record.value is None or record.offset != header.base_offset + index:
            raise MalformedMessage(
                f"batch at offset {header.base_offset}: record {index} of {header.count} has a null value, or its "
                f"offset {record.offset} is not {header.base_offset + index}"
            )
        found.append(record.value)
    return found


def _read_record(data: bytes, position: int, end: int, header: BatchHeader) -> tuple[Record, int]:
    length, position = read_varlong(data, position)
    stop = position + length
    if length < _MIN_RECORD_BYTES - 1 or stop > end:
        raise MalformedMessage(f"invalid length {length}")
    timestamp_delta, position = read_varlong(data, position + 1)
    offset_delta, position = read_varlong(data, position)
    key_size, position = read_varlong(data, position)
    key = None
    if key_size >= 0:
        key = data[position : position + key_size]
        position += key_size
    value_size, position = read_varlong(data, position)
    value = None
    if value_size >= 0:
        value = data[position : position + value_size]
        position += value_size
    if position + 1 != stop or data[position] != 0:
        raise MalformedMessage("its parts do not add up to its length, or it has record headers")
    offset = header.base_offset + offset_delta
    if not header.base_offset <= offset < header.end_offset:
        raise MalformedMessage(f"invalid offset delta {offset_delta}")
    return Record(offset, header.timestamp_ms + timestamp_delta, key, value), position + 1
