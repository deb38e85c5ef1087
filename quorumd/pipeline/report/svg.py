"""SVG and HTML elements as text. What comes from data is escaped here and nowhere else."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """An element. Attributes of None are left out; `class_` is `class`, and `_` stands for `-`."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(text(child) for child in children)
    if not children and name not in ("script", "div", "td", "th", "span"):
        return Markup(f"<{name}{said}/>")
    return Markup(f"<{name}{said}>{inside}</{name}>")


def text(content: str) -> Markup:
    """Text, escaped unless it is markup."""
    return content if isinstance(content, Markup) else Markup(escape(content, quote=False))


def joined(parts: list[Markup]) -> Markup:
    return Markup("".join(parts))


def _value(value: object) -> str:
    """Coordinates need no more than a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
