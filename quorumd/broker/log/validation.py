"""Validation of a producer's batch before the leader appends it.

Validates the header (`validate_produced`), and before that, in steps, the keys of uncompressed and gzip batches of
compacted topics (`validate_keys`). Unlike Kafka, it trusts the record count in the header if the batch can hold as
many, and the maximum timestamp, and does not recompute them from the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.record_stream import read_records
from quorumd.broker.log.records import ENCODABLE, NotDecoded
from quorumd.errors import ErrorCode, MalformedMessage, RequestError
from quorumd.protocol.batch_header import (
    ATTRIBUTES_LOW_BYTE,
    COMPRESSION_MASK,
    COMPRESSION_NAMES,
    HEADER_SIZE,
    BatchHeader,
    crc_is_valid,
    read_header,
)

LOG_APPEND_TIME = "LogAppendTime"
COMPACT = "compact"
MAX_RECORDS_WITH_KEYS: Final = 50_000
MAX_BYTES_WITH_KEYS: Final = 16 * 1024 * 1024
"""A megabyte of gzip can have a hundred million records, which take minutes to read."""


_MIN_RECORD_BYTES: Final = 7
_MAX_RATIOS: Final = (1, 1_032, 32, 256, 40_000)
"""By codec, at least as many bytes as one byte can become."""


class KeysMissing(RequestError):
    """Records of a batch have no keys; `records` are their positions in the batch (KIP-467)."""

    def __init__(self, records: list[int]) -> None:
        first = ", ".join(map(str, records[:3]))
        super().__init__(
            ErrorCode.INVALID_RECORD,
            f"{len(records)} records have no key, which a compacted topic requires; the first are {first}",
        )
        self.records = records


class Origin(Enum):
    """The origin of a batch that the leader appends."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """A coordinator on this broker, which may append transactional batches without sequence numbers."""


def validate_produced(
    records: bytes, settings: PartitionLogSettings, wall_ms: int, origin: Origin
) -> BatchHeader:
    """Validate the single batch in `records`, and return its header. Raises RequestError."""
    try:
        batch = read_header(records)
    except MalformedMessage as fault:
        raise RequestError(ErrorCode.INVALID_RECORD, str(fault)) from None
    size = len(records)
    if batch.size != size:
        if batch.size > size:
            raise RequestError(
                ErrorCode.CORRUPT_MESSAGE, f"the batch has {batch.size} bytes, only {size} are present"
            )
        raise RequestError(
            ErrorCode.INVALID_RECORD, "a produce request may have only one batch per partition"
        )
    if size > settings.max_message_bytes and origin is Origin.CLIENT:
        raise RequestError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, but max.message.bytes is {settings.max_message_bytes}",
        )
    if size > settings.segment_bytes:
        raise RequestError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {size} bytes, but segment.bytes is {settings.segment_bytes}",
        )
    if not crc_is_valid(records, batch):
        raise RequestError(ErrorCode.CORRUPT_MESSAGE, f"the CRC {batch.crc} of the batch does not match")
    if batch.codec and batch.codec not in COMPRESSION_NAMES:
        raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {batch.codec}")
    if origin is Origin.CLIENT:
        _validate_header(batch)
        if settings.message_timestamp_type != LOG_APPEND_TIME:
            _validate_timestamps(batch, settings, wall_ms)
    return batch


def requires_keys(records: bytes, settings: PartitionLogSettings) -> bool:
    """Whether `validate_keys` has something to validate."""
    if COMPACT not in settings.cleanup_policy:
        return False
    return len(records) > ATTRIBUTES_LOW_BYTE and records[ATTRIBUTES_LOW_BYTE] & COMPRESSION_MASK in ENCODABLE


def validate_keys(records: bytes, settings: PartitionLogSettings, wall_ms: int) -> Iterator[None]:
    """Validate a client's batch and the keys of its records, in steps of less than a millisecond. Raises
    RequestError, which is KeysMissing if nothing else is wrong."""
    batch = validate_produced(records, settings, wall_ms, Origin.CLIENT)
    if batch.count > MAX_RECORDS_WITH_KEYS:
        text = f"a batch for a compacted topic may have at most {MAX_RECORDS_WITH_KEYS} records, not {batch.count}"
        raise RequestError(ErrorCode.INVALID_RECORD, text)
    without_key: list[int] = []
    try:
        position = -1
        for record in read_records(records, batch, MAX_BYTES_WITH_KEYS):
            if record is None:
                yield
                continue
            position += 1
            if not record.has_key:
                without_key.append(position)
    except NotDecoded:
        text = f"the batch is incomplete, or has more than {MAX_BYTES_WITH_KEYS} bytes when decompressed"
        raise RequestError(ErrorCode.INVALID_RECORD, text) from None
    except MalformedMessage as fault:
        raise RequestError(ErrorCode.INVALID_RECORD, str(fault)) from None
    if without_key:
        raise KeysMissing(without_key)


def _validate_header(batch: BatchHeader) -> None:
    fault = ""
    if batch.base_offset != 0:
        fault = f"the base offset must be 0, not {batch.base_offset}"
    elif batch.count == 0 or batch.count != batch.end_offset:
        fault = f"the batch has {batch.count} records for {batch.end_offset} offsets"
    elif batch.count * _MIN_RECORD_BYTES > (batch.size - HEADER_SIZE) * _MAX_RATIOS[batch.codec]:
        # The offsets of a segment are limited: two billion of them in a few bytes would take a segment each.
        fault = f"the batch of {batch.size} bytes cannot have {batch.count} records"
    elif batch.is_control:
        fault = "clients cannot write control batches"
    elif batch.producer_id >= 0 and batch.base_sequence < 0:
        fault = f"invalid sequence number {batch.base_sequence} of producer {batch.producer_id}"
    if fault:
        raise RequestError(ErrorCode.INVALID_RECORD, fault)


def _validate_timestamps(batch: BatchHeader, settings: PartitionLogSettings, wall_ms: int) -> None:
    if batch.has_log_append_time:
        raise RequestError(ErrorCode.INVALID_TIMESTAMP, "clients cannot set the timestamp type LogAppendTime")
    latest = wall_ms + settings.message_timestamp_after_max_ms
    earliest = wall_ms - settings.message_timestamp_before_max_ms
    if batch.max_timestamp_ms > latest or 0 <= batch.timestamp_ms < earliest:
        raise RequestError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamps {batch.timestamp_ms}..{batch.max_timestamp_ms} are outside {earliest}..{latest}",
        )
