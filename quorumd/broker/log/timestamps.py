"""Looks up offsets by timestamp, for ListOffsets.

A batch that cannot be decoded counts as one record with its base offset and maximum timestamp, so that a consumer
that starts there skips no record.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final, NamedTuple

from quorumd.broker.log.data_segment import DataSegment
from quorumd.broker.log.records import decompress_in_steps, record_spans
from quorumd.errors import CorruptLog, MalformedMessage
from quorumd.protocol.batch_header import NO_TIMESTAMP, BatchHeader

MAX_BYTES: Final = 16 * 1024 * 1024
"""A batch that is larger when decompressed counts as one record: a megabyte can become a gigabyte."""
RECORDS_PER_STEP: Final = 32
_Batch = tuple[bytes, BatchHeader]
"""A batch, and data that holds it at the position in its header."""


class TimestampOffset(NamedTuple):
    """Timestamp (Unix milliseconds), offset and leader epoch of a record."""

    timestamp_ms: int
    offset: int
    epoch: int


Steps = Generator[None, None, TimestampOffset | None]
"""The steps of a lookup, each of less than a millisecond; the log may change between two of them."""
LogSegments = Callable[[], Sequence[DataSegment]]


def first_at_least(segments: LogSegments, timestamp_ms: int, min_offset: int) -> Steps:
    """The first record from `min_offset` on with at least this timestamp. Raises CorruptLog, OSError."""
    while True:
        candidate = _batch_at_least(segments(), timestamp_ms, min_offset)
        if candidate is None:
            return None
        found = yield from _first_record(*candidate, timestamp_ms, min_offset)
        if found is not None:
            return found
        min_offset = candidate[1].end_offset


def first_with_largest(segments: LogSegments) -> Steps:
    """The first record with the largest timestamp of the segments. Raises CorruptLog, OSError."""
    segment = max(segments(), key=_largest)
    largest = segment.largest_timestamp_ms
    candidate = None
    if largest != NO_TIMESTAMP:
        candidate = _batch_with_largest(segment, largest)
    if candidate is None:
        return None
    batch = candidate[1]
    found = yield from _first_record(*candidate, largest, batch.base_offset)
    return TimestampOffset(largest, batch.end_offset - 1, batch.epoch) if found is None else found


def _batch_at_least(segments: Sequence[DataSegment], timestamp_ms: int, min_offset: int) -> _Batch | None:
    for segment in segments:
        if segment.end_offset <= min_offset or segment.largest_timestamp_ms < timestamp_ms:
            continue
        position = segment.indexes.position_before_timestamp(timestamp_ms)
        if min_offset > segment.base_offset:
            position = max(position, segment.position_of(min_offset))
        for window in segment.windows(position, segment.size):
            for batch in window.headers:
                if batch.max_timestamp_ms >= timestamp_ms and batch.end_offset > min_offset:
                    return window.data, batch
    return None


def _batch_with_largest(segment: DataSegment, largest_ms: int) -> _Batch | None:
    position = segment.position_of(segment.indexes.largest_timestamp_offset)
    for window in segment.windows(position, segment.size):
        for batch in window.headers:
            if batch.max_timestamp_ms == largest_ms:
                return window.data, batch
    return None


def _largest(segment: DataSegment) -> int:
    return segment.largest_timestamp_ms


def _first_record(data: bytes, batch: BatchHeader, timestamp_ms: int, min_offset: int) -> Steps:
    """The first record of a batch from `min_offset` on with at least this timestamp. A batch whose records share a
    timestamp or cannot be decoded counts as its first record."""
    first = TimestampOffset(batch.max_timestamp_ms, batch.base_offset, batch.epoch)
    try:
        payload = None
        if not batch.has_log_append_time:
            payload = yield from decompress_in_steps(data, batch, MAX_BYTES)
        if payload is None:
            return first if first.offset >= min_offset else None
        for position, span in enumerate(record_spans(payload, batch.count), 1):
            offset = batch.base_offset + span.offset_delta
            record_ms = batch.timestamp_ms + span.timestamp_delta
            if record_ms >= timestamp_ms and offset >= min_offset:
                return TimestampOffset(record_ms, offset, batch.epoch)
            if position % RECORDS_PER_STEP == 0:
                yield
    except MalformedMessage as fault:
        raise CorruptLog(f"batch at offset {batch.base_offset}: {fault}") from None
    return None
