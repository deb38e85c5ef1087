"""The log start offset that retention allows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.retention import SegmentSummary, StoredSnapshot, new_log_start

NEVER = LogSettings(retention_bytes=-1, retention_ms=-1)
SMALL = replace(NEVER, retention_bytes=250)
SHORT = replace(NEVER, retention_ms=1000)
SEGMENTS = [SegmentSummary(n * 10, n * 10 + 10, 100, n * 1000) for n in range(5)]
SNAPSHOTS = [
    StoredSnapshot(OffsetAndEpoch(12, 1), 0, 1000),
    StoredSnapshot(OffsetAndEpoch(25, 1), 0, 2000),
    StoredSnapshot(OffsetAndEpoch(45, 2), 0, 4000),
]


def begin(settings: LogSettings, high_watermark: int = 50, now_ms: int = 4000) -> OffsetAndEpoch | None:
    return new_log_start(SEGMENTS, SNAPSHOTS, high_watermark, settings, now_ms)


def test_no_limit_deletes_nothing() -> None:
    assert begin(NEVER, now_ms=10**9) is None


def test_size_limit_deletes_up_to_the_older_of_two_snapshots() -> None:
    assert begin(SMALL) == OffsetAndEpoch(25, 1)


def test_size_limit_deletes_the_excess_only() -> None:
    assert begin(replace(NEVER, retention_bytes=450)) == OffsetAndEpoch(12, 1)


def test_snapshots_beyond_retention_ms_are_deleted() -> None:
    assert begin(SHORT, now_ms=1500) == OffsetAndEpoch(12, 1)
    assert begin(SHORT, now_ms=900) is None


@pytest.mark.parametrize("high_watermark", [0, 24])
def test_uncommitted_records_do_not_count_for_retention(high_watermark: int) -> None:
    assert begin(SMALL, high_watermark) is None


def test_snapshot_above_the_high_watermark_does_not_count() -> None:
    assert begin(SMALL, high_watermark=44) == OffsetAndEpoch(12, 1)


def test_one_snapshot_is_not_enough() -> None:
    assert new_log_start(SEGMENTS, SNAPSHOTS[-1:], 50, SMALL, 0) is None


def test_snapshots_count_towards_the_size_limit() -> None:
    active = [SegmentSummary(0, 100, 1000, 9000)]
    many = [StoredSnapshot(OffsetAndEpoch(n * 10, 1), 100, n * 1000) for n in range(1, 10)]
    assert new_log_start(active, many, 100, replace(NEVER, retention_bytes=1900), 0) is None
    assert new_log_start(active, many, 100, replace(NEVER, retention_bytes=1700), 0) == (30, 1)
    assert new_log_start(active, many, 100, replace(NEVER, retention_bytes=0), 0) == (80, 1)
    assert new_log_start(active, many, 100, SHORT, 5500) == (50, 1)
    assert new_log_start(active, many, 55, replace(NEVER, retention_bytes=0), 0) == (40, 1)


def test_segment_that_ends_at_the_snapshot_is_deleted() -> None:
    snapshots = [StoredSnapshot(OffsetAndEpoch(offset, 1), 0, 0) for offset in (20, 45)]
    limit = replace(NEVER, retention_bytes=350)
    assert new_log_start(SEGMENTS, snapshots, 50, limit, 0) == OffsetAndEpoch(20, 1)
    between = StoredSnapshot(OffsetAndEpoch(30, 1), 0, 0)
    assert new_log_start(SEGMENTS, [snapshots[0], between, snapshots[1]], 50, limit, 0) == (20, 1), (
        "it frees enough"
    )
    assert new_log_start(SEGMENTS[:1], snapshots, 50, replace(NEVER, retention_bytes=0), 0) is None


def test_retention_is_idempotent() -> None:
    assert new_log_start(SEGMENTS[2:], SNAPSHOTS[1:], 50, replace(NEVER, retention_bytes=0), 10**9) is None


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.sets(st.integers(1, 100)),
    st.integers(0, 100),
    st.integers(-1, 2000),
    st.integers(-1, 2000),
)
def test_deletes_no_more_than_required_and_keeps_two_snapshots(
    lengths: list[int], offsets: set[int], high_watermark: int, retention_bytes: int, retention_ms: int
) -> None:
    segments, base = [], 0
    for length in lengths:
        segments.append(SegmentSummary(base, base + length, length * 30, base * 10))
        base += length
    snapshots = [
        StoredSnapshot(OffsetAndEpoch(offset, 1), offset, offset * 10)
        for offset in sorted(offsets)
        if offset <= base
    ]
    settings = LogSettings(retention_bytes=retention_bytes, retention_ms=retention_ms)
    start = new_log_start(segments, snapshots, high_watermark, settings, 1000)
    committed = [stored for stored in snapshots if stored.snapshot.offset <= high_watermark]
    if start is not None:
        assert start <= committed[-2].snapshot
        segments = [s for s in segments if s.end_offset > start.offset or s is segments[-1]]
        snapshots = [s for s in snapshots if s.snapshot >= start]
        assert new_log_start(segments, snapshots, high_watermark, settings, 1000) in (None, start)
    elif len(committed) >= 2 and retention_bytes >= 0:
        bound = committed[-2].snapshot.offset
        frees = committed[:-2] or [s for s in segments[:-1] if s.end_offset <= bound]
        kept = sum(s.size for s in segments) + sum(s.size for s in committed)
        assert not frees or kept <= retention_bytes
