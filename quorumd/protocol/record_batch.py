"""RecordBatch v2, the unit of the log and of every fetch: encode, headers, CRC-32C, records.

A batch is a header of 61 bytes and its records (`layouts` declares both):

    base offset i64 | length of the rest i32 | epoch i32 | magic i8 = 2 | crc u32 | attributes i16
    last offset delta i32 | base timestamp i64 | max timestamp i64 | producer id i64 | producer epoch i16
    base sequence i32 | count i32 | records

The CRC covers everything after itself. Base offset, length and epoch precede it, so that a leader can set them
without another checksum. A record is:

    length varint | attributes i8 | timestamp delta varint | offset delta varint
    key length varint (-1 null) | key | value length varint (-1 null) | value | header count varint

The varints are zigzag. The metadata log has no record headers and no compression: quorumd writes neither, and reads
only the batch headers of batches that have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct

from crc32c import crc32c

from quorumd.errors import MalformedMessage
from quorumd.protocol.primitives import read_varlong, write_varlong

MAGIC = 2
HEADER_SIZE = 61
"""In bytes."""
RECORD_FRAMING_BYTES = 16
"""Maximum size of a data record without its value, in batches of less than 8 MiB."""

COMPRESSION_MASK = 0x07
CONTROL_BIT = 0x20
COMPRESSION_NAMES = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

_LENGTH_END = 12
"""Size of base offset and length, which the length field does not count."""
_CRC_END = 21
_MIN_LENGTH = HEADER_SIZE - _LENGTH_END
_MIN_RECORD_BYTES = 7

_HEADER = Struct(">qiibIhiqq14xi")
"""Without the three producer fields, which the metadata log does not use."""
_BEFORE_BODY = Struct(">qiibI")
_BODY_START = Struct(">hiqqqhii")

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


class BatchHeader:
    """A batch header. `position`, `size`: of the batch, in bytes of the data that the header was read from.

    `base_offset` is inclusive, `end_offset` exclusive. `count`: the number of records according to the header; in
    every batch of the metadata log it is `end_offset - base_offset` (`validate`). Timestamps are Unix milliseconds.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "count",
        "crc",
        "end_offset",
        "epoch",
        "is_control",
        "max_timestamp_ms",
        "position",
        "size",
        "timestamp_ms",
    )

    def __init__(
        self,
        position: int,
        size: int,
        base_offset: int,
        end_offset: int,
        epoch: int,
        crc: int,
        attributes: int,
        timestamp_ms: int,
        max_timestamp_ms: int,
        count: int,
    ) -> None:
        self.position = position
        self.size = size
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.epoch = epoch
        self.crc = crc
        self.attributes = attributes
        self.is_control = attributes & CONTROL_BIT != 0
        self.timestamp_ms = timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.count = count

    @property
    def compression(self) -> str:
        """The name of the codec, or `none`."""
        codec = self.attributes & COMPRESSION_MASK
        return COMPRESSION_NAMES.get(codec, f"unknown codec {codec}") if codec else "none"

    def __repr__(self) -> str:
        kind = "control " if self.is_control else ""
        return (
            f"<{kind}batch {self.base_offset}..{self.end_offset} epoch {self.epoch}, "
            f"{self.size} bytes at {self.position}>"
        )


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


class IncompleteBatch(MalformedMessage):
    """The data ends inside a batch that is valid so far and has at least `needed_bytes` bytes."""

    def __init__(self, text: str, needed_bytes: int) -> None:
        super().__init__(text)
        self.needed_bytes = needed_bytes


class Scan:
    """The result of `scan`: the batches of the valid prefix, its end, and why it ends there.

    `fault` is "" if nothing follows, or only zeros (preallocated blocks). `incomplete`: whether the data ends inside
    a batch that is valid so far and has at least `needed_bytes` bytes from `end`. A caller that reads a file in
    chunks continues from there, and treats it as a fault only at the end of the file.
    """

    __slots__ = ("end", "fault", "headers", "needed_bytes")

    def __init__(self, headers: list[BatchHeader], end: int, fault: str, needed_bytes: int = 0) -> None:
        self.headers = headers
        self.end = end
        self.fault = fault
        self.needed_bytes = needed_bytes

    @property
    def incomplete(self) -> bool:
        return self.needed_bytes > 0


def size_of_records(values: Sequence[bytes]) -> int:
    """Return the maximum size that data records with these values have in a batch, in bytes."""
    return sum(map(len, values)) + RECORD_FRAMING_BYTES * len(values)


def encode_batch(base_offset: int, epoch: int, timestamp_ms: int, values: Sequence[bytes]) -> bytes:
    """Encode a data batch of records with null keys, one per value, all with the same timestamp (Unix ms).

    The values are frames of metadata records. Raises ValueError without values, since a batch is never empty.
    """
    parts = [_body_start(0, len(values), timestamp_ms)]
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
    return _seal(base_offset, epoch, b"".join(parts))


def encode_control_batch(
    base_offset: int, epoch: int, timestamp_ms: int, records: Sequence[tuple[bytes, bytes]]
) -> bytes:
    """Encode a control batch of (key, value) records as `control_record.encode_control` returns them.

    Raises ValueError without records.
    """
    parts = [_body_start(CONTROL_BIT, len(records), timestamp_ms)]
    for delta, (key, value) in enumerate(records):
        parts += _record_parts(delta, _varint(len(key)) + key, value)
    return _seal(base_offset, epoch, b"".join(parts))


