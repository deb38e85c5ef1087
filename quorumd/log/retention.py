"""Retention: which segments and snapshots a newer snapshot makes obsolete, and how long they are kept (KIP-630).

The two newest snapshots and the log after the older one are always kept, so that a replica that was briefly offline
can fetch records instead of a snapshot, and a damaged snapshot is not the only one.

The total size includes snapshots, since there may be many of them before the active segment is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """One segment. `timestamp_ms` is the timestamp of its last batch, Unix milliseconds."""

    base_offset: int
    end_offset: int
    size: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """One snapshot. `timestamp_ms` is the timestamp of the last log batch in it, Unix milliseconds."""

    snapshot: OffsetAndEpoch
    size: int
    timestamp_ms: int


def new_log_start(
    segments: Sequence[SegmentSummary],
    snapshots: Sequence[StoredSnapshot],
    high_watermark: int,
    settings: LogSettings,
    now_ms: int,
) -> OffsetAndEpoch | None:
    """The snapshot at whose end the log should start, None to leave it unchanged.

    `segments` and `snapshots` are ascending; `now_ms` is Unix time. A log that starts at a snapshot needs no older
    snapshots, and of the segments that end at or below it only the active one. The start advances snapshot by
    snapshot, at most to the second newest one at or below the high watermark, as long as the total size exceeds
    `retention_bytes` or the newest record that a step removes is older than `retention_ms`.
    """
    usable = [stored for stored in snapshots if stored.snapshot.offset <= high_watermark]
    kept_bytes = sum(segment.size for segment in segments) + sum(stored.size for stored in usable)
    new_start = None
    segments_gone = snapshots_gone = 0
    for index, candidate in enumerate(usable[:-1]):
        covered = [segment for segment in segments[:-1] if segment.end_offset <= candidate.snapshot.offset]
        freed: list[SegmentSummary | StoredSnapshot] = [
            *covered[segments_gone:],
            *usable[snapshots_gone:index],
        ]
        if not freed:
            continue
        too_large = 0 <= settings.retention_bytes < kept_bytes
        age_ms = now_ms - max(piece.timestamp_ms for piece in freed)
        if not too_large and not 0 <= settings.retention_ms < age_ms:
            break
        new_start = candidate.snapshot
        segments_gone, snapshots_gone = len(covered), index
        kept_bytes -= sum(piece.size for piece in freed)
    return new_start
