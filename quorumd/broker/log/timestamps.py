"""Looks up offsets by timestamp, for ListOffsets.

A batch that cannot be decoded counts as one record with its base offset and maximum timestamp, so that a consumer
that starts there skips no record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quorumd.broker.log.data_segment import DataSegment
from quorumd.broker.log.records import decompressed, record_spans
from quorumd.errors import CorruptLog, MalformedMessage
from quorumd.protocol.batch_header import NO_TIMESTAMP, BatchHeader


class TimestampOffset(NamedTuple):
    """Timestamp (Unix milliseconds), offset and leader epoch of a record."""

    timestamp_ms: int
    offset: int
    epoch: int


def first_at_least(
    segments: Sequence[DataSegment], timestamp_ms: int, min_offset: int
) -> TimestampOffset | None:
    """The first record from `min_offset` on with at least this timestamp. Raises CorruptLog, OSError."""
    for segment in segments:
        if segment.end_offset > min_offset and segment.largest_timestamp_ms >= timestamp_ms:
            found = _first_in_segment(segment, timestamp_ms, min_offset)
            if found is not None:
                return found
    return None


def _first_in_segment(segment: DataSegment, timestamp_ms: int, min_offset: int) -> TimestampOffset | None:
    position = segment.indexes.position_before_timestamp(timestamp_ms)
    if min_offset > segment.base_offset:
        position = max(position, segment.position_of(min_offset))
    for window in segment.windows(position, segment.size):
        for batch in window.headers:
            if batch.max_timestamp_ms >= timestamp_ms and batch.end_offset > min_offset:
                for found in _records(window.data, batch):
                    if found.timestamp_ms >= timestamp_ms and found.offset >= min_offset:
                        return found
    return None


def first_with_largest(segments: Sequence[DataSegment]) -> TimestampOffset | None:
    """The first record with the largest timestamp of the segments. Raises CorruptLog, OSError."""
    segment = max(segments, key=_largest)
    largest = segment.largest_timestamp_ms
    if largest == NO_TIMESTAMP:
        return None
    position = segment.position_of(segment.indexes.largest_timestamp_offset)
    for window in segment.windows(position, segment.size):
        for batch in window.headers:
            if batch.max_timestamp_ms == largest:
                for found in _records(window.data, batch):
                    if found.timestamp_ms == largest:
                        return found
                return TimestampOffset(largest, batch.end_offset - 1, batch.epoch)
    return None


def _largest(segment: DataSegment) -> int:
    return segment.largest_timestamp_ms


def _records(data: bytes, batch: BatchHeader) -> list[TimestampOffset]:
    """The records of a batch; only the first if they share a timestamp or cannot be decoded."""
    if batch.has_log_append_time:
        return [TimestampOffset(batch.max_timestamp_ms, batch.base_offset, batch.epoch)]
    try:
        payload = decompressed(data, batch)
        if payload is None:
            return [TimestampOffset(batch.max_timestamp_ms, batch.base_offset, batch.epoch)]
        base_ms, base = batch.timestamp_ms, batch.base_offset
        return [
            TimestampOffset(base_ms + span.timestamp_delta, base + span.offset_delta, batch.epoch)
            for span in record_spans(payload, batch.count)
        ]
    except MalformedMessage as fault:
        raise CorruptLog(f"batch at offset {batch.base_offset}: {fault}") from None
