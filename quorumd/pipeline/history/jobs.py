"""The second half of a micro-batch, in workers: files of events, and the states of a bucket of partitions."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from quorumd.pipeline.history.packed import pack, unpack
from quorumd.pipeline.history.partition_fold import STATES, fold
from quorumd.pipeline.history.partition_rows import RECORD_COLUMNS, Surroundings
from quorumd.pipeline.history.staging import Staged
from quorumd.pipeline.history.tables import path_in, read_files, write_table
from quorumd.pipeline.schemas import EVENTS, INTS, PARTITION_STATES, Table

AROUND = "surroundings"
"""File in the staging folder with the pickled Surroundings."""


@dataclass(slots=True)
class EventsJob:
    """Write the events of one staged file."""

    folder: Path
    staging: Path
    staged: Staged
    low: int
    """First offset of the micro-batch."""
    cluster_id: str | None


@dataclass(slots=True)
class FoldJob:
    """Fold a bucket: its state in the file `current` ("" for none), and its records in all staged files."""

    folder: Path
    staging: Path
    staged: list[Staged]
    low: int
    cluster_id: str | None
    bucket: int
    current: str


@dataclass(slots=True)
class Done:
    """Paths of what was written; `current` is None where the bucket's file stays as it is, "" for no partitions."""

    table: str
    path: str = ""
    bucket: int = -1
    current: str | None = None
    orphans: int = 0


def run_job(job: EventsJob | FoldJob) -> Done:
    """Run one job; run twice it writes the same files."""
    return _write_events(job) if isinstance(job, EventsJob) else _fold_bucket(job)


def _around(staging: Path) -> Surroundings:
    around: Surroundings = pickle.loads((staging / AROUND).read_bytes())
    return around


def _write_events(job: EventsJob) -> Done:
    path = path_in("events", job.low, f"part-{job.staged.low:020d}")
    with pa.memory_map(str(job.staged.file(job.staging, "events"))) as source:
        events = pa.ipc.open_file(source).read_all()
        write_table(job.folder, path, unpacked(_named(events, _around(job.staging)), EVENTS, job.cluster_id))
    return Done("events", path)


def _named(events: Any, around: Surroundings) -> Any:
    """Events with the names of topics by their ids, where the record itself does not say it."""
    import pyarrow.compute as pc

    ids = pa.array(list(around.names), pa.binary())
    names = pa.array(list(around.names.values()), pa.string())
    found = names.take(pc.index_in(events["topic_id"].combine_chunks(), ids))
    column = events.column_names.index("topic")
    return events.set_column(column, events.schema.field("topic"), pc.coalesce(events["topic"], found))


def _fold_bucket(job: FoldJob) -> Done:
    around = _around(job.staging)
    states = _read_states(job.folder, [job.current] if job.current else [])
    records = _read_records(job)
    done = Done("partition_states", bucket=job.bucket)
    if not len(records) and not around.moments:
        return done
    closed, still_open, done.orphans = fold(states, records, around)
    if len(closed):
        done.path = path_in("partition_states", job.low, f"bucket-{job.bucket:02d}")
        write_table(job.folder, done.path, unpacked(closed, PARTITION_STATES, job.cluster_id))
    if len(closed) or len(records):
        done.current = ""
        if len(still_open):
            done.current = path_in("partition_current", job.low, f"bucket-{job.bucket:02d}")
            write_table(job.folder, done.current, unpacked(still_open, PARTITION_STATES, job.cluster_id))
    return done


def _read_states(folder: Path, paths: list[str]) -> Any:
    table = read_files(folder, paths, "partition_states", list(STATES.names))
    for number, column in enumerate(PARTITION_STATES.select(STATES.names).columns):
        if column.type == INTS:
            table = table.set_column(number, column.name, pack(table.column(number)))
    return table.cast(STATES.arrow())


def _read_records(job: FoldJob) -> Any:
    parts: list[Any] = []
    for staged in job.staged:
        numbers = staged.parts.get(job.bucket)
        if numbers:
            reader = pa.ipc.open_file(pa.memory_map(str(staged.file(job.staging, "partitions"))))
            parts.extend(reader.get_batch(number) for number in numbers)
    return pa.Table.from_batches(parts, schema=RECORD_COLUMNS)


def unpacked(table: Any, target: Table, cluster_id: str | None) -> Any:
    """A table with packed lists as the one to be written, each row with the cluster's id."""
    columns = []
    for column in target.columns:
        if column.name == "cluster_id":
            columns.append(pa.repeat(pa.scalar(cluster_id, pa.string()), len(table)))
        elif column.type == INTS:
            columns.append(unpack(table[column.name]))
        else:
            columns.append(table[column.name])
    return pa.table(columns, schema=target.arrow())
