"""Validation of a producer's batch before the leader appends it.

Validates the header, and the keys of uncompressed and gzip batches of compacted topics. Unlike Kafka, it trusts the
record count and the maximum timestamp in the header, and does not recompute them from the records.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.records import ENCODABLE, decompressed, record_spans
from quorumd.errors import ErrorCode, MalformedMessage, RequestError
from quorumd.protocol.batch_header import COMPRESSION_NAMES, BatchHeader, crc_is_valid, read_header

LOG_APPEND_TIME = "LogAppendTime"
COMPACT = "compact"
MAX_RECORDS_WITH_KEYS: Final = 50_000
MAX_BYTES_WITH_KEYS: Final = 16 * 1024 * 1024
"""The keys of a batch are read at once: a megabyte of gzip can have a hundred million records."""


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
        if COMPACT in settings.cleanup_policy and batch.codec in ENCODABLE:
            _validate_keys(records, batch)
    return batch


def _validate_header(batch: BatchHeader) -> None:
    fault = ""
    if batch.base_offset != 0:
        fault = f"the base offset must be 0, not {batch.base_offset}"
    elif batch.count == 0 or batch.count != batch.end_offset:
        fault = f"the batch has {batch.count} records for {batch.end_offset} offsets"
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


def _validate_keys(records: bytes, batch: BatchHeader) -> None:
    if batch.count > MAX_RECORDS_WITH_KEYS:
        text = f"a batch for a compacted topic may have at most {MAX_RECORDS_WITH_KEYS} records, not {batch.count}"
        raise RequestError(ErrorCode.INVALID_RECORD, text)
    try:
        payload = decompressed(records, batch, MAX_BYTES_WITH_KEYS)
        if payload is None:
            text = f"the batch is incomplete, or has more than {MAX_BYTES_WITH_KEYS} bytes when decompressed"
            raise RequestError(ErrorCode.INVALID_RECORD, text)
        for span in record_spans(payload, batch.count):
            if span.key_start < 0:
                raise RequestError(
                    ErrorCode.INVALID_RECORD,
                    f"record {span.offset_delta} has no key; a compacted topic requires keys",
                )
    except MalformedMessage as fault:
        raise RequestError(ErrorCode.INVALID_RECORD, str(fault)) from None
