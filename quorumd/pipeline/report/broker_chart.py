"""The chart of brokers before and after a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import altair as alt

from quorumd.pipeline.report.chart_parts import (
    HEIGHT,
    ROWS,
    Rows,
    Spec,
    chart_spec,
    color_scale,
    count_axis,
    css_color,
    legend,
    zoomable,
)
from quorumd.pipeline.report.formatting import format_count

MAX_WIDE_BROKERS = 80
"""Up to this number, brokers have two bars each; with more brokers, the state after is drawn as a step."""
COLORS = (("before", "pale"), ("after", "blue"))
TARGET_COLOR = ("target", "ink")


@dataclass(frozen=True, slots=True)
class Broker:
    """The load of a broker before and after a plan, and its target if it has one."""

    id: int
    rack: str | None
    before: float
    after: float
    target: float | None = None


def before_and_after(
    brokers: Sequence[Broker], unit: str, format_value: Callable[[float], str] = format_count
) -> Spec:
    """Draw the load of each broker before and after, ordered by rack and id."""
    brokers = sorted(brokers, key=lambda broker: (broker.rack or "", broker.id))
    wide = len(brokers) <= MAX_WIDE_BROKERS
    has_targets = any(broker.target is not None for broker in brokers)
    colors = [*COLORS, TARGET_COLOR] if has_targets and wide else list(COLORS)
    racks = _racks(brokers)
    largest = max((max(b.before, b.after, b.target or 0) for b in brokers), default=0)
    # Rack names are above the bars.
    upper = largest * 1.12 if racks and largest else None
    bar = alt.MarkDef("rect", clip=True, tooltip=None)

    def layer(state: str, mark: alt.MarkDef, edge: str = "") -> alt.Chart:
        color = alt.Color("state:N", scale=color_scale(colors), legend=legend())
        chart = alt.Chart(ROWS, mark=mark).transform_calculate(state=f"'{state}'")
        bars = {"y2": alt.datum(0)} if mark is bar else {}
        x = _position(f"{edge}left", len(brokers))
        return chart.encode(x=x, x2=f"{edge}right", y=count_axis(state, unit, upper), color=color, **bars)

    layers = [zoomable(layer("before", bar))]
    if wide:
        layers.append(layer("after", bar, "inner "))
    else:
        layers.append(layer("after", alt.MarkDef("rule", clip=True, tooltip=None, strokeWidth=2)))
    if len(colors) > len(COLORS):
        dashes = alt.MarkDef("rule", clip=True, tooltip=None, strokeDash=[3, 2], strokeWidth=1.5)
        layers.append(layer("target", dashes))
    if racks:
        layers += _rack_layers()
    layers.append(_hover_layer(len(brokers), [name for name, _ in colors]))
    layered = alt.layer(*layers).properties(width="container", height=HEIGHT + 30)
    spec = chart_spec(layered, f"{unit} per broker", rows=_rows(brokers, wide, format_value), racks=racks)
    spec["params"].append({"name": "ids", "value": [broker.id for broker in brokers]})
    return spec


def _hover_layer(count: int, states: Sequence[str]) -> alt.Chart:
    """Return a layer of tooltips over the whole height, so that brokers with empty bars have tooltips too."""
    tooltip = [alt.Tooltip(f"{name}:N", title=name.capitalize()) for name in ("broker", "rack")]
    tooltip += [alt.Tooltip(f"{state} text:N", title=state.capitalize()) for state in states]
    chart: alt.Chart = (
        alt.Chart(ROWS)
        .mark_rect(clip=True, opacity=0)
        .encode(
            x=_position("slot left", count),
            x2="slot right",
            y=alt.value(0),
            y2=alt.value("height"),
            tooltip=tooltip,
        )
    )
    return chart


def _rows(brokers: Sequence[Broker], wide: bool, format_value: Callable[[float], str]) -> Rows:
    gap, inner_gap = (0.42, 0.26) if wide else (0.5, 0.5)
    rows = []
    for i, broker in enumerate(brokers):
        row: dict[str, object] = {"broker": str(broker.id), "rack": broker.rack or "-"}
        row |= {
            "slot left": i - 0.5,
            "slot right": i + 0.5,
            "left": i - gap,
            "right": i + gap,
            "inner left": i - inner_gap,
            "inner right": i + inner_gap,
        }
        for name in ("before", "after", "target"):
            value = getattr(broker, name)
            row |= {name: value, f"{name} text": "-" if value is None else format_value(value)}
        rows.append(row)
    return rows


def _position(name: str, count: int) -> alt.X:
    scale = alt.Scale(domain=[-0.5, max(count, 1) - 0.5], nice=False, zero=False)
    axis = alt.Axis(
        title="broker",
        tickMinStep=1,
        tickCount=min(count, 40),
        grid=False,
        labelExpr="ids[datum.value]",
        labelOverlap=True,
    )
    return alt.X(f"{name}:Q", scale=scale, axis=axis)


def _racks(brokers: Sequence[Broker]) -> Rows:
    """Return a row per rack with the range of its brokers; no rows if no broker has a rack."""
    if not any(broker.rack for broker in brokers):
        return []
    rows: list[dict[str, object]] = []
    start = 0
    for rack, members in groupby(brokers, key=lambda broker: broker.rack or "no rack"):
        end = start + len(list(members))
        rows.append({"rack": rack, "start": start - 0.5, "middle": (start + end - 1) / 2})
        start = end
    return rows


def _rack_layers() -> list[alt.Chart]:
    """Return layers with the names of racks above their brokers, and with lines between racks."""
    chart = alt.Chart(alt.NamedData("racks"))
    borders = chart.transform_filter("datum.start > 0").mark_rule(clip=True, color=css_color("muted"))
    names = chart.mark_text(clip=True, baseline="top", dy=4, fontWeight=600, color=css_color("muted"))
    return [borders.encode(x="start:Q"), names.encode(x="middle:Q", y=alt.value(0), text="rack:N")]
