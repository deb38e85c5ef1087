"""`history build`: streams the log into the directory of a history, to its end or continuously.

The history records the end offset it has reached, where the next run starts a new stream. Spark's checkpoint is not
safe against power failures, and is used within one run only.
"""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from quorumd.errors import ConfigError, RequestFailed
from quorumd.pipeline.history.copies import describe_input, without_damaged
from quorumd.pipeline.history.lag import lag_of
from quorumd.pipeline.history.seed import Seed, cluster_id_of, find_seed
from quorumd.pipeline.history.staging_source import NAME, Staging, StagingSource, staging_options
from quorumd.pipeline.history.tables import (
    CHECKPOINT,
    COPIED,
    STAGING,
    Manifest,
    only_writer,
    read_manifest,
)
from quorumd.pipeline.history.writer import HistoryWriter
from quorumd.pipeline.spark.failures import failure_of
from quorumd.pipeline.spark.progress import doing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OFFSETS_PER_MICRO_BATCH = 6_000_000
"""The number of offsets staged per micro-batch: about 1.5 GB."""
TRIGGER = "1 second"
_LOOK_S = 0.3


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
    session: SparkSession,
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
        session.dataSource.register(StagingSource)
        records, orphans = 0, 0
        stop = stop or threading.Event()
        copies = directory / COPIED
        found, is_behind = find_seed(session, source, manifest.end, copies, report), True
        while is_behind:
            began = manifest.end
            writer = _begin(session, directory, manifest, found, report)
            try:
                _stream(session, source, writer, follow, stop)
                is_behind = False
            except PySparkException as error:
                manifest = read_manifest(directory) or Manifest()
                # The log may have been deleted up to a snapshot since it was last checked.
                found = find_seed(session, source, manifest.end, copies, report)
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


def _was_unreachable(error: PySparkException) -> bool:
    return isinstance(failure_of(error, None), RequestFailed)


@contextmanager
def _without_leftovers(directory: Path) -> Iterator[None]:
    """Delete staged and copied files and the checkpoint on exit; they may be large and are not reused."""
    try:
        yield
    finally:
        for name in (STAGING, CHECKPOINT, COPIED):
            shutil.rmtree(directory / name, ignore_errors=True)


def _begin(
    session: SparkSession,
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
        options = source | staging_options(Staging(writer.staging, seed=seed))
        writer.seed(session.read.format(NAME).options(**options).load(), seed)
    return writer


def _stream(
    session: SparkSession,
    source: Mapping[str, str],
    writer: HistoryWriter,
    follow: bool,
    stop: threading.Event,
) -> None:
    shutil.rmtree(writer.directory / CHECKPOINT, ignore_errors=True)
    end, epoch = writer.manifest.end, writer.manifest.end_epoch
    options = {"maxOffsetsPerTrigger": str(OFFSETS_PER_MICRO_BATCH)} | dict(source)
    options |= {"startingOffset": str(end)} | staging_options(Staging(writer.staging, end, epoch))
    doing(describe_input(source))
    frame = session.readStream.format(NAME).options(**options).load()
    adding = threading.Lock()
    lag = lag_of(source)

    def add(batch: DataFrame, number: int) -> None:
        del number
        began, before = time.monotonic(), writer.records
        with adding:
            writer.add(batch, lag)
        took, added = time.monotonic() - began, writer.records - before
        if added:
            doing(f"up to offset {writer.manifest.end:,}, the last {added:,} records in {took:.1f} s")

    stream = frame.writeStream.foreachBatch(add).option(
        "checkpointLocation", str((writer.directory / CHECKPOINT).absolute())
    )
    stream = stream.trigger(processingTime=TRIGGER) if follow else stream.trigger(availableNow=True)
    if not _ends_by_itself(stream.start(), adding, stop) and not follow:
        raise KeyboardInterrupt


def _ends_by_itself(query: StreamingQuery, adding: threading.Lock, stop: threading.Event) -> bool:
    """Wait until the stream ends, or until a signal requests the end; the current micro-batch is completed.

    The signal only sets a flag, since it must not interrupt a call to Java. Raises KeyboardInterrupt if the signal
    ended Java.
    """
    signals: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        signals.append(number)
        stop.set()

    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, end) if is_main else None
    try:
        while query.isActive and not stop.wait(_LOOK_S):
            pass
        with adding:
            query.stop()
        # Raises the exception that failed the stream.
        query.awaitTermination()
        return not stop.is_set()
    except (PySparkException, Py4JError, ConnectionError):
        if signals:
            raise KeyboardInterrupt from None
        raise
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)
