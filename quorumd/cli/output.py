"""The output of commands: JSON, tables and fields in one style, and progress of long tasks."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import click

from quorumd.text import escaped

if TYPE_CHECKING:
    from rich.console import Console

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object of `--output json`."""
LINE_INTERVAL_S = 2.0
"""The minimum interval between progress lines if stderr is not a terminal."""
_NUMBER = re.compile(r"-|-?[\d,.]+")


def print_json(document: object) -> None:
    """Print one JSON document, indented and with stable key order."""
    click.echo(json.dumps(document, indent=2))


@contextmanager
def json_array() -> Iterator[Callable[[str], None]]:
    """Print JSON texts as one array, one element per line, as they arrive: the array need not fit into memory."""
    separators = chain("[", repeat(","))
    yield lambda text: click.echo(next(separators) + text)
    click.echo("]" if next(separators) == "," else "[]")


def columns(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The table format of every command: two spaces between columns, one-word headings, numbers right-aligned."""
    headings = [heading(name) for name in header]
    cells = [[escaped(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [headings, *cells]) for i in range(len(headings))]
    numeric = [bool(rows) and all(_NUMBER.fullmatch(row[i]) for row in cells) for i in range(len(headings))]

    def line(row: Sequence[str]) -> str:
        parts = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numeric, strict=True)
        )
        return "  ".join(parts).rstrip()

    return "\n".join([line(headings), *(line(row) for row in cells)])


def fields(pairs: Iterable[tuple[str, object]]) -> str:
    """The fields of one object, one per line: heading, colon and value, with aligned values."""
    shown = [(f"{heading(name)}:", escaped(str(value))) for name, value in pairs]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{name:<{width}}  {value}".rstrip() for name, value in shown)


def heading(name: str) -> str:
    """A column heading in the style of Kafka's tools: `logEndOffset`, `log_end_offset` and `LOG END OFFSET` all
    become `LogEndOffset`. Expressions of a query are unchanged."""
    if not re.fullmatch(r"[\w ]+", name):
        return name
    words = re.findall(r"[^\W_]+", name)
    return "".join(word.capitalize() if word.isupper() else word[0].upper() + word[1:] for word in words)


def listed_ids(ids: Sequence[int]) -> str:
    """Ids in one column: `[1,2,3]`."""
    return f"[{','.join(map(str, ids))}]"


class Progress(Protocol):
    """Shows what a long task is doing."""

    def __call__(self, text: str) -> None:
        """Replace the shown text with `text`."""


@contextmanager
def progress(first: str, only_on_terminal: bool = False) -> Iterator[Progress]:
    """Show a spinner with one changing line on a terminal; otherwise occasional lines on stderr, or nothing."""
    if sys.stderr.isatty():
        with console().status(first) as status:
            yield lambda text: status.update(text)
        return
    if only_on_terminal:
        yield lambda text: None
        return
    click.echo(first, err=True)
    last_s = time.monotonic()

    def show(text: str) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= LINE_INTERVAL_S:
            last_s = time.monotonic()
            click.echo(text, err=True)

    yield show


class Steps(Protocol):
    """Shows the progress of a task of several steps."""

    def __call__(self, done: int, total: int, text: str) -> None:
        """Show that `done` of `total` steps are done; `text` is what the task waits for."""


@contextmanager
def steps(noun: str = "steps") -> Iterator[Steps]:
    """Show a progress bar with steps and elapsed time on a terminal; otherwise lines on stderr."""
    if not sys.stderr.isatty():
        with progress("waiting") as show_line:
            yield lambda done, total, text: show_line(f"{done} of {total} {noun} done; {text}")
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    shown = (
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Bars(*shown, console=console(), transient=True) as bars:
        task = bars.add_task("", visible=False)

        def show(done: int, total: int, text: str) -> None:
            bars.update(task, completed=done, total=total, description=text, visible=True)

        yield show


def console() -> Console:
    """Rich's console on stderr, so that progress never mixes with a result on stdout."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False)
