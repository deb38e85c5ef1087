"""The page around the plots: tiles, sections, tables, legends, and the files that make it one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from quorumd.pipeline.report.axes import count_text
from quorumd.pipeline.report.svg import Markup, joined, tag, text


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that says it all. `style` is good, warn, bad or nothing."""

    name: str
    value: str
    more: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with an entry in its menu; `id` is where that leads."""

    id: str
    name: str
    lead: str
    parts: list[Markup] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: what it shows, and by what it is sorted if that is something else."""

    shown: str
    value: float | None = None
    style: str = ""


def number(value: float | None, shown: str | None = None) -> Cell:
    """A cell with a number, `shown` as given or with commas; a dash for None."""
    if value is None:
        return Cell("-", None, "number")
    return Cell(count_text(value) if shown is None else shown, value, "number")


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Markup:
    """A table that a click on a header sorts."""
    styles = [cell.style for cell in rows[0]] if rows else []
    head = [
        tag("th", name, aria_sort="none", class_="number" if style == "number" else None)
        for name, style in zip(header, styles, strict=True)
    ]
    body = [
        tag("tr", *(tag("td", c.shown, data_value=c.value, class_=c.style or None) for c in row))
        for row in rows
    ]
    inside = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body))
    return tag("div", inside, class_="scroll")


def legend(keys: Sequence[tuple[str, str]]) -> Markup:
    """Names of series beside the colours of their styles."""
    return tag("ul", *(tag("li", tag("span", class_=f"key {s}"), name) for name, s in keys), class_="legend")


def plot(name: str, drawn: Markup, keys: Sequence[tuple[str, str]] = ()) -> Markup:
    """A plot under its name, with a legend."""
    return joined([tag("h3", name), legend(keys) if keys else Markup(), tag("div", drawn, class_="plot")])


def empty(why: str) -> Markup:
    """In place of a plot or a table that has nothing to show."""
    return tag("p", why, class_="empty")


def badge(word: str) -> Markup:
    return tag("span", word, class_=f"badge {word.lower()}")


def render(title: str, about: str, tiles: Sequence[Tile], sections: Sequence[Section], footer: str) -> str:
    """The whole page as HTML."""
    shown = [
        tag(
            "div",
            tag("div", tile.name, class_="name"),
            tag("div", tile.value, class_="value"),
            tag("div", tile.more, class_="more"),
            class_=f"tile {tile.style}".rstrip(),
        )
        for tile in tiles
    ]
    # Rows of tiles are full where there is room for them.
    columns = len(tiles) if len(tiles) <= 6 else -(-len(tiles) // 2)
    content = [tag("div", *shown, class_="tiles", style=f"--columns: {columns}")]
    for each in sections:
        head = [tag("h2", each.name), tag("p", each.lead, class_="lead")]
        content.append(tag("section", *head, *each.parts, id=each.id))
    nav = joined([tag("a", each.name, href=f"#{each.id}") for each in sections])
    parts = {
        "title": text(f"quorumd report: {title}"),
        "heading": text(title),
        "about": text(about),
        "nav": nav,
        "content": joined(content),
        "footer": text(footer),
        "style": _file("page.css"),
        "script": _file("page.js"),
    }
    whole, *rest = _file("page.html").split("{{")
    for piece in rest:
        name, after = piece.split("}}", 1)
        whole += parts[name] + after
    return whole


def _file(name: str) -> str:
    return files("quorumd.pipeline.report").joinpath(name).read_text(encoding="utf-8")
