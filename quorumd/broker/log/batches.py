"""Iterates over, verifies and modifies the headers of record batches without decoding the records.

The layout is the same as in `quorumd.protocol.record_batch`, including the fields that the metadata log does not use:
producer id, producer epoch, base sequence, codec and the transactional bit. After compaction a batch may have fewer
records than offsets, or none, and may start above the end offset of the previous batch.
"""

from __future__ import annotations

from struct import Struct

from crc32c import crc32c

from quorumd.errors import MalformedMessage
from quorumd.protocol.record_batch import COMPRESSION_MASK, CONTROL_BIT, HEADER_SIZE, MAGIC

LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
DELETE_HORIZON_BIT = 0x40
"""The base timestamp is the delete horizon: the time from which tombstones and markers may be removed."""
NO_PRODUCER = -1
NO_TIMESTAMP = -1
MAX_SEQUENCE = 2**31 - 1
"""The highest sequence number; the next one is 0."""

_HEADER = Struct(">qiibIhiqqqhii")
_BEFORE_MAGIC = Struct(">qii")
_LENGTH_END = 12
_CRC_START = 17
_CRC_END = 21
_ATTRIBUTES_END = 23
_MAX_TIMESTAMP_START = 35
_MIN_LENGTH = HEADER_SIZE - _LENGTH_END
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")


class DataBatch:
    """A batch header. `position` and `size` locate the batch in the data from which it was read, in bytes.

    `base_offset` is inclusive, `end_offset` exclusive. Timestamps are Unix milliseconds, or NO_TIMESTAMP.
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
        """The compression codec: a key of `record_batch.COMPRESSION_NAMES`, 0 if uncompressed."""
        return self.attributes & COMPRESSION_MASK

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
        return (
            f"<{kind}batch {self.base_offset}..{self.end_offset} epoch {self.epoch}, producer {self.producer_id} "
            f"epoch {self.producer_epoch} sequence {self.base_sequence}, {self.size} bytes at {self.position}>"
        )


def read_batch(data: bytes, position: int = 0) -> DataBatch:
    """Read the header at `position`; the records may exceed `data`.

    Raises MalformedMessage if the header is incomplete or invalid.
    """
    if position + HEADER_SIZE > len(data):
        raise MalformedMessage(
            f"{len(data) - position} bytes at position {position}: too few for a batch header"
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
    if magic != MAGIC or length < _MIN_LENGTH or base_offset < 0 or not 0 <= count <= last_delta + 1:
        raise MalformedMessage(
            f"batch at position {position}: magic {magic}, length {length}, base offset {base_offset}, "
            f"last offset delta {last_delta} and count {count} are not a valid batch header"
        )
    return DataBatch(
        position,
        length + _LENGTH_END,
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


def crc_is_valid(data: bytes, batch: DataBatch) -> bool:
    """Whether the CRC of a complete batch matches. It does not cover the base offset and the leader epoch."""
    with memoryview(data) as view:
        return bool(crc32c(view[batch.position + _CRC_END : batch.position + batch.size]) == batch.crc)


class BatchScan:
    """The result of `scan_batches`: the valid batches, the position where they end, and the reason.

    `fault` is "" if the data ends there or zeros follow. If the data ends within a batch, `needed_bytes` is the
    minimum number of bytes from `end` on that the next scan needs.
    """

    __slots__ = ("batches", "end", "fault", "needed_bytes")

    def __init__(self, batches: list[DataBatch], end: int, fault: str, needed_bytes: int = 0) -> None:
        self.batches = batches
        self.end = end
        self.fault = fault
        self.needed_bytes = needed_bytes


def scan_batches(data: bytes, min_offset: int, with_crc: bool = True) -> BatchScan:
    """Find the longest prefix of complete, valid batches with ascending offsets from `min_offset` on.

    Verifies the CRC of each batch if `with_crc` is set. Never raises.
    """
    found: list[DataBatch] = []
    position = 0
    size = len(data)
    while position < size and any(data[position : position + HEADER_SIZE]):
        if position + HEADER_SIZE > size:
            fault = f"{size - position} bytes at position {position}: too few for a batch header"
            return BatchScan(found, position, fault, HEADER_SIZE)
        try:
            batch = read_batch(data, position)
        except MalformedMessage as malformed:
            return BatchScan(found, position, str(malformed))
        name = f"batch at position {position} (offset {batch.base_offset})"
        if batch.base_offset < min_offset:
            return BatchScan(found, position, f"{name}: the log already ends at offset {min_offset}")
        if position + batch.size > size:
            fault = f"{name} has {batch.size} bytes, only {size - position} are present"
            return BatchScan(found, position, fault, batch.size)
        if with_crc and not crc_is_valid(data, batch):
            return BatchScan(found, position, f"{name}: the CRC does not match")
        found.append(batch)
        position += batch.size
        min_offset = batch.end_offset
    return BatchScan(found, position, "")


def stamped(data: bytes, batch: DataBatch, base_offset: int, epoch: int) -> bytes:
    """Return the batch with this base offset and leader epoch, which its CRC does not cover. Copies the data once.

    Updates `batch`, the header of the single batch in `data`.
    """
    batch.end_offset += base_offset - batch.base_offset
    batch.base_offset = base_offset
    batch.epoch = epoch
    with memoryview(data) as view:
        return b"".join((_BEFORE_MAGIC.pack(base_offset, batch.size - _LENGTH_END, epoch), view[16:]))


def with_log_append_time(data: bytes, batch: DataBatch, timestamp_ms: int) -> bytes:
    """Return the batch with timestamp type LogAppendTime, this maximum timestamp and a new CRC.

    Updates `batch`, the header of the single batch in `data`.
    """
    batch.attributes |= LOG_APPEND_TIME_BIT
    batch.max_timestamp_ms = timestamp_ms
    changed = bytearray(data)
    _ATTRIBUTES.pack_into(changed, _CRC_END, batch.attributes)
    _TIMESTAMP.pack_into(changed, _MAX_TIMESTAMP_START, timestamp_ms)
    with memoryview(changed) as view:
        batch.crc = crc32c(view[_CRC_END:])
    _CRC.pack_into(changed, _CRC_START, batch.crc)
    return bytes(changed)


def encode_header(batch: DataBatch, records: bytes) -> bytes:
    """Encode a batch from a header and encoded records, with a new length and CRC."""
    header = bytearray(
        _HEADER.pack(
            batch.base_offset,
            _MIN_LENGTH + len(records),
            batch.epoch,
            MAGIC,
            0,
            batch.attributes,
            batch.end_offset - batch.base_offset - 1,
            batch.timestamp_ms,
            batch.max_timestamp_ms,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.count,
        )
    )
    header += records
    with memoryview(header) as view:
        crc = crc32c(view[_CRC_END:])
    _CRC.pack_into(header, _CRC_START, crc)
    return bytes(header)
