"""Writes histories without Spark."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.image_records import snapshot_records
from quorumd.pipeline.history.jobs import run_jobs
from quorumd.pipeline.history.seed import Seed
from quorumd.pipeline.history.staging import stage
from quorumd.pipeline.history.tables import Manifest, as_time, read_manifest
from quorumd.pipeline.history.writer import HistoryWriter, Run
from tests.support.history.logs import history
from tests.support.history.reference import Logged
from tests.support.history.rows import batches


def write(directory: Path, log: list[Logged], tasks: int = 1) -> None:
    """Add one micro-batch, read by `tasks` tasks, as a new process would."""
    writer = HistoryWriter(directory, read_manifest(directory) or Manifest())
    add(writer, log, tasks)


def add(writer: HistoryWriter, log: list[Logged], tasks: int = 1, run: Run = run_jobs) -> None:
    staging = writer.new_staging()
    bounds = [len(log) * i // tasks for i in range(tasks + 1)]
    parts = [log[low:high] for low, high in pairwise(bounds)]
    staged = [stage(batches(part), staging, writer.manifest.end) for part in parts]
    writer.add_staged([each for each in staged if each is not None], run)


def write_seed(directory: Path, image: ClusterImage, last: Logged) -> None:
    """Begin a history with a snapshot of `image`, or continue it after a gap; `last` is the snapshot's last
    record."""
    writer = HistoryWriter(directory, read_manifest(directory) or Manifest())
    seed = Seed(last.offset + 1, last.epoch, as_time(last.ts_us))
    content = [
        Logged(number, last.epoch, last.ts_us, record)
        for number, record in enumerate(snapshot_records(image))
    ]
    of_snapshot = (
        batch.append_column("snapshot_offset", pa.array([seed.end] * len(batch)))
        for batch in batches(content)
    )
    staged = stage(of_snapshot, writer.new_staging(), 0, seed)
    assert staged is not None
    writer.add_seed([staged], run_jobs, seed)


def write_with_wrong_clock(directory: Path, epoch: int, wrong_by: timedelta) -> None:
    """Write a history of eight epochs, one of which has a wrong clock."""
    log, _ = history(3)
    micros = wrong_by // timedelta(microseconds=1)
    write(
        directory, [each._replace(ts_us=each.ts_us + micros) if each.epoch == epoch else each for each in log]
    )
