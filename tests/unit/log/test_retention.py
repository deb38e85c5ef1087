"""Where the log may begin."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.retention import SegmentSummary, begin_of_log

NEVER = LogSettings(retention_bytes=-1, retention_ms=-1)
SMALL = replace(NEVER, retention_bytes=250)
SHORT = replace(NEVER, retention_ms=1000)
SEGMENTS = [SegmentSummary(n * 10, n * 10 + 10, 100, n * 1000) for n in range(5)]
SNAPSHOTS = [OffsetAndEpoch(12, 1), OffsetAndEpoch(25, 1), OffsetAndEpoch(45, 2)]


def begin(settings: LogSettings, high_watermark: int = 50, now_ms: int = 4000) -> OffsetAndEpoch | None:
    return begin_of_log(SEGMENTS, SNAPSHOTS, high_watermark, settings, now_ms)


def test_nothing_goes_without_a_limit() -> None:
    assert begin(NEVER, now_ms=10**9) is None


def test_what_is_beyond_the_size_goes_as_far_as_the_older_of_two_snapshots() -> None:
    assert begin(SMALL) == OffsetAndEpoch(25, 1)


def test_only_as_much_as_is_beyond_the_size() -> None:
    assert begin(replace(NEVER, retention_bytes=450)) == OffsetAndEpoch(12, 1)


def test_what_is_too_old_goes() -> None:
    assert begin(SHORT, now_ms=1500) == OffsetAndEpoch(12, 1)
    assert begin(SHORT, now_ms=900) is None


@pytest.mark.parametrize("high_watermark", [0, 24])
def test_what_is_not_committed_is_no_ground_for_anything(high_watermark: int) -> None:
    assert begin(SMALL, high_watermark) is None


def test_a_snapshot_above_the_high_watermark_does_not_count() -> None:
    assert begin(SMALL, high_watermark=44) == OffsetAndEpoch(12, 1)


def test_one_snapshot_is_not_enough() -> None:
    assert begin_of_log(SEGMENTS, SNAPSHOTS[-1:], 50, SMALL, 0) is None


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.sets(st.integers(1, 100)),
    st.integers(0, 100),
    st.integers(-1, 2000),
    st.integers(-1, 2000),
)
def test_the_end_the_newest_snapshot_and_one_before_it_always_stay(
    lengths: list[int], offsets: set[int], high_watermark: int, retention_bytes: int, retention_ms: int
) -> None:
    segments, base = [], 0
    for length in lengths:
        segments.append(SegmentSummary(base, base + length, length * 30, base * 10))
        base += length
    snapshots = [OffsetAndEpoch(offset, 1) for offset in sorted(offsets) if offset <= base]
    settings = LogSettings(retention_bytes=retention_bytes, retention_ms=retention_ms)
    start = begin_of_log(segments, snapshots, high_watermark, settings, 1000)
    if start is not None:
        assert start in snapshots
        assert start.offset <= high_watermark
        assert len([snapshot for snapshot in snapshots if start <= snapshot]) >= 2
        assert start.offset < base
