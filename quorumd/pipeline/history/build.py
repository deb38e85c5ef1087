"""`history build`: adds the records of a log to the directory of a history, to its end or continuously.

The history records the end offset it has reached, where the next run continues.
"""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from quorumd.errors import ConfigError, InputIncomplete, RequestFailed
from quorumd.pipeline.history.copies import describe_input, without_damaged
from quorumd.pipeline.history.lag import lag_of
from quorumd.pipeline.history.micro_batches import MicroBatches, runner, stage_snapshot
from quorumd.pipeline.history.seed import Seed, cluster_id_of, find_seed
from quorumd.pipeline.history.tables import COPIED, STAGING, Manifest, only_writer, read_manifest
from quorumd.pipeline.history.writer import HistoryWriter
from quorumd.pipeline.spark.failures import failure_of
from quorumd.pipeline.spark.progress import doing

if TYPE_CHECKING:
    from pyspark import SparkContext

OFFSETS_PER_MICRO_BATCH = 6_000_000
"""The number of offsets staged per micro-batch: about 1.5 GB."""
FOLLOW_INTERVAL_S = 1.0
"""The time between the starts of micro-batches of a followed log."""
OF_SPARK = PySparkException, Py4JError, ConnectionError


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a run; the history now covers the offsets [begin, end)."""

    records: int
    seconds: float
    begin: int
    end: int
    orphans: int
    """Changes of partitions whose creation is neither in the log nor in a snapshot."""


def build(
    context: SparkContext,
    source: Mapping[str, str],
    directory: Path,
    follow: bool = False,
    stop: threading.Event | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> Summary:
    """Add new records of the log to the history in `directory`.

    With `follow`, continue until SIGINT, or until `stop` is set. If records were deleted before they were
    read, the history continues with the next snapshot; the gap is recorded in the table gaps and passed to `report`.
    A damaged copy is also reported, and an intact one is read instead. If the cluster has no leader, this is reported
    once, and the build waits up to the timeout of the source. `source` has `path` or `bootstrap` and other options.

    Raises InputIncomplete if the log is incomplete, RequestFailed if the cluster does not respond, ConfigError if the
    history belongs to another cluster or another build is writing it.
    """
    started = time.monotonic()
    with only_writer(directory), _without_leftovers(directory):
        manifest = read_manifest(directory) or Manifest()
        _check_cluster(directory, manifest, cluster_id_of(source, report))
        records, orphans = 0, 0
        stop = stop or threading.Event()
        copies = directory / COPIED
        found, is_behind = find_seed(source, manifest.end, copies, report), True
        while is_behind:
            began = manifest.end
            writer = _begin(context, directory, manifest, found, report)
            try:
                _add_new(context, source, writer, follow, stop)
                is_behind = False
            except (InputIncomplete, RequestFailed, *OF_SPARK) as error:
                manifest = read_manifest(directory) or Manifest()
                # The log may have been deleted up to a snapshot since it was last checked.
                found = find_seed(source, manifest.end, copies, report)
                if found is None:
                    # Without progress since the last failure, the next attempt would fail as well.
                    may_resume = follow and manifest.end > began and _was_unreachable(error)
                    whole = without_damaged(source, manifest.end, report)
                    if whole is None and not may_resume:
                        raise
                    source = whole or source
            records += writer.records
            orphans += writer.orphans
        writer.finish()
        made = writer.manifest
    seconds = time.monotonic() - started
    return Summary(records, seconds, made.begin, made.end, orphans)


def _check_cluster(directory: Path, manifest: Manifest, cluster_id: str | None) -> None:
    """Record the cluster id in a new history; raise ConfigError if the history has another cluster id."""
    if None not in (cluster_id, manifest.cluster_id) and cluster_id != manifest.cluster_id:
        raise ConfigError(
            f"{directory} has the history of cluster {manifest.cluster_id}, but the log belongs to cluster "
            f"{cluster_id}; build its history in another directory"
        )
    manifest.cluster_id = manifest.cluster_id or cluster_id


def _was_unreachable(error: Exception) -> bool:
    return isinstance(error, RequestFailed) or isinstance(failure_of(error, None), RequestFailed)


@contextmanager
def _without_leftovers(directory: Path) -> Iterator[None]:
    """Delete staged and copied files on exit; they may be large and are not reused."""
    try:
        yield
    finally:
        for name in (STAGING, COPIED):
            shutil.rmtree(directory / name, ignore_errors=True)


def _begin(
    context: SparkContext,
    directory: Path,
    manifest: Manifest,
    found: tuple[Seed, dict[str, str]] | None,
    report: Callable[[str], None],
) -> HistoryWriter:
    """Return a writer, with the seed snapshot loaded if there is one."""
    writer = HistoryWriter(directory, manifest)
    if found:
        seed, source = found
        if manifest.end:
            report(
                f"offsets {manifest.end} to {seed.end - 1} were deleted from the log before they were read: the "
                "history continues with the next snapshot, see the table gaps"
            )
        doing(f"reading the snapshot of offset {seed.end}")
        staged = stage_snapshot(context, source, seed, writer.new_staging())
        writer.add_seed(staged, runner(context, staged), seed)
    return writer


def _add_new(
    context: SparkContext,
    source: Mapping[str, str],
    writer: HistoryWriter,
    follow: bool,
    stop: threading.Event,
) -> None:
    """Add micro-batches up to the end of the log, or with `follow` until `stop` is set."""
    doing(describe_input(source))
    lag = lag_of(source)
    options = {"maxOffsetsPerTrigger": str(OFFSETS_PER_MICRO_BATCH)} | dict(source)
    log = MicroBatches(context, options, writer.manifest.end, writer.manifest.end_epoch)
    with closing(log), _delayed_interrupts() as interrupts:
        if not follow:
            log.end_here()
        while not interrupts and not stop.is_set():
            began = time.monotonic()
            staged = log.stage_next(writer.new_staging())
            if staged is None and not follow:
                return
            if staged:
                before = writer.records
                writer.add_staged(staged, runner(context, staged), lag)
                took, added = time.monotonic() - began, writer.records - before
                doing(f"up to offset {writer.manifest.end:,}, the last {added:,} records in {took:.1f} s")
            if follow:
                stop.wait(max(0.0, began + FOLLOW_INTERVAL_S - time.monotonic()))
    if not follow:
        raise KeyboardInterrupt


@contextmanager
def _delayed_interrupts() -> Iterator[list[int]]:
    """Collect SIGINT, which must not interrupt a call to Java; the current micro-batch is completed.

    Raises KeyboardInterrupt if the signal ended Java.
    """
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    try:
        yield signals
    except OF_SPARK:
        if signals:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
