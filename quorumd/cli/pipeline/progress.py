"""Shows the progress of commands of `quorumd pipeline`: a bar on a terminal, otherwise occasional lines on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from quorumd.cli.output import console

if TYPE_CHECKING:
    from quorumd.pipeline.spark.progress import Progress

LINE_INTERVAL_S = 5.0
"""The minimum interval between lines if stderr is not a terminal."""
_BAR_WIDTH = 24


class Display(Protocol):
    """Shows the progress of a command."""

    def __call__(self, text: str, done: int = 0, total: int = 0) -> None:
        """Show that `done` of `total` tasks are done; total 0 stands for work without a known size."""


_ends: list[Callable[[], None]] = []


@contextmanager
def display(first: str, wanted: bool = True) -> Iterator[Display]:
    """Show a bar or lines, initially `first`, until the block ends or `finish` is called."""
    if not wanted:
        yield lambda text, done=0, total=0: None
        return
    with _bar(first) if sys.stderr.isatty() else _lines(first, time.monotonic) as show:
        try:
            yield show
        finally:
            finish()


def finish() -> None:
    """Remove the progress display before a result is printed."""
    while _ends:
        _ends.pop()()


def tasks_on(show: Display) -> Callable[[Progress], None]:
    """Return a callback for `quorumd.pipeline.spark.progress.watch` that updates a display."""
    return lambda progress: show(progress.text, progress.done, progress.total)


@contextmanager
def _bar(first: str) -> Iterator[Display]:
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    shown = (
        SpinnerColumn(),
        TimeElapsedColumn(),
        BarColumn(bar_width=_BAR_WIDTH),
        TextColumn("{task.fields[count]}", markup=False),
        TextColumn("{task.description}", markup=False),
    )
    # Rich would redirect stdout to stderr, and a pipe on stdout would get nothing.
    bars = Bars(*shown, console=console(), transient=True, redirect_stdout=False)
    task = bars.add_task(first, total=None, count="")
    bars.start()
    _ends.append(bars.stop)

    def show(text: str, done: int = 0, total: int = 0) -> None:
        count = f"{done}/{total} tasks" if total else ""
        bars.update(task, description=text, completed=done, total=total or None, count=count)

    yield show


@contextmanager
def _lines(first: str, now_s: Callable[[], float]) -> Iterator[Display]:
    """Print changed texts, at most one per LINE_INTERVAL_S."""
    last_s = now_s()
    last = ""
    is_ended = False

    def end() -> None:
        nonlocal is_ended
        is_ended = True

    def show(text: str, done: int = 0, total: int = 0) -> None:
        nonlocal last, last_s
        line = f"{text}: {done} of {total} tasks" if total else text
        if not is_ended and line != last and now_s() - last_s >= LINE_INTERVAL_S:
            last, last_s = line, now_s()
            click.echo(line, err=True)

    _ends.append(end)
    yield show
