"""Rows to SVG: bars over time, lanes, lines, and brokers before and after. Colours are the page's (page.css)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quorumd.pipeline.report.axes import (
    Scale,
    count_text,
    duration_text,
    moment_text,
    number_ticks,
    short_text,
    time_ticks,
)
from quorumd.pipeline.report.svg import Markup, joined, tag

WIDTH = 1000.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 14.0, 24.0, 28.0
LANE = 24.0
SMALLEST_SEGMENT = 0.5
"""Pixels: narrower segments of a lane that touch are drawn as one."""
MOST_SEGMENTS = 2000
"""More segments than that would make a heavy page: wider ones are drawn as one then."""
MOST_BARS_BESIDE = 80
"""Brokers that are drawn as bars side by side; more are drawn as an outline."""


@dataclass(frozen=True, slots=True)
class Series:
    """Values that belong together: bars of a plot, or points of a line. `style` is a class of page.css."""

    name: str
    style: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a lane from one time to another, in seconds."""

    lane: str
    start_s: float
    end_s: float
    style: str
    title: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line over time: (seconds, value) in order."""

    name: str
    style: str
    points: Sequence[tuple[float, float]]


def bars_over_time(
    starts_s: Sequence[float], step_s: float, span_s: tuple[float, float], series: Sequence[Series], unit: str
) -> Markup:
    """Stacked bars, one for each step of time that begins at `starts_s`; the y axis counts `unit`."""
    height = 190.0
    totals = [sum(values) for values in zip(*(each.values for each in series), strict=True)]
    ticks = number_ticks(max(totals, default=0))
    x = Scale(*span_s, LEFT, WIDTH - RIGHT)
    y = Scale(0, ticks[-1], height - BOTTOM, TOP)
    bars = []
    for i, start in enumerate(starts_s):
        if not totals[i]:
            continue
        left, right = max(x(start), LEFT), min(x(start + step_s), WIDTH - RIGHT)
        below = 0.0
        parts = []
        for each in series:
            if each.values[i]:
                top = y(below + each.values[i])
                size = {"width": max(right - left - 1, 1.0), "height": y(below) - top}
                parts.append(tag("rect", x=left, y=top, class_=each.style, **size))
                below += each.values[i]
        said = [f"{each.name}: {count_text(each.values[i])}" for each in series if each.values[i]]
        parts.append(tag("title", "\n".join([moment_text(start, step_s), *said])))
        bars.append(tag("g", *parts, class_="mark"))
    return _figure(height, _value_axis(ticks, y, unit), _time_axis(span_s, x, height), *bars)


def lanes(
    names: Sequence[str], segments: Sequence[Segment], span_s: tuple[float, float], noun: str
) -> Markup:
    """A row for each name with its segments over time; `noun` says what the names are."""
    height = TOP + LANE * len(names) + BOTTOM
    x = Scale(*span_s, LEFT + 30, WIDTH - RIGHT)
    row = {name: TOP + LANE * i for i, name in enumerate(names)}
    parts = [tag("text", noun, x=x.start - 8, y=12.0, class_="unit end")]
    for name, top in row.items():
        parts.append(tag("line", x1=x.start, x2=x.end, y1=top + LANE / 2, y2=top + LANE / 2, class_="lane"))
        parts.append(tag("text", name, x=x.start - 8, y=top + LANE / 2 + 4, class_="tick end"))
    for segment in merged(segments, SMALLEST_SEGMENT * (span_s[1] - span_s[0]) / (x.end - x.start)):
        left = x(segment.start_s)
        width = max(x(segment.end_s) - left, 1.0)
        top = row[segment.lane] + 4
        mark = [tag("rect", x=left, y=top, width=width, height=LANE - 8, rx=3.0, class_=segment.style)]
        if len(segment.label) * 7 + 8 < width:
            mark.append(tag("text", segment.label, x=left + width / 2, y=top + 13, class_="on-mark middle"))
        parts.append(tag("g", *mark, tag("title", segment.title), class_="mark"))
    return _figure(height, _time_axis(span_s, x, height), *parts)


def merged(segments: Sequence[Segment], shortest_s: float) -> list[Segment]:
    """Segments of a lane and style that are shorter than `shortest_s`, and less than that apart, become one.

    `segments` are in the order of their times, lane by lane or together.
    """
    found: list[Segment] = []
    lots: dict[int, tuple[int, float]] = {}
    last: dict[tuple[str, str], int] = {}
    for segment in segments:
        key = segment.lane, segment.style
        length = segment.end_s - segment.start_s
        at = last.get(key)
        if (
            at is None
            or length >= shortest_s
            or segment.start_s - found[at].end_s >= shortest_s
            or at not in lots
        ):
            last[key] = len(found)
            if length < shortest_s:
                lots[len(found)] = 1, length
            found.append(segment)
            continue
        before = found[at]
        count, together = lots[at][0] + 1, lots[at][1] + length
        lots[at] = count, together
        title = f"{segment.lane}: {count:,} times {segment.style}, {duration_text(together)} in all"
        title += f"\n{moment_text(before.start_s)} to {moment_text(segment.end_s)}"
        found[at] = Segment(segment.lane, before.start_s, segment.end_s, segment.style, title)
    return found


def lines(rows: Sequence[Line], span_s: tuple[float, float], unit: str, stepped: bool = False) -> Markup:
    """Lines over time. A `stepped` value holds until the next one."""
    height = 190.0
    ticks = number_ticks(max((value for line in rows for _, value in line.points), default=0))
    x = Scale(*span_s, LEFT, WIDTH - RIGHT)
    y = Scale(0, ticks[-1], height - BOTTOM, TOP)
    drawn = []
    for line in rows:
        steps = [f"M{x(line.points[0][0]):.1f} {y(line.points[0][1]):.1f}"] if line.points else []
        for at, value in line.points[1:]:
            steps.append(f"H{x(at):.1f}V{y(value):.1f}" if stepped else f"L{x(at):.1f} {y(value):.1f}")
        drawn.append(tag("path", d="".join(steps), class_=f"line {line.style}"))
        if len(line.points) <= 400:
            for at, value in line.points:
                said = tag("title", f"{line.name}\n{moment_text(at)}\n{count_text(value)} {unit}")
                drawn.append(tag("circle", said, cx=x(at), cy=y(value), r=5.0, class_=f"dot {line.style}"))
    return _figure(height, _value_axis(ticks, y, unit), _time_axis(span_s, x, height), *drawn)


@dataclass(frozen=True, slots=True)
class Broker:
    """Of one broker: how much it has before and after, and what it should have; None where there is no target."""

    id: int
    rack: str | None
    before: float
    after: float
    target: float | None = None


def before_and_after(
    brokers: Sequence[Broker], unit: str, write: Callable[[float], str] = count_text
) -> Markup:
    """Brokers by rack and id along the x axis: what each has before (pale) and after (strong)."""
    height = 230.0
    rows = sorted(brokers, key=lambda broker: (broker.rack or "", broker.id))
    ticks = number_ticks(max((max(row.before, row.after) for row in rows), default=0))
    x = Scale(0, max(len(rows), 1), LEFT, WIDTH - RIGHT)
    y = Scale(0, ticks[-1], height - BOTTOM - 16, TOP)
    slot = (x.end - x.start) / max(len(rows), 1)
    axis = _value_axis(ticks, y, unit, short_text if write is count_text else write)
    parts = _racks(rows, x, y, height)
    draw = _bars_beside if len(rows) <= MOST_BARS_BESIDE else _outline
    parts += draw(rows, x, y, slot)
    for i, row in enumerate(rows):
        said = [f"broker {row.id}" + (f", rack {row.rack}" if row.rack else "")]
        said += [f"before: {write(row.before)}", f"after: {write(row.after)}"]
        if row.target is not None:
            said.append(f"target: {write(row.target)}")
        area = {"x": x(i), "y": TOP, "width": slot, "height": y.start - TOP}
        parts.append(tag("rect", tag("title", "\n".join(said)), class_="hover", **area))
    return _figure(height, axis, *parts)


def _bars_beside(rows: Sequence[Broker], x: Scale, y: Scale, slot: float) -> list[Markup]:
    parts = []
    gap = min(slot * 0.12, 6.0)
    for i, row in enumerate(rows):
        left, width = x(i) + gap, slot - 2 * gap
        for value, style, inset in ((row.before, "before", 0.0), (row.after, "after", width * 0.22)):
            top = y(value)
            size = {"width": width - 2 * inset, "height": max(y.start - top, 0.0)}
            parts.append(tag("rect", x=left + inset, y=top, class_=style, **size))
        if row.target is not None:
            at = y(row.target)
            parts.append(tag("line", x1=left, x2=left + width, y1=at, y2=at, class_="target"))
        if slot >= 20 or i % max(round(24 / slot), 1) == 0:
            parts.append(tag("text", str(row.id), x=x(i + 0.5), y=y.start + 15, class_="tick middle"))
    return parts


def _outline(rows: Sequence[Broker], x: Scale, y: Scale, slot: float) -> list[Markup]:
    def path(values: Sequence[float], closed: bool) -> str:
        steps = [f"M{x.start:.1f} {y.start if closed else y(values[0]):.1f}"]
        steps += [f"V{y(value):.1f}H{x(i + 1):.1f}" for i, value in enumerate(values)]
        return "".join(steps) + (f"V{y.start:.1f}Z" if closed else "")

    return [
        tag("path", d=path([row.before for row in rows], True), class_="before"),
        tag("path", d=path([row.after for row in rows], False), class_="line after-line"),
    ]


def _racks(rows: Sequence[Broker], x: Scale, y: Scale, height: float) -> list[Markup]:
    """Names of racks below their brokers, and lines between them."""
    if not any(row.rack for row in rows):
        return [tag("text", "broker", x=(x.start + x.end) / 2, y=height - 6, class_="tick middle")]
    parts = []
    start = 0
    for i in range(1, len(rows) + 1):
        if i == len(rows) or rows[i].rack != rows[start].rack:
            name = rows[start].rack or "no rack"
            if x(i) - x(start) > len(name) * 7:
                middle = (x(start) + x(i)) / 2
                parts.append(tag("text", name, x=middle, y=height - 6, class_="tick middle rack"))
            if i < len(rows):
                parts.append(tag("line", x1=x(i), x2=x(i), y1=TOP, y2=height - 2, class_="grid"))
            start = i
    return parts


def _value_axis(
    ticks: Sequence[float], y: Scale, unit: str, write: Callable[[float], str] = short_text
) -> Markup:
    parts = []
    for tick in ticks:
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(tick), y2=y(tick), class_="grid"))
        parts.append(tag("text", write(tick), x=LEFT - 8, y=y(tick) + 4, class_="tick end"))
    parts.append(tag("text", unit, x=LEFT - 8, y=12.0, class_="unit"))
    return joined(parts)


def _time_axis(span_s: tuple[float, float], x: Scale, height: float) -> Markup:
    parts = []
    for at, label in time_ticks(*span_s):
        parts.append(tag("line", x1=x(at), x2=x(at), y1=TOP, y2=height - BOTTOM + 4, class_="grid"))
        edge = " end" if x(at) > WIDTH - 40 else "" if x(at) < LEFT + 20 else " middle"
        parts.append(tag("text", label, x=x(at), y=height - 9, class_=f"tick{edge}"))
    return joined(parts)


def _figure(height: float, *parts: Markup) -> Markup:
    box = f"0 0 {WIDTH:.0f} {height:.0f}"
    return tag("svg", *parts, viewBox=box, role="img", xmlns="http://www.w3.org/2000/svg")
