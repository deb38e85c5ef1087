"""Retention: the segments to delete by `retention.ms` and `retention.bytes`."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.data_segment import DataSegment
from quorumd.protocol.batch_header import NO_TIMESTAMP

DELETE = "delete"


def first_segment_to_keep(
    segments: Sequence[DataSegment], settings: PartitionLogSettings, wall_ms: int, high_watermark: int
) -> int:
    """The index of the oldest segment to keep; the number of segments if all can be deleted.

    Keeps segments with records at or above the high watermark. `retention.ms` does not apply to a segment without
    timestamps. Raises OSError.
    """
    if DELETE not in settings.cleanup_policy:
        return 0
    surplus = sum([segment.size for segment in segments]) - settings.retention_bytes
    for index, segment in enumerate(segments):
        end_offset = segments[index + 1].base_offset if index + 1 < len(segments) else segment.end_offset
        exceeds_size = settings.retention_bytes >= 0 and surplus >= segment.size
        if end_offset > high_watermark or not (exceeds_size or _is_expired(segment, settings, wall_ms)):
            return index
        surplus -= segment.size
    return len(segments)


def _is_expired(segment: DataSegment, settings: PartitionLogSettings, wall_ms: int) -> bool:
    if settings.retention_ms < 0:
        return False
    if segment.size == 0:
        return True  # Compaction removed every batch.
    largest = segment.largest_timestamp_ms
    return largest != NO_TIMESTAMP and wall_ms - largest > settings.retention_ms
