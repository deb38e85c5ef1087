"""Where the log may begin: what of it a snapshot has made superfluous, and for how long it is kept (KIP-630). Pure.

The two newest snapshots stay, and all of the log behind the older of them: a replica that was away for a moment
goes on fetching records and needs no snapshot, and one that is damaged leaves another to begin with.

Snapshots count as much as segments do: while the one active segment is filled there may be many of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """One segment. `timestamp_ms` is that of its last batch, Unix milliseconds."""

    base_offset: int
    end_offset: int
    size: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """One snapshot. `timestamp_ms` is that of the last batch of the log in it, Unix milliseconds."""

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
    """The snapshot at whose end the log shall begin from now on, None if it stays as it is.

    `segments` and `snapshots` ascend; `now_ms` is Unix time. To begin at a snapshot frees the older ones and the
    segments that end at or below it, but never the active one. It is done, one snapshot after the other up to the
    older of the two newest that end at or below the high watermark, while all that is there has more than
    `retention_bytes`, or what becomes free is older than `retention_ms`.
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
