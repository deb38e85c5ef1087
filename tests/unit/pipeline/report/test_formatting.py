"""Formats of numbers, sizes and times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from quorumd.pipeline.report.formatting import (
    format_bytes,
    format_count,
    format_duration,
    format_short,
    format_time,
    pluralize,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "12 ms"),
        (1.25, "1.25 s"),
        (3, "3 s"),
        (59.7, "1 min"),
        (90, "1 min 30 s"),
        (7500, "2 h 5 min"),
        (7200, "2 h"),
        (273_600, "3 d 4 h"),
    ],
)
def test_durations_have_at_most_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_times_are_utc_with_milliseconds_for_fine_resolutions() -> None:
    at = datetime(2026, 3, 15, 14, 5, 6, 250_000, tzinfo=UTC).timestamp()
    assert format_time(at) == "2026-03-15 14:05:06"
    assert format_time(at, 0.1) == "2026-03-15 14:05:06.250"


def test_numbers_are_formatted() -> None:
    assert [format_count(value) for value in (1204.0, 0, 1.5)] == ["1,204", "0", "1.5"]
    assert [format_short(value) for value in (950, 9999, 12_345, 3_106_742, 2e9)] == [
        "950",
        "9,999",
        "12.3 k",
        "3.11 M",
        "2 G",
    ]
    assert [format_bytes(value) for value in (512, 24_470_093, 51.5e9)] == ["512 B", "24.5 MB", "51.5 GB"]
    assert [pluralize(1, "batch", "batches"), pluralize(2000, "record")] == ["1 batch", "2,000 records"]
