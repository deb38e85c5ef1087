"""Reports the progress of Spark's jobs: polls the status tracker a few times per second from a thread.

It does not need Spark's web interface.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorumd.pipeline.spark.session import SparkContext

INTERVAL_S = 0.3
_doing = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """An active stage: its numbers of tasks and of completed tasks."""

    tasks: int
    done: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The current activity, and the tasks of active stages; `total` is 0 without active stages."""

    text: str
    done: int = 0
    total: int = 0


Show = Callable[[Progress], None]


def doing(text: str) -> None:
    """Set the description of the next jobs, shown with their progress."""
    global _doing
    _doing = text


def progress_of(text: str, stages: Sequence[Stage]) -> Progress:
    """Summarize the active stages."""
    return Progress(
        text or "working", sum(stage.done for stage in stages), sum(stage.tasks for stage in stages)
    )


@contextmanager
def watch(context: SparkContext, show: Show, interval_s: float = INTERVAL_S) -> Iterator[None]:
    """Call `show` every `interval_s` seconds, from another thread, while the block runs."""
    over = threading.Event()

    def poll() -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        while not over.wait(interval_s):
            try:
                show(_poll(context))
            except (Py4JError, PySparkException, OSError):
                # The context is ending; its owner reports why.
                return

    watcher = threading.Thread(target=poll, name="spark-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        doing("")


def _poll(context: SparkContext) -> Progress:
    tracker = context.statusTracker()
    stages = []
    for number in tracker.getActiveStageIds():
        info = tracker.getStageInfo(number)
        if info is not None:
            stages.append(Stage(info.numTasks, info.numCompletedTasks))
    return progress_of(_doing, stages)
