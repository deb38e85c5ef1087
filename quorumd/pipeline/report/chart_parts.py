"""Axes, colors and zoom that the charts of a report share.

Colors are names of CSS variables of page.css, resolved in the browser: a chart follows the light or dark theme.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import altair as alt

Rows: TypeAlias = Sequence[Mapping[str, object]]
Spec: TypeAlias = dict[str, Any]
"""A Vega-Lite specification: JSON."""

ROWS = alt.NamedData("rows")
HEIGHT = 180
TIME_FORMAT = {
    "year": "%Y",
    "quarter": "%b %Y",
    "month": "%b %Y",
    "week": "%-d %b",
    "date": "%-d %b",
    "day": "%-d %b",
    "hours": "%H:%M",
    "minutes": "%H:%M",
    "seconds": "%H:%M:%S",
    "milliseconds": "%H:%M:%S.%L",
}

DAYS_OF_YEARS = dict.fromkeys(("week", "date", "day"), "%-d %b %Y")
"""Formats of days where the days of several years are shown."""


def time_axis(name: str, span_s: tuple[float, float]) -> alt.X:
    """Return the x channel of a column of milliseconds since 1970, over this span in UTC."""
    scale = alt.Scale(type="utc", domain=[span_s[0] * 1000, span_s[1] * 1000])
    years = [datetime.fromtimestamp(end, UTC).year for end in span_s]
    formats = TIME_FORMAT if years[0] == years[1] else TIME_FORMAT | DAYS_OF_YEARS
    axis = alt.Axis(format=formats, labelOverlap=True, tickCount=8)
    return alt.X(f"{name}:T", title=None, scale=scale, axis=axis)


def count_axis(name: str, unit: str, upper: float | None = None) -> alt.Y:
    """Return the y channel of a column of counts or sizes, up to `upper` or the largest one."""
    bound = alt.Undefined if upper is None else upper
    axis = alt.Axis(format="~s", tickMinStep=1, tickCount=5, domain=False)
    return alt.Y(f"{name}:Q", title=unit, axis=axis, scale=alt.Scale(domainMin=0, domainMax=bound, nice=True))


def color_scale(colors: Sequence[tuple[str, str]]) -> alt.Scale:
    """Return the scale that gives each name the color of a CSS variable."""
    return alt.Scale(domain=[name for name, _ in colors], range=[css_color(color) for _, color in colors])


def legend() -> alt.Legend:
    """Return a legend above the chart."""
    return alt.Legend(title=None, orient="top", labelLimit=0)


def css_color(name: str) -> alt.ExprRef:
    """Return the color of a CSS variable; page.js sets the parameter `colors`."""
    return alt.ExprRef(f"colors.{name}")


def zoomable(chart: alt.Chart) -> alt.Chart:
    """Return a chart that pans by dragging, zooms with Ctrl and the wheel, and resets on a double click.

    The wheel without Ctrl scrolls the page.
    """
    zoom = alt.selection_interval(
        name="zoom", bind="scales", encodings=["x"], zoom="wheel![event.ctrlKey || event.metaKey]"
    )
    # Altair numbers unnamed views per process, but the same inputs must give the same page.
    return chart.add_params(zoom).properties(name="marks")


def chart_spec(
    chart: alt.Chart | alt.LayerChart | alt.FacetChart, description: str, **datasets: Rows
) -> Spec:
    """Return the Vega-Lite specification. Rows are added last: Altair would validate each of them."""
    spec: Spec = chart.properties(description=description).to_dict(validate=False)
    # The page styles all charts.
    spec.pop("config", None)
    spec.setdefault("params", []).append({"name": "colors", "value": {}})
    spec["datasets"] = datasets
    return spec
