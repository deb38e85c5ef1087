"""Charts have a mark for each value, at its position, with a tooltip."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import vl_convert

from quorumd.pipeline.report.broker_chart import Broker, before_and_after
from quorumd.pipeline.report.chart_parts import Spec
from quorumd.pipeline.report.charts import (
    Line,
    Segment,
    Series,
    counts_over_time,
    lines,
    merge_short,
    timeline,
)
from tests.support.text import shows

COLORS = ("blue", "orange", "red", "pale", "ink", "paper", "muted", "onMark")


def drawn(spec: Spec) -> ElementTree.Element:
    """The chart as SVG, 600 pixels wide, with the parameter that page.js sets."""
    params = [{"name": "colors", "value": {name: name for name in COLORS}}]
    params += [param for param in spec["params"] if param["name"] != "colors"]
    return ElementTree.fromstring(vl_convert.vegalite_to_svg(spec | {"params": params, "width": 600}))


def marks(spec: Spec, role: str) -> list[ElementTree.Element]:
    return [each for each in drawn(spec).iter() if each.get("aria-roledescription") in (role, f"{role} mark")]


def texts(spec: Spec) -> list[str]:
    return [each.text or "" for each in drawn(spec).iter() if each.tag.endswith("}text")]


def rows(spec: Spec) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = spec["datasets"]["rows"]
    return found


def test_counts_are_stacked_and_zero_has_no_bar() -> None:
    series = [Series("a", "blue", [3, 0, 1]), Series("b", "orange", [1, 0, 0]), Series("c", "red", [0, 0, 0])]
    spec = counts_over_time([0, 10, 20], 10, (0, 30), series, "n")
    assert [(row["series"], row["low"], row["high"]) for row in rows(spec)] == [
        ("a", 0, 3),
        ("b", 3, 4),
        ("a", 0, 1),
    ]
    assert [row["time"] for row in rows(spec)] == ["1970-01-01 00:00:00"] * 2 + ["1970-01-01 00:00:20"]
    assert [mark.get("fill") for mark in marks(spec, "rect")] == ["blue", "orange", "blue"]
    assert "c" not in texts(spec)


def test_bars_end_with_the_span() -> None:
    spec = counts_over_time([-10, 0, 10], 10, (-3, 12), [Series("a", "blue", [1, 1, 1])], "n")
    assert [(row["start"], row["end"]) for row in rows(spec)] == [(-3000, 0), (0, 10_000), (10_000, 12_000)]


def test_timeline_labels_wide_segments() -> None:
    segments = [
        Segment("2", 0, 50, "epoch", {"Epoch": "1"}, "1"),
        Segment("1", 50, 50.5, "epoch", {"Epoch": "2", "Leader": "7"}, "2"),
    ]
    spec = timeline(["1", "2"], segments, (0, 100), "node", [("epoch", "blue")])
    assert len(marks(spec, "bar")) == 2
    assert [mark.text for mark in marks(spec, "text") if mark.get("opacity") != "0"] == ["1"]
    assert [(row["detail 0"], row["detail 1"]) for row in rows(spec)] == [("1", "-"), ("2", "7")]


def test_days_of_several_years_show_the_year() -> None:
    series = [Series("a", "blue", [1])]
    new_year_s = 1_767_225_600
    spring_s = new_year_s + 80 * 86_400
    within = counts_over_time([spring_s], 10, (spring_s, spring_s + 20 * 86_400), series, "n")
    across = counts_over_time(
        [new_year_s], 10, (new_year_s - 20 * 86_400, new_year_s + 20 * 86_400), series, "n"
    )
    days_with_years = re.compile(r"\d+ \w+ (20\d\d)")
    assert not any(days_with_years.fullmatch(text) for text in texts(within))
    found = [match[1] for match in map(days_with_years.fullmatch, texts(across)) if match]
    assert set(found) == {"2025", "2026"}


def test_only_short_adjacent_segments_are_merged() -> None:
    short = [Segment("1", i, i + 0.1, "fenced") for i in range(3)]
    long = Segment("1", 3, 9, "fenced")
    other = Segment("2", 0, 0.1, "fenced")
    merged = merge_short([*short, long, other], 2)
    assert [(each.lane, each.start_s, each.end_s) for each in merged] == [
        ("1", 0, 2.1),
        ("1", 3, 9),
        ("2", 0, 0.1),
    ]
    assert shows(merged[0].details["Merged"], "3 times fenced", "300 ms")
    assert merge_short([*short, long], 0.05) == [*short, long]


def test_timeline_merges_only_many_segments() -> None:
    segments = [Segment(str(i % 5), i, i + 0.4, "fenced") for i in range(20_000)]
    few, many = (
        timeline([*"01234"], each, (0, 20_000), "broker", [("fenced", "orange")])
        for each in (segments[:500], segments)
    )
    assert len(rows(few)) == 500
    assert len(rows(many)) <= 12_500


def test_stepped_line_holds_its_value() -> None:
    rising = [Line("l", "red", [(0.0, 1.0), (10.0, 4.0)])]
    straight, stepped = (
        marks(lines(rising, (0, 10), "rows", stepped), "line")[0].get("d") for stepped in (False, True)
    )
    assert straight is not None
    assert stepped is not None
    assert stepped.count("L") > straight.count("L")
    assert [row["text"] for row in rows(lines(rising, (0, 10), "rows"))] == ["1", "4"]


def test_brokers_are_ordered_by_rack_and_have_tooltips() -> None:
    brokers = [Broker(3, "b", 5, 4, 4), Broker(1, "b", 2, 4, 4), Broker(2, "a", 5, 4, 4)]
    spec = before_and_after(brokers, "replicas")
    assert [(row["broker"], row["rack"]) for row in rows(spec)] == [("2", "a"), ("1", "b"), ("3", "b")]
    assert [rows(spec)[1][f"{name} text"] for name in ("before", "after", "target")] == ["2", "4", "4"]
    # Before, after, and the area with the tooltip, for three brokers each.
    assert len(marks(spec, "rect")) == 9
    assert [mark.text for mark in marks(spec, "text")] == ["a", "b"]
    assert {"before", "after", "target", "2", "1", "3"} <= set(texts(spec))


def test_thousand_brokers_have_tooltips_and_steps() -> None:
    spec = before_and_after([Broker(i, None, i, 500, 500) for i in range(1000)], "replicas")
    assert len(rows(spec)) == 1000
    assert len(marks(spec, "rule")) == 1000
    assert "target" not in texts(spec)


def test_names_in_data_are_never_expressions() -> None:
    hostile = "'+alert(1)+'</script><b>"
    spec = before_and_after([Broker(1, hostile, 1, 2), Broker(2, "b", 1, 2)], "replicas")
    assert hostile in texts(spec)
