"""Plots are well-formed SVG with a mark for each value, in its place, with a title that says it."""

from __future__ import annotations

from xml.etree import ElementTree

from quorumd.pipeline.report.plots import (
    BOTTOM,
    TOP,
    WIDTH,
    Broker,
    Line,
    Segment,
    Series,
    bars_over_time,
    before_and_after,
    lanes,
    lines,
    merged,
)
from quorumd.pipeline.report.svg import Markup, tag

NS = "{http://www.w3.org/2000/svg}"


def marks(svg: str, element: str, style: str) -> list[ElementTree.Element]:
    return [
        each
        for each in ElementTree.fromstring(svg).iter(NS + element)
        if style in each.get("class", "").split()
    ]


def titles(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter(NS + "title")]


def test_bars_are_stacked_on_each_other() -> None:
    drawn = bars_over_time(
        [0, 10, 20], 10, (0, 30), [Series("a", "one", [3, 0, 1]), Series("b", "two", [1, 0, 0])], "n"
    )
    (low, alone), (high,) = marks(drawn, "rect", "one"), marks(drawn, "rect", "two")
    assert float(low.get("y", "")) + float(low.get("height", "")) == 190 - BOTTOM
    assert abs(float(high.get("y", "")) + float(high.get("height", "")) - float(low.get("y", ""))) < 0.2
    assert float(high.get("y", "")) == TOP
    assert float(alone.get("height", "")) * 3 - float(low.get("height", "")) < 0.3
    assert titles(drawn) == ["1970-01-01 00:00:00\na: 3\nb: 1", "1970-01-01 00:00:20\na: 1"]


def test_lanes_hold_their_segments_and_label_what_is_wide_enough() -> None:
    segments = [Segment("2", 0, 50, "epoch", "first", "1"), Segment("1", 50, 50.5, "epoch", "second", "2")]
    drawn = lanes(["1", "2"], segments, (0, 100), "node")
    first, second = marks(drawn, "rect", "epoch")
    assert float(first.get("y", "")) > float(second.get("y", ""))
    assert [each.text for each in marks(drawn, "text", "on-mark")] == ["1"]
    assert titles(drawn) == ["first", "second"]


def test_short_segments_beside_each_other_become_one_and_long_ones_do_not() -> None:
    short = [Segment("1", i, i + 0.1, "fenced", f"{i}") for i in range(3)]
    long = Segment("1", 3, 9, "fenced", "long")
    other = Segment("2", 0, 0.1, "fenced", "other")
    found = merged([*short, long, other], 2)
    assert [(each.lane, each.start_s, each.end_s) for each in found] == [
        ("1", 0, 2.1),
        ("1", 3, 9),
        ("2", 0, 0.1),
    ]
    assert found[0].title.startswith("1: 3 times fenced, 300 ms in all\n")
    assert merged([*short, long], 0.05) == [*short, long]


def test_many_segments_do_not_make_a_heavy_page() -> None:
    segments = [Segment(str(i % 5), i, i + 0.4, "fenced", "") for i in range(20_000)]
    assert len(marks(lanes([*"01234"], segments, (0, 20_000), "n"), "rect", "fenced")) <= 2500


def test_a_line_holds_its_value_where_it_is_stepped() -> None:
    points = [(0.0, 1.0), (10.0, 4.0)]
    assert "L" in marks(lines([Line("l", "s", points)], (0, 10), "n"), "path", "line")[0].get("d", "")
    assert "H" in marks(lines([Line("l", "s", points)], (0, 10), "n", stepped=True), "path", "line")[0].get(
        "d", ""
    )
    assert titles(lines([Line("l", "s", points)], (0, 10), "rows"))[1] == "l\n1970-01-01 00:00:10\n4 rows"


def test_brokers_stand_by_rack_and_say_what_they_have() -> None:
    brokers = [Broker(3, "b", 5, 4, 4), Broker(1, "b", 2, 4, 4), Broker(2, "a", 5, 4, 4)]
    drawn = before_and_after(brokers, "replicas")
    assert [title.splitlines()[0] for title in titles(drawn)] == [
        f"broker {id_}, rack {r}" for id_, r in ((2, "a"), (1, "b"), (3, "b"))
    ]
    assert titles(drawn)[1].splitlines()[1:] == ["before: 2", "after: 4", "target: 4"]
    assert len(marks(drawn, "rect", "before")) == len(marks(drawn, "rect", "after")) == 3
    assert [each.text for each in marks(drawn, "text", "rack")] == ["a", "b"]


def test_a_thousand_brokers_are_an_outline_with_a_title_each() -> None:
    drawn = before_and_after([Broker(i, None, i, 500) for i in range(1000)], "replicas")
    assert len(marks(drawn, "path", "before")) == 1
    assert len(titles(drawn)) == 1000


def test_nothing_leaves_the_plot() -> None:
    drawn = bars_over_time([-10, 0, 10], 10, (-3, 12), [Series("a", "one", [1, 1, 1])], "n")
    for bar in marks(drawn, "rect", "one"):
        assert float(bar.get("x", "")) >= 0
        assert float(bar.get("x", "")) + float(bar.get("width", "")) <= WIDTH


def test_text_is_escaped_and_markup_is_not() -> None:
    assert tag("p", "<b> & c", title='"') == '<p title="&quot;">&lt;b&gt; &amp; c</p>'
    assert tag("p", Markup("<b>x</b>")) == "<p><b>x</b></p>"
    assert (
        tag("rect", class_="a", stroke_width=1.25, x=2.0, y=None)
        == '<rect class="a" stroke-width="1.2" x="2"/>'
    )
