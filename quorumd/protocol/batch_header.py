"""The header of a record batch: read, encode, change; the CRC-32C.

A batch is a header of 61 bytes and its records (`layouts` declares both):

    base offset i64 | length of the rest i32 | epoch i32 | magic i8 = 2 | crc u32 | attributes i16
    last offset delta i32 | base timestamp i64 | max timestamp i64 | producer id i64 | producer epoch i16
    base sequence i32 | count i32 | records

The CRC covers everything after itself. Base offset, length and epoch precede it, so that a leader can set them
without another checksum. The metadata log uses neither the producer fields nor a codec. After compaction a batch of a
partition's log may have fewer records than offsets, or none.
"""

from __future__ import annotations

from struct import Struct

from crc32c import crc32c

from quorumd.errors import MalformedMessage

MAGIC = 2
HEADER_SIZE = 61
"""In bytes."""

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
"""The base timestamp is the delete horizon: the time from which tombstones and markers may be removed."""
COMPRESSION_NAMES = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
NO_PRODUCER = -1
NO_TIMESTAMP = -1
MAX_SEQUENCE = 2**31 - 1
"""The highest sequence number; the next one is 0."""

EXTENT = Struct(">qi11xi")
"""Base offset, length, last offset delta: the offsets of a batch, and where the next one begins."""
LENGTH_END = 12
"""Size of base offset and length, which the length field does not count."""
_HEADER = Struct(">qiibIhiqqqhii")
_BEFORE_MAGIC = Struct(">qii")
_BEFORE_BODY = Struct(">qiibI")
_BODY_START = Struct(">hiqqqhii")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")
_MAGIC_START = 16
_CRC_START = 17
_CRC_END = 21
ATTRIBUTES_LOW_BYTE = 22
"""The position of the byte with the codec and the type of a batch."""
_MAX_TIMESTAMP_START = 35
_MIN_LENGTH = HEADER_SIZE - LENGTH_END


class BatchHeader:
    """A batch header. `position` and `size` locate the batch in the data from which it was read, in bytes.

    `base_offset` is inclusive, `end_offset` exclusive. `count` is the number of records according to the header; in
    every batch of the metadata log it is `end_offset - base_offset` (`batch_scan.Gapless`). Timestamps are Unix
    milliseconds, or NO_TIMESTAMP.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "count",
        "crc",
        "end_offset",
        "epoch",
        "max_timestamp_ms",
        "position",
        "producer_epoch",
        "producer_id",
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
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        count: int,
    ) -> None:
        self.position = position
        self.size = size
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.epoch = epoch
        self.crc = crc
        self.attributes = attributes
        self.timestamp_ms = timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.count = count

    @property
    def codec(self) -> int:
        """The compression codec: a key of COMPRESSION_NAMES, 0 if uncompressed."""
        return self.attributes & COMPRESSION_MASK

    @property
    def compression(self) -> str:
        """The name of the codec, or `none`."""
        codec = self.codec
        return COMPRESSION_NAMES.get(codec, f"unknown codec {codec}") if codec else "none"

    @property
    def is_control(self) -> bool:
        """Whether this is a control batch, such as a transaction marker."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the records, or the marker, belong to a transaction."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def has_log_append_time(self) -> bool:
        """Whether the timestamp type is LogAppendTime: the maximum timestamp applies to every record."""
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def delete_horizon_ms(self) -> int:
        """The delete horizon, NO_TIMESTAMP if not set."""
        return self.timestamp_ms if self.attributes & DELETE_HORIZON_BIT else NO_TIMESTAMP

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last offset, even if compaction removed its record; -1 without sequences."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.end_offset - self.base_offset - 1) & MAX_SEQUENCE

    def __repr__(self) -> str:
        kind = "control " if self.is_control else "transactional " if self.is_transactional else ""
        producer = f", producer {self.producer_id}:{self.producer_epoch}" if self.producer_id >= 0 else ""
        return (
            f"<{kind}batch {self.base_offset}..{self.end_offset} epoch {self.epoch}{producer}, "
            f"{self.size} bytes at {self.position}>"
        )


