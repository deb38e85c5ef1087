"""Micro-batches into a history: the driver's side."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quorumd.errors import InputIncomplete
from quorumd.pipeline.history.cluster_fold import ClusterState, Row
from quorumd.pipeline.history.jobs import AROUND, Done, EventsJob, FoldJob, run_job
from quorumd.pipeline.history.partition_rows import Surroundings
from quorumd.pipeline.history.staging import Staged, stage
from quorumd.pipeline.history.tables import (
    BUCKETS,
    STAGING,
    Manifest,
    path_in,
    read_files,
    remove_leftovers,
    remove_obsolete,
    write_manifest,
    write_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL = 50_000
"""Up to so many records are folded here: sooner done than told to a worker."""
CLUSTER_TABLES = ("topics", "brokers", "epochs", "voters")

Run = Callable[[Sequence[EventsJob | FoldJob]], Iterable[Done]]


class HistoryWriter:
    """Adds micro-batches to the history in a folder, each of them whole or not at all.

    What comes again (a replay after a crash, an overlap) is left out by its offsets.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.orphans = 0
        remove_leftovers(folder, manifest)
        self._state = _read_state(folder, manifest)

    def add(self, frame: DataFrame) -> int:
        """Fold a micro-batch of the records level (packed lists) in; how many records of it were new.

        Raises InputIncomplete where offsets are missing before it.
        """
        staging = self.new_staging()
        start = self.manifest.end

        def put_aside(batches: Iterator[Any]) -> Iterator[Any]:
            return stage(batches, staging, start)

        rows = frame.mapInArrow(put_aside, "staged BINARY").collect()
        parts: list[Staged] = [pickle.loads(row.staged) for row in rows]
        staged = sorted(parts, key=lambda part: part.low)
        records = sum(part.records for part in staged)

        def run(jobs: Sequence[EventsJob | FoldJob]) -> Iterable[Done]:
            if records <= SMALL:
                return map(run_job, jobs)
            context = frame.sparkSession.sparkContext
            done: list[Done] = context.parallelize(jobs, len(jobs)).map(run_job).collect()
            return done

        self.add_staged(staged, staging, run)
        return records

    def new_staging(self) -> Path:
        """An empty place for what tasks put aside."""
        staging = (self.folder / STAGING).absolute()
        shutil.rmtree(staging, ignore_errors=True)
        return staging

    def add_staged(self, staged: list[Staged], staging: Path, run: Run) -> None:
        """Add what tasks put aside, in the order of their offsets; `run` runs jobs wherever it likes."""
        if not staged:
            return
        self._check_continuity(staged)
        low, high = staged[0].low, staged[-1].high
        around = self._fold_cluster(staged)
        (staging / AROUND).write_bytes(pickle.dumps(around))
        folder = self.folder.absolute()
        cluster_id = self._state.cluster_id
        jobs: list[EventsJob | FoldJob] = [
            EventsJob(folder, staging, part, low, cluster_id) for part in staged
        ]
        current = self.manifest.files.get("partition_current", [""] * BUCKETS)
        touched = {bucket for part in staged for bucket in part.parts}
        for bucket in range(BUCKETS):
            if bucket in touched or (around.moments and current[bucket]):
                jobs.append(FoldJob(folder, staging, staged, low, cluster_id, bucket, current[bucket]))
        self._publish(low, high, list(run(jobs)), list(current))
        shutil.rmtree(staging)

    def _check_continuity(self, staged: list[Staged]) -> None:
        expected = self.manifest.end
        for part in staged:
            if part.low > expected and expected:
                raise InputIncomplete(
                    f"offsets {expected} to {part.low - 1} are missing: the history in {self.folder} ends at "
                    f"{expected}, and what was read goes on at {part.low}"
                )
            expected = part.high

    def _fold_cluster(self, staged: list[Staged]) -> Surroundings:
        state = self._state
        around = state.surroundings()
        for part in staged:
            for epoch in part.epochs:
                state.count_epoch(epoch.epoch, epoch.first, epoch.records, epoch.batches)
            state.apply(part.cluster_rows, around)
            state.count_partitions(part.partition_counts)
        mentioned = set().union(*(part.topic_ids for part in staged))
        around.names = {
            topic_id: state.topics[topic_id]["topic"] for topic_id in mentioned if topic_id in state.topics
        }
        return around

    def _publish(self, low: int, high: int, done: list[Done], current: list[str]) -> None:
        """Write what is left, and let all of it count at once."""
        state, before = self._state, self.manifest
        files = {table: list(paths) for table, paths in before.files.items()}
        obsolete: list[str] = []
        for each in sorted(done, key=lambda one: one.path):
            if each.path:
                files.setdefault(each.table, []).append(each.path)
            if each.current is not None:
                obsolete.append(current[each.bucket])
                current[each.bucket] = each.current
            self.orphans += each.orphans
        files["partition_current"] = current
        for table in CLUSTER_TABLES:
            if table in state.changed:
                obsolete.extend(files.get(table, []))
                files[table] = [path_in(table, low, "all")]
                write_rows(self.folder, files[table][0], table, _rows_of(state, table), state.cluster_id)
        state.changed.clear()
        self.manifest = Manifest(
            begin=before.begin if before.end else low,
            end=high,
            cluster_id=state.cluster_id,
            kraft_version=state.kraft_version,
            min_isr=dict(state.min_isr),
            files=files,
            obsolete=[path for path in obsolete if path],
            source=before.source,
        )
        write_manifest(self.folder, self.manifest)
        remove_obsolete(self.folder, before.obsolete)


def _rows_of(state: ClusterState, table: str) -> list[Row]:
    found: dict[str, Iterable[Row]] = {
        "topics": state.topics.values(),
        "brokers": state.brokers,
        "epochs": state.epochs.values(),
        "voters": state.voters,
    }
    return list(found[table])


def _read_state(folder: Path, manifest: Manifest) -> ClusterState:
    def rows(table: str) -> list[Row]:
        found: list[Row] = read_files(folder, manifest.paths(table), table).to_pylist()
        return found

    state = ClusterState(
        cluster_id=manifest.cluster_id,
        kraft_version=manifest.kraft_version,
        topics={row["topic_id"]: row for row in rows("topics")},
        brokers=rows("brokers"),
        epochs={row["epoch"]: row for row in rows("epochs")},
        voters=rows("voters"),
        min_isr=dict(manifest.min_isr),
    )
    state.index()
    return state
