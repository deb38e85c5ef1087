"""Writes histories without Spark."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path

from quorumd.pipeline.history.jobs import run_job
from quorumd.pipeline.history.staging import Staged, stage
from quorumd.pipeline.history.tables import Manifest, read_manifest
from quorumd.pipeline.history.writer import HistoryWriter
from tests.support.history_rows import batches
from tests.support.naive_history import Logged


def write(folder: Path, log: list[Logged], tasks: int = 1) -> None:
    """Add one micro-batch, read by so many tasks, as a process that starts for it."""
    writer = HistoryWriter(folder, read_manifest(folder) or Manifest())
    add(writer, log, tasks)


def add(writer: HistoryWriter, log: list[Logged], tasks: int = 1) -> None:
    staging = writer.new_staging()
    bounds = [len(log) * i // tasks for i in range(tasks + 1)]
    parts = [log[low:high] for low, high in pairwise(bounds)]
    told = [each for part in parts for each in stage(batches(part), staging, writer.manifest.end)]
    staged: list[Staged] = [pickle.loads(each.column(0)[0].as_py()) for each in told]
    writer.add_staged(staged, lambda jobs: map(run_job, jobs))
