"""Altair charts over time: stacked counts, timelines and lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import altair as alt

from quorumd.pipeline.report.chart_parts import (
    HEIGHT,
    ROWS,
    Spec,
    chart_spec,
    color_scale,
    count_axis,
    css_color,
    legend,
    time_axis,
    zoomable,
)
from quorumd.pipeline.report.formatting import format_count, format_duration, format_time

MAX_SEGMENTS = 2000
"""In a timeline with more segments, short neighboring ones are merged."""
MERGE_RESOLUTION = 2000
"""Segments shorter than this fraction of the span are merged: they are narrower than half a pixel."""
MAX_MARKED_POINTS = 400
"""The points of a longer line are too close to be marked."""
LANE_HEIGHT = 24


@dataclass(frozen=True, slots=True)
class Series:
    """A named series with a value per time step."""

    name: str
    color: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Segment:
    """A bar of a timeline."""

    lane: str
    start_s: float
    end_s: float
    kind: str
    details: Mapping[str, str] = field(default_factory=dict)
    """The lines of its tooltip, by title."""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line over time."""

    name: str
    color: str
    points: Sequence[tuple[float, float]]
    """(seconds, value), ordered by time."""


def counts_over_time(
    starts_s: Sequence[float], step_s: float, span_s: tuple[float, float], series: Sequence[Series], unit: str
) -> Spec:
    """Draw stacked bars, one per step of time; the y axis counts `unit`."""
    series = [each for each in series if any(each.values)]
    rows = []
    for i, start in enumerate(starts_s):
        low = 0.0
        for each in series:
            if not each.values[i]:
                continue
            rows.append(
                {
                    "start": max(start, span_s[0]) * 1000,
                    "end": min(start + step_s, span_s[1]) * 1000,
                    "time": format_time(start, step_s),
                    "series": each.name,
                    "low": low,
                    "high": low + each.values[i],
                    "count": format_count(each.values[i]),
                }
            )
            low += each.values[i]
    chart = (
        alt.Chart(ROWS)
        # The line in the color of the page separates bars that touch.
        .mark_rect(clip=True, stroke=css_color("paper"), strokeWidth=1)
        .encode(
            x=time_axis("start", span_s),
            x2="end",
            y=count_axis("low", unit),
            y2="high",
            color=alt.Color(
                "series:N", scale=color_scale([(each.name, each.color) for each in series]), legend=legend()
            ),
            tooltip=_tooltip({"time": "From", "series": "Event", "count": "Count"}),
        )
        .properties(width="container", height=HEIGHT)
    )
    return chart_spec(zoomable(chart), unit, rows=rows)


def timeline(
    lanes: Sequence[str],
    segments: Sequence[Segment],
    span_s: tuple[float, float],
    noun: str,
    colors: Sequence[tuple[str, str]],
) -> Spec:
    """Draw a lane per name in `lanes`, with its segments over time; `noun` is the noun for a lane, such as node."""
    if len(segments) > MAX_SEGMENTS:
        segments = merge_short(segments, (span_s[1] - span_s[0]) / MERGE_RESOLUTION)
    titles = list(dict.fromkeys(title for segment in segments for title in segment.details))
    rows = [
        {
            "lane": segment.lane,
            "start": segment.start_s * 1000,
            "middle": (segment.start_s + segment.end_s) * 500,
            "end": segment.end_s * 1000,
            "kind": segment.kind,
            "label": segment.label,
        }
        | {f"detail {i}": segment.details.get(title, "-") for i, title in enumerate(titles)}
        for segment in segments
    ]
    y = alt.Y(
        "lane:N",
        sort=None,
        title=noun,
        scale=alt.Scale(domain=list(lanes)),
        axis=alt.Axis(domain=False, ticks=False),
    )
    bars = (
        alt.Chart(ROWS)
        .mark_bar(clip=True, height=LANE_HEIGHT - 8, cornerRadius=2)
        .encode(
            x=time_axis("start", span_s),
            x2="end",
            y=y,
            color=alt.Color(
                "kind:N", scale=color_scale(colors), legend=legend() if len(colors) > 1 else None
            ),
            tooltip=_tooltip({f"detail {i}": title for i, title in enumerate(titles)}),
        )
    )
    layers = [zoomable(bars)]
    if any(segment.label for segment in segments):
        layers.append(_segment_labels(y))
    layered = alt.layer(*layers).properties(width="container", height={"step": LANE_HEIGHT})
    return chart_spec(layered, f"timeline of each {noun}", rows=rows)


def _segment_labels(y: alt.Y) -> alt.Chart:
    """Return a layer of labels in the middle of segments that are wide enough at the current zoom."""
    width = "scale('x', datum.end) - scale('x', datum.start)"
    opacity = alt.ExprRef(f"{width} > 7 * length(datum.label) + 6 ? 1 : 0")
    chart: alt.Chart = (
        alt.Chart(ROWS)
        .mark_text(clip=True, fontSize=11, color=css_color("onMark"), opacity=opacity, tooltip=None)
        .encode(x=alt.X("middle:T", scale=alt.Scale(type="utc")), y=y, text="label:N")
    )
    return chart


def merge_short(segments: Sequence[Segment], shortest_s: float) -> list[Segment]:
    """Merge segments of a lane and kind that are shorter than `shortest_s` and less than `shortest_s` apart.

    `segments` are ordered by time, overall or within each lane.
    """
    merged: list[Segment] = []
    counts: dict[int, tuple[int, float]] = {}
    last: dict[tuple[str, str], int] = {}
    for segment in segments:
        key = segment.lane, segment.kind
        length = segment.end_s - segment.start_s
        at = last.get(key)
        if (
            length >= shortest_s
            or at is None
            or at not in counts
            or segment.start_s - merged[at].end_s >= shortest_s
        ):
            last[key] = len(merged)
            if length < shortest_s:
                counts[len(merged)] = 1, length
            merged.append(segment)
            continue
        first = merged[at]
        counts[at] = counts[at][0] + 1, counts[at][1] + length
        details = {
            "From": format_time(first.start_s),
            "To": format_time(segment.end_s),
            "Merged": f"{counts[at][0]:,} times {segment.kind}, {format_duration(counts[at][1])} in total",
        }
        merged[at] = Segment(segment.lane, first.start_s, segment.end_s, segment.kind, details)
    return merged


def lines(rows: Sequence[Line], span_s: tuple[float, float], unit: str, stepped: bool = False) -> Spec:
    """Draw lines over time. A `stepped` value holds until the next one."""
    points = [
        {
            "at": at * 1000,
            "time": format_time(at),
            "series": line.name,
            "value": value,
            "text": format_count(value),
        }
        for line in rows
        for at, value in line.points
    ]
    longest = max((len(line.points) for line in rows), default=0)
    marks = alt.OverlayMarkDef(opacity=0, size=90, filled=True) if longest <= MAX_MARKED_POINTS else False
    chart = (
        alt.Chart(ROWS)
        .mark_line(interpolate="step-after" if stepped else "linear", clip=True, strokeWidth=2, point=marks)
        .encode(
            x=time_axis("at", span_s),
            y=count_axis("value", unit),
            color=alt.Color(
                "series:N", scale=color_scale([(line.name, line.color) for line in rows]), legend=legend()
            ),
            tooltip=_tooltip({"time": "Time", "series": "Line", "text": unit.capitalize()}),
        )
        .properties(width="container", height=HEIGHT)
    )
    return chart_spec(zoomable(chart), unit, rows=points)


def _tooltip(titles: Mapping[str, str]) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in titles.items()]