class IncompleteBatch(MalformedMessage):
    """The data ends inside a batch that is valid so far and has at least `needed_bytes` bytes."""

    def __init__(self, text: str, needed_bytes: int) -> None:
        super().__init__(text)
        self.needed_bytes = needed_bytes


def read_header(data: bytes, position: int = 0) -> BatchHeader:
    """Read the header of the batch at `position`; its records may be beyond the end of `data`.

    Raises MalformedMessage if there is no batch header, IncompleteBatch if it is truncated.
    """
    if position + HEADER_SIZE > len(data):
        raise IncompleteBatch(
            f"batch at position {position}: {len(data) - position} bytes left, a header has {HEADER_SIZE}",
            HEADER_SIZE,
        )
    (
        base_offset,
        length,
        epoch,
        magic,
        crc,
        attributes,
        last_delta,
        timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = _HEADER.unpack_from(data, position)
    if magic != MAGIC or length < _MIN_LENGTH or base_offset < 0 or last_delta < 0 or count < 0:
        raise MalformedMessage(
            f"batch at position {position}: magic {magic}, length {length}, base offset {base_offset}, "
            f"last offset delta {last_delta}, count {count} are not those of a batch "
            f"(magic is {MAGIC}, length at least {_MIN_LENGTH}, the others not negative)"
        )
    return BatchHeader(
        position,
        length + LENGTH_END,
        base_offset,
        base_offset + last_delta + 1,
        epoch,
        crc,
        attributes,
        timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )


def crc_is_valid(data: bytes, header: BatchHeader) -> bool:
    """Whether the CRC of a batch that is whole in `data` matches; it does not cover base offset and epoch."""
    with memoryview(data) as view:
        return bool(crc32c(view[header.position + _CRC_END : header.position + header.size]) == header.crc)


def encode_header(header: BatchHeader, records: bytes) -> bytes:
    """Encode a batch of a header and encoded records, with a new length and CRC."""
    body_start = _BODY_START.pack(
        header.attributes,
        header.end_offset - header.base_offset - 1,
        header.timestamp_ms,
        header.max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.count,
    )
    return seal(header.base_offset, header.epoch, body_start + records)


def body_start(attributes: int, count: int, timestamp_ms: int) -> bytes:
    """Encode the header after the CRC, of a batch without producer and gaps, with one timestamp.

    Raises ValueError for a count of 0: only compaction leaves empty batches.
    """
    if count == 0:
        raise ValueError("a batch needs at least one record")
    return _BODY_START.pack(attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)


def seal(base_offset: int, epoch: int, body: bytes) -> bytes:
    """Build the batch around `body`, which is everything after the CRC."""
    length = _CRC_END - LENGTH_END + len(body)
    return _BEFORE_BODY.pack(base_offset, length, epoch, MAGIC, crc32c(body)) + body


def stamped(data: bytes, header: BatchHeader, base_offset: int, epoch: int) -> bytes:
    """Return the batch with this base offset and leader epoch, which its CRC does not cover. Copies the data once.

    Updates `header`, that of the single batch in `data`.
    """
    header.end_offset += base_offset - header.base_offset
    header.base_offset = base_offset
    header.epoch = epoch
    with memoryview(data) as view:
        before_magic = _BEFORE_MAGIC.pack(base_offset, header.size - LENGTH_END, epoch)
        return b"".join((before_magic, view[_MAGIC_START:]))


def with_log_append_time(data: bytes, header: BatchHeader, timestamp_ms: int) -> bytes:
    """Return the batch with timestamp type LogAppendTime, this maximum timestamp and a new CRC.

    Updates `header`, that of the single batch in `data`.
    """
    header.attributes |= LOG_APPEND_TIME_BIT
    header.max_timestamp_ms = timestamp_ms
    changed = bytearray(data)
    _ATTRIBUTES.pack_into(changed, _CRC_END, header.attributes)
    _TIMESTAMP.pack_into(changed, _MAX_TIMESTAMP_START, timestamp_ms)
    with memoryview(changed) as view:
        header.crc = crc32c(view[_CRC_END:])
    _CRC.pack_into(changed, _CRC_START, header.crc)
    return bytes(changed)
