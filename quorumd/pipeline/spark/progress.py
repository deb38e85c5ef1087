"""How far Spark's jobs are: its status tracker, asked a few times a second from a thread of its own.

That works without Spark's web interface.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorumd.pipeline.spark.session import SparkSession

INTERVAL_S = 0.3
_doing = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage at work: how many tasks it has, and how many of them are done."""

    tasks: int
    done: int


@dataclass(frozen=True, slots=True)
class Progress:
    """What is being done, and tasks of the stages at work; `total` is 0 while none is."""

    text: str
    done: int = 0
    total: int = 0


Show = Callable[[Progress], None]


def doing(text: str) -> None:
    """Say what the next jobs are for; shown beside how far they are."""
    global _doing
    _doing = text


def progress_of(text: str, stages: Sequence[Stage]) -> Progress:
    """One line from the stages at work."""
    return Progress(
        text or "working", sum(stage.done for stage in stages), sum(stage.tasks for stage in stages)
    )


@contextmanager
def watch(session: SparkSession, show: Show, interval_s: float = INTERVAL_S) -> Iterator[None]:
    """Call `show` every `interval_s` seconds, from another thread, while the block runs."""
    over = threading.Event()

    def ask() -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        while not over.wait(interval_s):
            try:
                show(_asked(session))
            except (Py4JError, PySparkException, OSError):
                # The session is ending; the thread that uses it says how.
                return

    watcher = threading.Thread(target=ask, name="spark-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        doing("")


def _asked(session: SparkSession) -> Progress:
    tracker = session.sparkContext.statusTracker()
    stages = []
    for number in tracker.getActiveStageIds():
        info = tracker.getStageInfo(number)
        if info is not None:
            stages.append(Stage(info.numTasks, info.numCompletedTasks))
    return progress_of(_doing, stages)
