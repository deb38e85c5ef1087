"""Where the log may begin: what of it a snapshot has made superfluous, and for how long it is kept (KIP-630). Pure.

The two newest snapshots stay, and all of the log behind the older of them: a replica that was away for a moment
goes on fetching records and needs no snapshot, and one that is damaged leaves another to begin with.
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


def begin_of_log(
    segments: Sequence[SegmentSummary],
    snapshots: Sequence[OffsetAndEpoch],
    high_watermark: int,
    settings: LogSettings,
    now_ms: int,
) -> OffsetAndEpoch | None:
    """The snapshot at whose end the log shall begin from now on, None if it stays as it is.

    `segments` and `snapshots` ascend; `now_ms` is Unix time. A segment is removable if it is not the active one and
    ends at or below the older of the two newest snapshots that end at or below the high watermark. Of the removable
    ones go those that are beyond `retention_bytes`, counted from the newest end, or older than `retention_ms`.
    """
    usable = [snapshot for snapshot in snapshots if snapshot.offset <= high_watermark]
    if len(usable) < 2:
        return None
    bound = usable[-2].offset
    kept_bytes = sum(segment.size for segment in segments)
    superfluous = 0
    for segment in segments[:-1]:
        too_large = 0 <= settings.retention_bytes < kept_bytes
        too_old = settings.retention_ms >= 0 and now_ms - segment.timestamp_ms > settings.retention_ms
        if segment.end_offset > bound or not (too_large or too_old):
            break
        superfluous = segment.end_offset
        kept_bytes -= segment.size
    if superfluous == 0:
        return None
    return next(snapshot for snapshot in usable if snapshot.offset >= superfluous)
