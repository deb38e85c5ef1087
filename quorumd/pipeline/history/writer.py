"""Writes micro-batches to a history: the part that runs on the driver."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from quorumd.errors import InputIncomplete
from quorumd.output_files import write_output
from quorumd.pipeline.history.cluster_fold import ClusterState
from quorumd.pipeline.history.jobs import CONTEXT, Done, EventsJob, FoldJob, MicroBatch
from quorumd.pipeline.history.lag import LagRows
from quorumd.pipeline.history.merging import GROWING, merge_small
from quorumd.pipeline.history.partition_rows import ReplicaContext
from quorumd.pipeline.history.seed import Seed
from quorumd.pipeline.history.staging import Staged
from quorumd.pipeline.history.tables import (
    BUCKETS,
    STAGING,
    Manifest,
    as_micros,
    as_time,
    flush_new,
    path_in,
    read_rows,
    remove_leftovers,
    remove_obsolete,
    write_manifest,
    write_rows,
)
from quorumd.pipeline.history.transactions import settle
from quorumd.pipeline.tables.schemas import Row

CLUSTER_TABLES = ("topics", "brokers", "epochs", "voters")

Run = Callable[[Sequence[EventsJob | FoldJob]], Iterable[Done]]


class End(NamedTuple):
    """The end of the input: the last offset + 1, and the epoch and the timestamp of the last record."""

    offset: int
    epoch: int
    ts_us: int


class HistoryWriter:
    """Adds micro-batches to the history in a directory, each atomically.

    Records below the end of the history (replays after a crash, overlaps) are dropped.
    """

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory = directory
        self.manifest = manifest
        self.staging = (directory / STAGING).absolute()
        self.records = 0
        """The number of added records."""
        self.orphans = 0
        self._waiting: list[Staged] = []
        remove_leftovers(directory, manifest)
        self._state = _read_state(directory, manifest)

    def new_staging(self) -> Path:
        """Return the staging directory, emptied unless it has records of an open transaction."""
        if not self._waiting:
            shutil.rmtree(self.staging, ignore_errors=True)
        return self.staging

    def add_staged(self, staged: list[Staged], run: Run, lag: LagRows = lambda ts, end: []) -> None:
        """Add staged records, ordered by offset; `run` executes jobs.

        Records that end within a transaction are kept until the next micro-batch. `lag(timestamp of the last record,
        end offset)` returns the rows of the table lag. Raises InputIncomplete if offsets are missing before the
        records.
        """
        staged = self._waiting + staged
        if not staged:
            return
        self._check_continuity(staged)
        if settle([row for part in staged for row in part.cluster_rows]).open is not None:
            self._waiting = staged
            return
        self._waiting = []
        low, last = staged[0].low, staged[-1]
        context = self._fold_cluster(staged)
        micro_batch = self._micro_batch(low)
        events = [EventsJob(micro_batch, part.name, part.file(self.staging, "events")) for part in staged]
        folds = self._fold_jobs(staged, low, context)
        done = list(run([*events, *folds]))
        end = End(last.high, last.epochs[-1].epoch, last.last_ts_us)
        self._publish(low, end, done, lag(as_time(end.ts_us), end.offset))
        self.records += sum(part.records for part in staged)
        shutil.rmtree(self.staging)

    def add_seed(self, staged: list[Staged], run: Run, seed: Seed) -> None:
        """Begin with a staged snapshot, or continue with it after a gap. Raises InputIncomplete if it no longer
        exists."""
        if not staged:
            raise InputIncomplete(
                f"the snapshot {seed.end}-{seed.epoch} was replaced by a newer one before it was read; "
                "build again"
            )
        context = self._fold_cluster(staged, seed)
        context.snapshot_offset = seed.end - 1
        done = list(run(self._fold_jobs(staged, seed.end - 1, context)))
        end = End(seed.end, seed.epoch, as_micros(seed.ts))
        self._publish(seed.end - 1, end, done, [], is_seed=True)
        shutil.rmtree(self.staging)

    def _micro_batch(self, low: int) -> MicroBatch:
        return MicroBatch(self.directory.absolute(), self.staging, low, self._state.cluster_id)

    def _fold_jobs(self, staged: list[Staged], low: int, context: ReplicaContext) -> list[FoldJob]:
        self.staging.mkdir(parents=True, exist_ok=True)
        write_output(self.staging / CONTEXT, pickle.dumps(context))
        current = self._current()
        touched = {bucket for part in staged for bucket in part.parts}
        return [
            FoldJob(self._micro_batch(low), self._parts(staged, bucket), bucket, current[bucket])
            for bucket in range(BUCKETS)
            if bucket in touched or (context.bulk_changes and current[bucket])
        ]

    def _parts(self, staged: list[Staged], bucket: int) -> list[tuple[Path, list[int]]]:
        having = [part for part in staged if bucket in part.parts]
        return [(part.file(self.staging, "partitions"), part.parts[bucket]) for part in having]

    def _current(self) -> list[str]:
        return list(self.manifest.files.get("partition_current", [""] * BUCKETS))

    def _check_continuity(self, staged: list[Staged]) -> None:
        expected = self.manifest.end
        for part in staged:
            if part.low > expected and expected:
                raise InputIncomplete(
                    f"offsets {expected} to {part.low - 1} are missing: the history in {self.directory} ends at "
                    f"{expected}, but the next record read is at {part.low}"
                )
            expected = part.high

    def _fold_cluster(self, staged: list[Staged], seed: Seed | None = None) -> ReplicaContext:
        state = self._state
        context = state.replica_context()
        settled = settle([row for part in staged for row in part.cluster_rows])
        if seed is not None:
            end = {"offset": seed.end - 1, "epoch": seed.epoch, "ts": as_micros(seed.ts)}
            state.apply_snapshot(settled.rows, end, context)
        else:
            for epoch in (epoch for part in staged for epoch in part.epochs):
                state.count_epoch(epoch.epoch, epoch.first, epoch.records, epoch.batches)
            context.aborted = settled.aborted
            state.apply(settled.rows, context)
        mentioned = set().union(*(part.topic_ids for part in staged))
        context.name({each: state.topics[each]["topic"] for each in mentioned if each in state.topics})
        return context

    def finish(self) -> None:
        """Remove the files that only the previous manifest lists, so that tools that do not read the manifest see one
        generation of each table."""
        obsolete, self.manifest.obsolete = self.manifest.obsolete, []
        if obsolete:
            write_manifest(self.directory, self.manifest)
            remove_obsolete(self.directory, obsolete)

    def _publish(self, low: int, end: End, done: list[Done], lag: list[Row], is_seed: bool = False) -> None:
        """Write the remaining tables and publish the micro-batch."""
        state, before = self._state, self.manifest
        files = {table: list(paths) for table, paths in before.files.items()}
        current, obsolete = self._current(), list[str]()
        for each in sorted(done, key=lambda one: one.path):
            if each.path:
                files.setdefault(each.table, []).append(each.path)
            if each.current is not None:
                if current[each.bucket]:
                    obsolete.append(current[each.bucket])
                current[each.bucket] = each.current
            self.orphans += each.orphans
            state.count_partitions(each.partition_counts)
        files["partition_current"] = current
        for table in CLUSTER_TABLES:
            if table in state.changed:
                obsolete.extend(files.get(table, []))
                files[table] = [path_in(table, low, "all")]
                write_rows(self.directory, files[table][0], table, _rows_of(state, table), state.cluster_id)
        state.changed.clear()
        gap = [] if not (is_seed and before.end) else [_gap(before, end)]
        for table, rows in {"lag": lag, "gaps": gap}.items():
            if rows:
                files.setdefault(table, []).append(path_in(table, low, "all"))
                write_rows(self.directory, files[table][-1], table, rows, state.cluster_id)
        for table in GROWING:
            if table in files:
                files[table], merged = merge_small(self.directory, table, files[table], low)
                obsolete.extend(merged)
        named = before.named
        self.manifest = Manifest(
            begin=before.begin if before.end else end.offset if is_seed else low,
            end=end.offset,
            end_epoch=end.epoch,
            end_ts_us=end.ts_us,
            cluster_id=state.cluster_id,
            kraft_version=state.kraft_version,
            min_isr=dict(state.min_isr),
            files=files,
            obsolete=[path for path in obsolete if path in named],
        )
        flush_new(self.directory, self.manifest.named - named)
        write_manifest(self.directory, self.manifest)
        remove_obsolete(self.directory, [path for path in obsolete if path not in named])
        remove_obsolete(self.directory, before.obsolete)


def _gap(before: Manifest, end: End) -> Row:
    return {
        "from_offset": before.end,
        "to_offset": end.offset,
        "from_ts": before.end_ts_us,
        "to_ts": end.ts_us,
    }


def _rows_of(state: ClusterState, table: str) -> list[Row]:
    found: dict[str, Iterable[Row]] = {
        "topics": state.topics.values(),
        "brokers": state.brokers,
        "epochs": state.epochs.values(),
        "voters": state.voters,
    }
    return list(found[table])


def _read_state(directory: Path, manifest: Manifest) -> ClusterState:
    def rows(table: str) -> list[Row]:
        return read_rows(directory, manifest.paths(table), table)

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