def _body_start(attributes: int, count: int, timestamp_ms: int) -> bytes:
    if count == 0:
        raise ValueError("a batch needs at least one record")
    return _BODY_START.pack(attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)


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


def _seal(base_offset: int, epoch: int, body: bytes) -> bytes:
    """Build the batch around `body`, which is everything after the CRC."""
    length = _CRC_END - _LENGTH_END + len(body)
    return _BEFORE_BODY.pack(base_offset, length, epoch, MAGIC, crc32c(body)) + body


def read_header(data: bytes, position: int) -> BatchHeader:
    """Read the header of the batch at `position`; its records may be beyond the end of `data`.

    Raises MalformedMessage if there is no batch header, IncompleteBatch if it is truncated.
    """
    if position + HEADER_SIZE > len(data):
        raise IncompleteBatch(
            f"batch at position {position}: {len(data) - position} bytes left, a header has {HEADER_SIZE}",
            HEADER_SIZE,
        )
    base_offset, length, epoch, magic, crc, attributes, last_delta, timestamp_ms, max_timestamp_ms, count = (
        _HEADER.unpack_from(data, position)
    )
    if magic != MAGIC or length < _MIN_LENGTH or base_offset < 0 or last_delta < 0 or count < 0:
        raise MalformedMessage(
            f"batch at position {position}: magic {magic}, length {length}, base offset {base_offset}, "
            f"last offset delta {last_delta}, count {count} are not those of a batch "
            f"(magic is {MAGIC}, length at least {_MIN_LENGTH}, the others not negative)"
        )
    return BatchHeader(
        position,
        length + _LENGTH_END,
        base_offset,
        base_offset + last_delta + 1,
        epoch,
        crc,
        attributes,
        timestamp_ms,
        max_timestamp_ms,
        count,
    )


def headers(data: bytes, start: int = 0) -> Iterator[BatchHeader]:
    """Iterate over the headers of the batches from `start` to the end of `data` or to trailing zeros.

    The CRCs are not checked. Raises MalformedMessage for anything else, with its position, and IncompleteBatch for a
    truncated last batch.
    """
    position = start
    while position < len(data):
        try:
            header = read_header(data, position)
        except MalformedMessage:
            # Checked here, not before, because it is rare.
            if _is_blank(data, position):
                return
            raise
        if position + header.size > len(data):
            raise IncompleteBatch(
                f"batch at position {position} (offset {header.base_offset}): it has {header.size} bytes, "
                f"only {len(data) - position} are present",
                header.size,
            )
        yield header
        position += header.size


def _is_blank(data: bytes, position: int) -> bool:
    """Whether zeros follow instead of a batch header, which is never all zeros because of its magic."""
    return not any(data[position : position + HEADER_SIZE])


def crc_is_valid(data: bytes, header: BatchHeader) -> bool:
    """Whether the CRC of a batch that is whole in `data` matches; it does not cover base offset and epoch."""
    with memoryview(data) as view:
        return bool(crc32c(view[header.position + _CRC_END : header.position + header.size]) == header.crc)


def _fault_in(data: bytes, header: BatchHeader, expected_offset: int | None, min_epoch: int) -> str:
    """Return why the batch is invalid at `expected_offset`, or at any offset if None; "" if it is valid."""
    if expected_offset is not None and header.base_offset != expected_offset:
        fault = f"offset {expected_offset} was expected"
    elif header.count != header.end_offset - header.base_offset:
        fault = f"{header.count} records for {header.end_offset - header.base_offset} offsets"
    elif header.epoch < min_epoch:
        fault = f"epoch {header.epoch} after epoch {min_epoch}"
    elif not crc_is_valid(data, header):
        fault = "the CRC does not match"
    else:
        return ""
    return f"batch at position {header.position} (offset {header.base_offset}): {fault}"


def validate(data: bytes, expected_offset: int | None = None) -> list[BatchHeader]:
    """Validate bytes received from another node and return their batch headers.

    Valid bytes are whole batches and nothing else, with magic 2, matching CRCs, as many records as offsets, offsets
    without a gap (from `expected_offset` if given) and epochs that never decrease. The records are covered by the CRC
    and not parsed. Raises MalformedMessage.
    """
    scanned = scan(data, 0, expected_offset)
    if scanned.fault or scanned.end != len(data):
        raise MalformedMessage(scanned.fault or f"only zeros from position {scanned.end}")
    return scanned.headers


def scan(
    data: bytes,
    start: int = 0,
    expected_offset: int | None = None,
    min_epoch: int = 0,
    only_structure: bool = False,
) -> Scan:
    """Find the longest prefix of valid batches, as in `validate`, from `start`. Raises nothing.

    `min_epoch`: the epoch of the batch before. With `only_structure`, batches are valid if their headers lead from
    one to the next.
    """
    found: list[BatchHeader] = []
    position = start
    try:
        for header in headers(data, start):
            if not only_structure and (fault := _fault_in(data, header, expected_offset, min_epoch)):
                return Scan(found, position, fault)
            found.append(header)
            position += header.size
            expected_offset = header.end_offset
            min_epoch = header.epoch
    except IncompleteBatch as incomplete:
        return Scan(found, position, str(incomplete), incomplete.needed_bytes)
    except MalformedMessage as malformed:
        return Scan(found, position, str(malformed))
    return Scan(found, position, "")


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
