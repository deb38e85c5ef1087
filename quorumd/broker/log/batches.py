"""Headers of data batches: walk, verify and stamp them without touching the records.

The layout is that of `quorumd.protocol.record_batch`, with the fields that mean nothing in the metadata log: producer
id, producer epoch and base sequence, the codec and the transactional bit. Compaction removes records, so that a batch
may have fewer records than offsets, none at all, and need not start where the batch before it ends.
"""

from __future__ import annotations

from struct import Struct

from crc32c import crc32c

from quorumd.errors import MalformedMessage
from quorumd.protocol.record_batch import COMPRESSION_MASK, CONTROL_BIT, HEADER_SIZE, MAGIC

LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
DELETE_HORIZON_BIT = 0x40
"""The base timestamp is the time from which tombstones and markers of the batch may be removed."""
NO_PRODUCER = -1
NO_TIMESTAMP = -1
MAX_SEQUENCE = 2**31 - 1
"""The sequence after it is 0."""

_HEADER = Struct(">qiibIhiqqqhii")
_BEFORE_MAGIC = Struct(">qii")
_FROM_LENGTH = 8
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
    """A batch header. `position` and `size` are bytes within the data that it was read from.

    Offsets: `base_offset` inclusive, `end_offset` exclusive. Timestamps are Unix milliseconds, NO_TIMESTAMP if none.
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
        """The compression: a key of `record_batch.COMPRESSION_NAMES`, 0 for none."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_control(self) -> bool:
        """Whether the record is a transaction marker."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the records, or the marker, are part of a transaction."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def has_log_append_time(self) -> bool:
        """Whether the maximum timestamp is that of all records."""
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def delete_horizon_ms(self) -> int:
        """Time from which tombstones and markers of the batch may be removed, NO_TIMESTAMP if not set."""
        return self.timestamp_ms if self.attributes & DELETE_HORIZON_BIT else NO_TIMESTAMP

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, removed or not; -1 without sequences."""
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
    """Read the header at `position`; its records may lie beyond the end of `data`.

    Raises MalformedMessage if there is no batch header.
    """
    if position + HEADER_SIZE > len(data):
        raise MalformedMessage(f"{len(data) - position} bytes at position {position} are less than a header")
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
            f"last offset delta {last_delta}, count {count} cannot be a header of a batch"
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
    """Whether the CRC of the batch, whole in `data`, matches; it does not cover base offset and epoch."""
    with memoryview(data) as view:
        return bool(crc32c(view[batch.position + _CRC_END : batch.position + batch.size]) == batch.crc)


class BatchScan:
    """The result of `scan_batches`: the valid batches, where they end, and why.

    `fault` is "" at the end of the data and before zeros. `needed_bytes` is set if the data ends within a batch that
    is valid so far: it needs at least that many from `end`.
    """

    __slots__ = ("batches", "end", "fault", "needed_bytes")

    def __init__(self, batches: list[DataBatch], end: int, fault: str, needed_bytes: int = 0) -> None:
        self.batches = batches
        self.end = end
        self.fault = fault
        self.needed_bytes = needed_bytes


def scan_batches(data: bytes, min_offset: int, with_crc: bool = True) -> BatchScan:
    """Find the longest prefix of whole valid batches, the first of which starts at `min_offset` or above.

    Never raises. `with_crc`: verify the CRC of each batch.
    """
    found: list[DataBatch] = []
    position = 0
    size = len(data)
    while position < size and any(data[position : position + HEADER_SIZE]):
        if position + HEADER_SIZE > size:
            fault = f"{size - position} bytes at position {position} are less than a header"
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
    """Return the batch with another base offset and leader epoch, which its CRC does not cover; one copy.

    `batch`, the header of all of `data`, is updated.
    """
    batch.end_offset += base_offset - batch.base_offset
    batch.base_offset = base_offset
    batch.epoch = epoch
    with memoryview(data) as view:
        return b"".join((_BEFORE_MAGIC.pack(base_offset, batch.size - _LENGTH_END, epoch), view[16:]))


def with_log_append_time(data: bytes, batch: DataBatch, timestamp_ms: int) -> bytes:
    """Return the batch with its maximum timestamp, which then is that of all records, and a new CRC.

    `batch`, the header of all of `data`, is updated.
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
    """Encode a batch of this header and these encoded records; computes length and CRC."""
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
