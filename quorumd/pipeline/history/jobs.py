"""The second half of a micro-batch, in workers: writes events, and folds the partitions of each bucket."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from quorumd.pipeline.history.packed import pack, unpack
from quorumd.pipeline.history.partition_fold import STATES, fold
from quorumd.pipeline.history.partition_rows import RECORD_COLUMNS, ReplicaContext
from quorumd.pipeline.history.tables import FLUSHES, flush, path_in, read_files, write_table
from quorumd.pipeline.tables.schemas import EVENTS, INTS, PARTITION_STATES, Table

CONTEXT = "context"
"""The file in the staging directory with the pickled ReplicaContext."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The place of a micro-batch in a history."""

    directory: Path
    """The directory of the history."""
    staging: Path
    """The staging directory."""
    low: int
    """The first offset of the micro-batch."""
    cluster_id: str | None


@dataclass(frozen=True, slots=True)
class EventsJob:
    """Write the events of one staged file."""

    micro_batch: MicroBatch
    name: str
    file: Path


@dataclass(frozen=True, slots=True)
class FoldJob:
    """Fold the records of a bucket onto its current states."""

    micro_batch: MicroBatch
    parts: list[tuple[Path, list[int]]]
    """Staged files, and the numbers of the batches with records of the bucket."""
    bucket: int
    current: str
    """The file with the current states; "" if there are none."""


@dataclass(slots=True)
class Done:
    """The files that a job has written."""

    table: str
    path: str = ""
    bucket: int = -1
    current: str | None = None
    """The new file of current states: None if the old one is unchanged, "" if the bucket has no partitions left."""
    orphans: int = 0
    partition_counts: dict[bytes, int] = field(default_factory=dict)
    """See partition_fold.Folded."""


def run_jobs(jobs: Iterable[EventsJob | FoldJob]) -> list[Done]:
    """Run jobs one after the other; the files of a job are flushed while the next one runs."""
    found = []
    with ThreadPoolExecutor(FLUSHES) as threads:
        flushes = []
        for job in jobs:
            done = run_job(job)
            found.append(done)
            for path in filter(None, (done.path, done.current)):
                flushes.append(threads.submit(flush, job.micro_batch.directory / path))
        for each in flushes:
            each.result()
    return found


def run_job(job: EventsJob | FoldJob) -> Done:
    """Run one job; a second run writes the same files."""
    return _write_events(job) if isinstance(job, EventsJob) else _fold_bucket(job)


def _read_context(staging: Path) -> ReplicaContext:
    context: ReplicaContext = pickle.loads((staging / CONTEXT).read_bytes())
    return context


def _write_events(job: EventsJob) -> Done:
    micro_batch = job.micro_batch
    path = path_in("events", micro_batch.low, f"part-{job.name}")
    with pa.memory_map(str(job.file)) as source:
        events = _named(pa.ipc.open_file(source).read_all(), _read_context(micro_batch.staging))
        write_table(micro_batch.directory, path, unpacked(events, EVENTS, micro_batch.cluster_id))
    return Done("events", path)


def _named(events: pa.Table, context: ReplicaContext) -> pa.Table:
    """Add topic names by id, and dictionary-encode them; for an unknown id, keep the name in the record."""
    ids = events["topic_id"].combine_chunks().dictionary_encode()
    found = context.names_of(ids.dictionary)
    if found.null_count:
        names = pc.coalesce(events["topic"].combine_chunks(), found.take(ids.indices))
    else:
        names = pa.DictionaryArray.from_arrays(ids.indices, found)
    kinds = events["type_name"].combine_chunks().dictionary_encode()
    for name, values in {"topic_id": ids, "topic": names, "type_name": kinds}.items():
        events = events.set_column(events.column_names.index(name), name, values)
    return events


def _fold_bucket(job: FoldJob) -> Done:
    micro_batch, name = job.micro_batch, f"bucket-{job.bucket:02d}"
    context = _read_context(micro_batch.staging)
    states = _read_states(micro_batch.directory, [job.current] if job.current else [])
    records = _read_records(job)
    closed, still_open, orphans, counts = fold(states, records, context)
    done = Done("partition_states", bucket=job.bucket, orphans=orphans, partition_counts=counts)
    if len(closed):
        done.path = path_in("partition_states", micro_batch.low, name)
        write_table(
            micro_batch.directory, done.path, unpacked(closed, PARTITION_STATES, micro_batch.cluster_id)
        )
    if len(closed) or len(records):
        done.current = ""
        if len(still_open):
            done.current = path_in("partition_current", micro_batch.low, name)
            write_table(
                micro_batch.directory,
                done.current,
                unpacked(still_open, PARTITION_STATES, micro_batch.cluster_id),
            )
    return done


def _read_states(directory: Path, paths: list[str]) -> pa.Table:
    table = read_files(directory, paths, "partition_states", list(STATES.names))
    for number, column in enumerate(PARTITION_STATES.select(STATES.names).columns):
        if column.type == INTS:
            table = table.set_column(number, column.name, pack(table.column(number)))
    return table.cast(STATES.arrow())


def _read_records(job: FoldJob) -> pa.Table:
    parts: list[pa.RecordBatch] = []
    for file, numbers in job.parts:
        reader = pa.ipc.open_file(pa.memory_map(str(file)))
        parts.extend(reader.get_batch(number) for number in numbers)
    return pa.Table.from_batches(parts, schema=RECORD_COLUMNS)


def unpacked(table: pa.Table, target: Table, cluster_id: str | None) -> pa.Table:
    """Convert packed lists, and add the cluster id to each row."""
    columns = []
    for column in target.columns:
        if column.name == "cluster_id":
            columns.append(pa.repeat(pa.scalar(cluster_id, pa.string()), len(table)))
        elif column.type == INTS:
            columns.append(unpack(table[column.name]))
        else:
            columns.append(table[column.name])
    return pa.table(columns, names=list(target.names))
