"""Ticks at round values, and numbers, sizes and times as a reader expects them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from quorumd.pipeline.report.axes import (
    Scale,
    bytes_text,
    count_text,
    counted,
    duration_text,
    number_ticks,
    short_text,
    time_step,
    time_ticks,
)

MIDNIGHT = datetime(2026, 3, 15, tzinfo=UTC).timestamp()


def test_a_scale_maps_ends_to_ends_and_a_single_value_to_its_start() -> None:
    scale = Scale(10, 20, 100, 300)
    assert [scale(10), scale(15), scale(20)] == [100, 200, 300]
    assert Scale(5, 5, 0, 10)(5) == 0


@pytest.mark.parametrize(
    ("high", "ticks"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (3, [0, 1, 2, 3]),
        (7, [0, 2, 4, 6, 8]),
        (100, [0, 20, 40, 60, 80, 100]),
        (1234, [0, 500, 1000, 1500]),
        (0.4, [0, 0.1, 0.2, 0.3, 0.4]),
    ],
)
def test_number_ticks_are_round_and_reach_the_highest_value(high: float, ticks: list[float]) -> None:
    assert number_ticks(high) == ticks


def test_whole_numbers_have_no_fractions_for_ticks() -> None:
    assert all(tick.is_integer() for high in range(1, 300) for tick in number_ticks(high))


def test_ticks_of_a_day_are_at_whole_hours_and_say_where_the_day_changes() -> None:
    ticks = time_ticks(MIDNIGHT - 6 * 3600 - 60, MIDNIGHT + 6 * 3600)
    assert [label for _, label in ticks] == [
        "14 Mar 18:00",
        "20:00",
        "22:00",
        "15 Mar 00:00",
        "02:00",
        "04:00",
        "06:00",
    ]
    assert all(at % 7200 == 0 for at, _ in ticks)


def test_ticks_of_an_instant_have_milliseconds() -> None:
    labels = [label for _, label in time_ticks(MIDNIGHT, MIDNIGHT + 0.05)]
    assert labels[:2] == ["15 Mar 00:00:00.000", "00:00:00.010"]


def test_ticks_of_a_year_are_days() -> None:
    labels = [label for _, label in time_ticks(MIDNIGHT, MIDNIGHT + 364 * 86_400)]
    assert 3 <= len(labels) <= 9
    assert all(":" not in label for label in labels)


@pytest.mark.parametrize("span", [0.02, 1, 90, 5000, 86_400, 9e6, 3e8])
def test_a_step_divides_a_span_into_no_more_than_asked(span: float) -> None:
    assert span / time_step(span, 160) <= 160


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
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_numbers() -> None:
    assert [count_text(value) for value in (1204.0, 0, 1.5)] == ["1,204", "0", "1.5"]
    assert [short_text(value) for value in (950, 9999, 12_345, 3_106_742, 2e9)] == [
        "950",
        "9,999",
        "12.3 k",
        "3.11 M",
        "2 G",
    ]
    assert [bytes_text(value) for value in (512, 24_470_093, 51.5e9)] == ["512 B", "24.5 MB", "51.5 GB"]
    assert [counted(1, "batch", "batches"), counted(2000, "record")] == ["1 batch", "2,000 records"]
