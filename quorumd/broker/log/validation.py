"""Checks of the batch that a producer sends, before a leader appends it.

Only the header is examined, apart from the keys of uncompressed and gzip batches of compacted topics: the count and
the maximum timestamp are those that the producer computed. Stock Kafka parses every record to compute them again.
"""

from __future__ import annotations

from enum import Enum

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.batches import DataBatch, crc_is_valid, read_batch
from quorumd.broker.log.records import ENCODABLE, decompressed, record_spans
from quorumd.errors import ErrorCode, MalformedMessage, RequestError
from quorumd.protocol.record_batch import COMPRESSION_NAMES

LOG_APPEND_TIME = "LogAppendTime"
COMPACT = "compact"


class Origin(Enum):
    """The source of a leader's batch."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """A coordinator on this broker: its batches may be transactional without sequences, and may be markers."""


def validate_produced(
    records: bytes, settings: PartitionLogSettings, wall_ms: int, origin: Origin
) -> DataBatch:
    """Return the header of the one batch in `records`. Raises RequestError."""
    try:
        batch = read_batch(records)
    except MalformedMessage as fault:
        raise RequestError(ErrorCode.INVALID_RECORD, str(fault)) from None
    size = len(records)
    if batch.size != size:
        if batch.size > size:
            raise RequestError(
                ErrorCode.CORRUPT_MESSAGE, f"the batch has {batch.size} bytes, {size} are present"
            )
        raise RequestError(
            ErrorCode.INVALID_RECORD, "a produce request has one batch per partition; this one has more"
        )
    if size > settings.max_message_bytes and origin is Origin.CLIENT:
        raise RequestError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, max.message.bytes is {settings.max_message_bytes}",
        )
    if size > settings.segment_bytes:
        raise RequestError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {size} bytes, segment.bytes is {settings.segment_bytes}",
        )
    if not crc_is_valid(records, batch):
        raise RequestError(ErrorCode.CORRUPT_MESSAGE, f"the CRC of the batch is not {batch.crc}")
    if batch.codec and batch.codec not in COMPRESSION_NAMES:
        raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown codec {batch.codec}")
    if origin is Origin.CLIENT:
        _validate_header(batch)
        if settings.message_timestamp_type != LOG_APPEND_TIME:
            _validate_timestamps(batch, settings, wall_ms)
        if COMPACT in settings.cleanup_policy and batch.codec in ENCODABLE:
            _validate_keys(records, batch)
    return batch


def _validate_header(batch: DataBatch) -> None:
    fault = ""
    if batch.base_offset != 0:
        fault = f"the base offset is {batch.base_offset}, producers send 0"
    elif batch.count == 0 or batch.count != batch.end_offset:
        fault = f"{batch.count} records for {batch.end_offset} offsets"
    elif batch.is_control:
        fault = "only coordinators write control batches"
    elif batch.producer_id >= 0 and batch.base_sequence < 0:
        fault = f"producer {batch.producer_id} sent sequence {batch.base_sequence}"
    if fault:
        raise RequestError(ErrorCode.INVALID_RECORD, fault)


def _validate_timestamps(batch: DataBatch, settings: PartitionLogSettings, wall_ms: int) -> None:
    if batch.has_log_append_time:
        raise RequestError(ErrorCode.INVALID_TIMESTAMP, "producers do not set log append times")
    latest = wall_ms + settings.message_timestamp_after_max_ms
    earliest = wall_ms - settings.message_timestamp_before_max_ms
    if batch.max_timestamp_ms > latest or 0 <= batch.timestamp_ms < earliest:
        raise RequestError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamps {batch.timestamp_ms}..{batch.max_timestamp_ms} are not within {earliest}..{latest}",
        )


def _validate_keys(records: bytes, batch: DataBatch) -> None:
    try:
        payload = decompressed(records, batch)
        if payload is None:
            return
        for span in record_spans(payload, batch.count):
            if span.key_start < 0:
                raise RequestError(
                    ErrorCode.INVALID_RECORD,
                    f"record {span.offset_delta} has no key, and the topic is compacted",
                )
    except MalformedMessage as fault:
        raise RequestError(ErrorCode.INVALID_RECORD, str(fault)) from None
