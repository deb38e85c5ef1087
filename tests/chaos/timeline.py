"""Draw a run as SVG: acknowledged writes over time, and below them every round in the rows of its faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, log10
from statistics import median

from tests.chaos.rounds import Round

FAMILIES = (
    ("#3b6fb6", ("cut link", "stalled link", "slow link", "one-way drop")),
    ("#c8553d", ("kill -9", "kill -9 of all", "SIGSTOP", "rolling restart")),
    ("#8a5fa8", ("clock offset",)),
    ("#3d8b5f", ("full disk", "failed flush")),
    ("#b8860b", ("voter change",)),
)
"""Colours and their kinds of faults: of the network, processes, clocks, disks and voters."""

WIDTH, LABELS, GAP, SPREAD, MARGIN = 1200, 128, 40, 250, 24
TIME_WIDTH = WIDTH - LABELS - GAP - SPREAD - MARGIN
TOP, RATE_HEIGHT, ROW = 64, 110, 26
ROWS_TOP = TOP + RATE_HEIGHT + 24
SHORTEST_S, LONGEST_S = 0.02, 20.0
MOST_POINTS = 360
GRID, TEXT, FAINT = "#d9dde3", "#24292f", "#6b7280"


def timeline_svg(rounds: Sequence[Round], acknowledged_s: Sequence[float]) -> str:
    """Render the SVG. `acknowledged_s` has the times of acknowledged writes, in seconds since the first round."""
    end_s = max([1.0, *(each.ended_ms / 1000 for each in rounds)])
    rows = sum(len(kinds) for _, kinds in FAMILIES)
    height = ROWS_TOP + rows * ROW + 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(LABELS, 26, f"{len(rounds)} rounds of chaos", size=17, weight="bold"),
        _text(
            LABELS,
            46,
            "acknowledged writes per second; below, each bar is a fault from injection to healing",
            FAINT,
        ),
        _text(_spread_x(SHORTEST_S), TOP + RATE_HEIGHT - 22, "longest time without an", FAINT),
        _text(_spread_x(SHORTEST_S), TOP + RATE_HEIGHT - 7, "acknowledged write, by round", FAINT),
        *_rate(acknowledged_s, end_s),
        *_time_axis(end_s, height),
        *_spread_axis(height),
    ]
    y = ROWS_TOP
    for colour, kinds in FAMILIES:
        for kind in kinds:
            parts += _row(kind, colour, y, [each for each in rounds if kind in each.kinds], end_s)
            y += ROW
    return "\n".join([*parts, "</svg>"]) + "\n"


def _row(kind: str, colour: str, y: int, rounds: Sequence[Round], end_s: float) -> Iterator[str]:
    middle = y + ROW / 2
    yield _text(LABELS - 10, middle + 4, kind, anchor="end")
    for x, width in ((LABELS, TIME_WIDTH), (_spread_x(SHORTEST_S), SPREAD)):
        yield f'<rect x="{x:.1f}" y="{y + 2}" width="{width}" height="{ROW - 4}" fill="{colour}" opacity="0.07"/>'
    for each in rounds:
        left, right = _time_x(each.injected_ms / 1000, end_s), _time_x(each.healed_ms / 1000, end_s)
        yield (
            f'<rect x="{left:.1f}" y="{y + 5}" width="{max(1.5, right - left):.1f}" height="{ROW - 10}" '
            f'fill="{colour}" opacity="0.85"><title>round {each.number}: {_safe("; ".join(each.what))}</title></rect>'
        )
    times = [min(LONGEST_S, max(SHORTEST_S, each.unavailable_ms / 1000)) for each in rounds]
    for time in times:
        yield f'<circle cx="{_spread_x(time):.1f}" cy="{middle}" r="3.2" fill="{colour}" opacity="0.45"/>'
    if times:
        x = _spread_x(median(times))
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y + 3}" y2="{y + ROW - 3}" stroke="{TEXT}" '
            'stroke-width="2"/>'
        )


def _rate(acknowledged_s: Sequence[float], end_s: float) -> Iterator[str]:
    """Draw the writes per second, in at most MOST_POINTS bins."""
    bin_s = max(1.0, ceil(end_s / MOST_POINTS))
    counts = [0.0] * (int(end_s / bin_s) + 1)
    for moment in acknowledged_s:
        if 0 <= moment < end_s:
            counts[int(moment / bin_s)] += 1 / bin_s
    step = _nice_step(max([1.0, *counts]) / 2)
    top = step * ceil(max([1.0, *counts]) / step)

    def y_of(rate: float) -> float:
        return TOP + RATE_HEIGHT * (1 - rate / top)

    for tick in range(round(top / step) + 1):
        y = y_of(tick * step)
        yield f'<line x1="{LABELS}" x2="{LABELS + TIME_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>'
        yield _text(LABELS - 10, y + 4, f"{tick * step:.0f}", FAINT, anchor="end")
    base = TOP + RATE_HEIGHT
    points = [f"{LABELS},{base}"]
    for at, count in enumerate(counts):
        for edge in (at, at + 1):
            points.append(f"{_time_x(min(edge * bin_s, end_s), end_s):.1f},{y_of(count):.1f}")
    points.append(f"{LABELS + TIME_WIDTH},{base}")
    yield f'<polygon points="{" ".join(points)}" fill="#8795a6" opacity="0.75"/>'


def _time_axis(end_s: float, height: int) -> Iterator[str]:
    in_minutes = end_s > 180
    unit_s = 60.0 if in_minutes else 1.0
    step = _nice_step(end_s / unit_s / 8)
    bottom = height - 50
    tick = 0.0
    while tick * unit_s <= end_s:
        x = _time_x(tick * unit_s, end_s)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{ROWS_TOP}" y2="{bottom}" stroke="{GRID}"/>'
        yield _text(x, bottom + 16, f"{tick:g}", FAINT, anchor="middle")
        tick += step
    yield _text(
        LABELS + TIME_WIDTH / 2, bottom + 36, "minutes" if in_minutes else "seconds", FAINT, anchor="middle"
    )


def _spread_axis(height: int) -> Iterator[str]:
    bottom = height - 50
    for tick in (0.1, 1.0, 10.0):
        x = _spread_x(tick)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{ROWS_TOP}" y2="{bottom}" stroke="{GRID}"/>'
        yield _text(x, bottom + 16, f"{tick:g}", FAINT, anchor="middle")
    middle = _spread_x(SHORTEST_S) + SPREAD / 2
    yield _text(middle, bottom + 36, "seconds, logarithmic; the line: median", FAINT, anchor="middle")


def _time_x(seconds: float, end_s: float) -> float:
    return LABELS + TIME_WIDTH * seconds / end_s


def _spread_x(seconds: float) -> float:
    share = log10(seconds / SHORTEST_S) / log10(LONGEST_S / SHORTEST_S)
    return LABELS + TIME_WIDTH + GAP + SPREAD * share


def _nice_step(raw: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power: float = 10.0 ** int(log10(max(raw, 1)))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)


def _text(
    x: float,
    y: float,
    text: str,
    colour: str = TEXT,
    *,
    anchor: str = "start",
    size: int = 12,
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}">{_safe(text)}</text>'
    )


def _safe(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
