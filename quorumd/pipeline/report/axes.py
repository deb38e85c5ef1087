"""Axes of plots: ticks at round values; how numbers, sizes and times are written. Times are seconds since 1970."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

TIME_STEPS_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
    *(86_400, 2 * 86_400, 7 * 86_400, 14 * 86_400, 28 * 86_400, 91 * 86_400, 364 * 86_400),
)
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class Scale:
    """Values of [low, high] on the way from pixel `start` to pixel `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low or 1.0
        return self.start + (value - self.low) / span * (self.end - self.start)


def number_ticks(high: float, most: int = 5) -> list[float]:
    """0 and round values from there, the last of them at or above `high`; whole ones for whole numbers."""
    if high <= 0:
        return [0.0, 1.0]
    rough = high / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    if high >= 1 and step < 1:
        step = 1.0
    return [round(step * i, 10) for i in range(math.ceil(high / step - 1e-9) + 1)]


def time_step(span_s: float, most: int) -> float:
    """The shortest usual step of time that divides a span into at most `most` parts."""
    return next((step for step in TIME_STEPS_S if span_s / step <= most), TIME_STEPS_S[-1])


def time_ticks(low_s: float, high_s: float, most: int = 8) -> list[tuple[float, str]]:
    """Round times within [low, high] with their labels; the date is said where it changes."""
    step = time_step(high_s - low_s, most)
    ticks = []
    day = None
    at = math.ceil(low_s / step) * step
    while at <= high_s:
        moment = datetime.fromtimestamp(round(at, 6), UTC)
        label = _clock(moment, step)
        if step >= _DAY_S:
            label = f"{moment:%-d %b}"
        elif moment.date() != day:
            label = f"{moment:%-d %b} {label}"
        day = moment.date()
        ticks.append((at, label))
        at += step
    return ticks


def _clock(moment: datetime, step: float) -> str:
    if step >= _MINUTE_S:
        return f"{moment:%H:%M}"
    if step >= 1:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"


def moment_text(at_s: float, step_s: float = 1.0) -> str:
    """A time in full, in UTC: `2026-01-02 03:04:05`; with milliseconds where steps are below a second."""
    moment = datetime.fromtimestamp(round(at_s, 6), UTC)
    return f"{moment:%Y-%m-%d} {_clock(moment, min(step_s, 1.0))}"


def duration_text(seconds: float) -> str:
    """Two units: `3 d 4 h`, `2 h 5 min`, `1 min 30 s`, `1.25 s`, `12 ms`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s".replace(".00", "")
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    for unit_s, unit, part_s, part in (
        (_DAY_S, "d", _HOUR_S, "h"),
        (_HOUR_S, "h", _MINUTE_S, "min"),
        (_MINUTE_S, "min", 1, "s"),
    ):
        if whole >= unit_s:
            rest = whole % unit_s // part_s
            return f"{whole // unit_s} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


def count_text(value: float) -> str:
    """Exact, with commas: `1,204`; fractions with as many digits as they need, at most three."""
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def short_text(value: float) -> str:
    """Short, for axes and tiles: `950`, `1.2 k`, `3.1 M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scaled = value / (1e3 if unit == "k" else size)
            return f"{scaled:.3g} {unit}" if abs(scaled) < 1000 else f"{scaled:,.0f} {unit}"
    return count_text(value)


def bytes_text(value: float) -> str:
    """`512 B`, `1.5 GB`: powers of 1000."""
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}" if abs(value) < 1000 * size else f"{value / size:,.0f} {unit}"
    return f"{value:,.0f} B"


def counted(value: int, one: str, many: str = "") -> str:
    """`1 record`, `1,204 records`."""
    return f"{value:,} {one if value == 1 else many or one + 's'}"
