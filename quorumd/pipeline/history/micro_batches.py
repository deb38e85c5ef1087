"""Runs both halves of a micro-batch in Spark's workers: tasks that stage records, and jobs that fold them.

The driver plans both, so Spark needs no SQL session, whose start takes seconds. Records go from task to job in
files, never through Java. A task that runs twice writes the same files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from quorumd.errors import ConfigError
from quorumd.pipeline.history.jobs import Done, EventsJob, FoldJob, run_jobs
from quorumd.pipeline.history.seed import Seed
from quorumd.pipeline.history.staging import Staged, stage
from quorumd.pipeline.history.writer import Run
from quorumd.pipeline.source.options import REPORT, SourceOptions, parse_options
from quorumd.pipeline.source.reader import Reader, TaskReader
from quorumd.pipeline.source.stream import StreamReader
from quorumd.pipeline.tables.schemas import EVENTS

if TYPE_CHECKING:
    from pyspark import SparkContext

RECORD_COLUMNS = tuple(name for name in EVENTS.names if name != "cluster_id")
TASKS_PER_CORE = 3
SMALL = 50_000
"""Jobs for fewer records run in this process, which is faster than starting tasks."""


class MicroBatches:
    """The records of a log from an offset on, in parts of at most `maxOffsetsPerTrigger` offsets."""

    def __init__(self, context: SparkContext, source: Mapping[str, str], start: int, epoch: int) -> None:
        """`epoch` is that of the record before `start`, by which a different log is detected; -1 if unknown."""
        options = _options(source, "records", start)
        self._context = context
        self._tasks = TaskReader(options, options.table.select(RECORD_COLUMNS))
        self._reader = StreamReader(options, self._tasks.table)
        self._reached = self._reader.initialOffset() | {"epoch": epoch}

    def end_here(self) -> None:
        """End at the current end of the log."""
        self._reader.prepareForTriggerAvailableNow()

    def stage_next(self, directory: Path) -> list[Staged] | None:
        """Stage the next micro-batch in a directory; return None at the end of the log.

        Raises InputIncomplete if the log no longer has its records, RequestFailed, and Spark's errors.
        """
        end = self._reader.latestOffset(self._reached, self._reader.getDefaultReadLimit())
        if end == self._reached:
            return None
        tasks = self._reader.partitions(self._reached, end)
        staged = _stage(self._context, self._tasks, tasks, directory, self._reached["offset"])
        self._reached = end
        return staged

    def close(self) -> None:
        """Close connections."""
        self._reader.stop()


def stage_snapshot(
    context: SparkContext, source: Mapping[str, str], seed: Seed, directory: Path
) -> list[Staged]:
    """Stage the records of a snapshot in a directory; none if it no longer exists."""
    options = _options(source, "snapshot", 0)
    reader = Reader(options, options.table.select(("snapshot_offset", *RECORD_COLUMNS)))
    return _stage(context, reader, reader.partitions(), directory, 0, seed)


def runner(context: SparkContext, staged: list[Staged]) -> Run:
    """Return a function that runs the jobs of staged records."""

    def run(jobs: Sequence[EventsJob | FoldJob]) -> Iterable[Done]:
        if sum(part.records for part in staged) <= SMALL:
            return run_jobs(jobs)
        # A task costs as much as the work for some ten thousand records, so a task runs several jobs.
        slices = min(len(jobs), TASKS_PER_CORE * context.defaultParallelism)
        ordered = [job for first in range(slices) for job in jobs[first::slices]]
        done: list[Done] = context.parallelize(ordered, slices).mapPartitions(run_jobs).collect()
        return done

    return run


def _options(source: Mapping[str, str], level: str, start: int) -> SourceOptions:
    """Parse the options of the source. Raises ConfigError."""
    options = parse_options(dict(source) | {"level": level, "lists": "packed", "startingOffset": str(start)})
    if options.on_corrupt == REPORT:
        raise ConfigError("onCorrupt=report cannot be used for a history: use fail or skip")
    return options


def _stage(
    context: SparkContext,
    reader: TaskReader,
    tasks: Sequence[InputPartition],
    directory: Path,
    start: int,
    seed: Seed | None = None,
) -> list[Staged]:
    """Stage the records of all tasks; return summaries ordered by offset."""
    if not tasks:
        return []
    run = partial(_stage_tasks, reader, directory, start, seed)
    staged: list[Staged] = context.parallelize(tasks, len(tasks)).mapPartitions(run).collect()
    return sorted(staged, key=lambda part: part.name)


def _stage_tasks(
    reader: TaskReader, directory: Path, start: int, seed: Seed | None, tasks: Iterable[InputPartition]
) -> Iterator[Staged]:
    for task in tasks:
        staged = stage(reader.rows(task), directory, start, seed)
        if staged is not None:
            yield staged
