"""Looks up offsets by timestamp, for ListOffsets.

A batch whose records cannot be read counts as one record with its base offset and maximum timestamp, so that a
consumer that starts there skips no record.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final, NamedTuple

from quorumd.broker.log.data_segment import DataSegment
from quorumd.broker.log.record_stream import read_records
from quorumd.broker.log.records import NotDecoded
from quorumd.errors import MalformedMessage
from quorumd.log.batch_windows import Window
from quorumd.protocol.batch_header import NO_TIMESTAMP, BatchHeader

MAX_BYTES: Final = 16 * 1024 * 1024
"""A batch that is larger when decompressed counts as one record: a megabyte can become a gigabyte."""
WINDOW_BYTES: Final = 4096
"""Bytes whose batches are read in one step, as many as there are between two entries of an index: a megabyte may have
15,000 batches."""
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
    while (window := _window_at_least(segments(), timestamp_ms, min_offset)) is not None:
        for batch in window.headers:
            if batch.max_timestamp_ms >= timestamp_ms and batch.end_offset > min_offset:
                # The producer chose the timestamp in the header, which its records may not have.
                found = yield from _first_record(window.data, batch, timestamp_ms, min_offset)
                if found is not None:
                    return found
                yield
        min_offset = window.headers[-1].end_offset
        yield
    return None


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


def _window_at_least(segments: Sequence[DataSegment], timestamp_ms: int, min_offset: int) -> Window | None:
    """The next batches from `min_offset` on, in a segment that has the timestamp or a later one."""
    for segment in segments:
        if segment.end_offset <= min_offset or segment.largest_timestamp_ms < timestamp_ms:
            continue
        position = segment.indexes.position_before_timestamp(timestamp_ms)
        if min_offset > segment.base_offset:
            position = max(position, segment.position_of(min_offset))
        for window in segment.windows(position, segment.size, least_bytes=WINDOW_BYTES):
            if window.headers and window.headers[-1].end_offset > min_offset:
                return window
    return None


def _batch_with_largest(segment: DataSegment, largest_ms: int) -> _Batch | None:
    position = segment.position_of(segment.indexes.largest_timestamp_offset)
    for window in segment.windows(position, segment.size, least_bytes=WINDOW_BYTES):
        for batch in window.headers:
            if batch.max_timestamp_ms == largest_ms:
                return window.data, batch
    return None


def _largest(segment: DataSegment) -> int:
    return segment.largest_timestamp_ms


def _first_record(data: bytes, batch: BatchHeader, timestamp_ms: int, min_offset: int) -> Steps:
    """The first record of a batch from `min_offset` on with at least this timestamp. A batch whose records share a
    timestamp or cannot be read counts as its first record."""
    first = TimestampOffset(batch.max_timestamp_ms, batch.base_offset, batch.epoch)
    if batch.has_log_append_time:
        return first if first.offset >= min_offset else None
    try:
        for record in read_records(data, batch, MAX_BYTES):
            if record is None:
                yield
                continue
            offset = batch.base_offset + record.offset_delta
            record_ms = min(batch.timestamp_ms + record.timestamp_delta, batch.max_timestamp_ms)
            if record_ms >= timestamp_ms and min_offset <= offset < batch.end_offset:
                return TimestampOffset(record_ms, offset, batch.epoch)
    except (MalformedMessage, NotDecoded):
        # A client chose the records: they do not show that the disk is damaged.
        return first if first.offset >= min_offset else None
    return None
