"""Numbers, sizes, times and durations as text. Times are seconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


def format_time(time_s: float, resolution_s: float = 1.0) -> str:
    """Format a time in UTC: `2026-01-02 03:04:05`, with milliseconds if the resolution is below a second."""
    moment = datetime.fromtimestamp(round(time_s, 6), UTC)
    fraction = f".{moment.microsecond // 1000:03d}" if resolution_s < 1 else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction}"


def format_duration(seconds: float) -> str:
    """Format a duration in at most two units: `3 d 4 h`, `2 h 5 min`, `1 min 30 s`, `1.25 s`, `12 ms`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s".replace(".00", "")
    whole = round(seconds)
    for unit_s, unit, part_s, part in (
        (_DAY_S, "d", _HOUR_S, "h"),
        (_HOUR_S, "h", _MINUTE_S, "min"),
        (_MINUTE_S, "min", 1, "s"),
    ):
        if whole >= unit_s:
            rest = whole % unit_s // part_s
            return f"{whole // unit_s} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


def format_count(value: float) -> str:
    """Format a number exactly, with commas: `1,204`; fractions have at most three digits."""
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def format_short(value: float) -> str:
    """Format a number for a tile: `950`, `12.3 k`, `3.1 M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scaled = value / (1e3 if unit == "k" else size)
            return f"{scaled:.3g} {unit}" if abs(scaled) < 1000 else f"{scaled:,.0f} {unit}"
    return format_count(value)


def format_bytes(value: float) -> str:
    """Format a size in powers of 1000: `512 B`, `1.5 GB`."""
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}" if abs(value) < 1000 * size else f"{value / size:,.0f} {unit}"
    return f"{value:,.0f} B"


def pluralize(count: int, singular: str, plural: str = "") -> str:
    """Format a count with its noun: `1 record`, `1,204 records`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"
