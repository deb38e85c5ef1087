"""The page around the charts: its parts as data, and the Jinja template that renders them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import jinja2
from markupsafe import Markup

from quorumd.pipeline.report.chart_parts import Spec
from quorumd.pipeline.report.formatting import format_count


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the top of the page. `style` is good, warn, bad or empty."""

    name: str
    value: str
    detail: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table."""

    text: str
    value: float | None = None
    """The number to sort by; None to sort by the text."""
    style: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, sorted by clicking on a column."""

    kind: ClassVar[str] = "table"
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class Chart:
    """A Vega-Lite specification under its title."""

    kind: ClassVar[str] = "chart"
    title: str
    spec: Spec


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph: a remark (`lead`), or the reason why there is nothing to show (`empty`)."""

    kind: ClassVar[str] = "note"
    text: str
    style: str = "lead"
    title: str = ""


Part: TypeAlias = Table | Chart | Note


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the page with an entry in its menu; `id` is its anchor."""

    id: str
    name: str
    lead: str
    parts: Sequence[Part] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Page:
    """The content of the page."""

    title: str
    about: str
    tiles: Sequence[Tile]
    sections: Sequence[Section]
    footer: str


def number(value: float | None, text: str | None = None) -> Cell:
    """Return a cell with a number, formatted with commas unless `text` is given; a dash for None."""
    if value is None:
        return Cell("-", None, "number")
    return Cell(format_count(value) if text is None else text, value, "number")


def empty(reason: str, title: str = "") -> Note:
    """Return the note that replaces a chart or a table without data."""
    return Note(reason, "empty", title)


def render(page: Page, vega_script: str) -> str:
    """Render the page as HTML. The template escapes everything that comes from data."""
    loader = jinja2.PackageLoader("quorumd.pipeline.report", ".")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    has_charts = any(part.kind == "chart" for section in page.sections for part in section.parts)
    own_script = loader.get_source(environment, "page.js")[0]
    scripts = [vega_script, own_script] if has_charts else [own_script]
    html: str = environment.get_template("page.html").render(
        page=page,
        # Up to six tiles are in one row, more in two.
        columns=len(page.tiles) if len(page.tiles) <= 6 else -(-len(page.tiles) // 2),
        scripts=[Markup(script) for script in scripts],
        script_sources=" ".join(f"'sha256-{_digest(script)}'" for script in scripts),
    )
    return html


def _digest(script: str) -> str:
    """Return the hash by which the page's Content-Security-Policy allows this script; Vega itself needs eval."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
