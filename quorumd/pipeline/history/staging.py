"""The first half of a micro-batch, in workers: tasks stage their records in files and return a summary.

Spark shuffles nothing. Each task writes its events to one Arrow file, and its partition records, grouped by
bucket, to another one, from which the fold of a bucket reads only its parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.errors import InputIncomplete
from quorumd.output_files import replacing
from quorumd.pipeline.history.cluster_fold import (
    COLUMNS,
    CONFIG,
    CONTROL_TYPES,
    METADATA_TYPES,
    MIN_INSYNC_REPLICAS,
)
from quorumd.pipeline.history.partition_rows import PARTITION_CHANGE, PARTITION_RECORD, RECORD_COLUMNS
from quorumd.pipeline.history.seed import Seed
from quorumd.pipeline.history.tables import BUCKETS, with_micros
from quorumd.pipeline.history.transactions import TRANSACTION_TYPES
from quorumd.pipeline.tables.schemas import EVENTS, Row

CHUNK_ROWS = 1 << 18
"""The number of records sorted by bucket at a time, which bounds the memory of a task."""
CHUNK_BYTES = 1 << 28
"""The limit for chunks of large records."""
EVENT_COLUMNS = EVENTS.packed().select(tuple(name for name in EVENTS.names if name != "cluster_id"))
UUID_BYTES = 16
SUMMARIZED = (*COLUMNS, "base_offset")
FOLDED_TYPES = (PARTITION_RECORD, PARTITION_CHANGE, *METADATA_TYPES, *TRANSACTION_TYPES)


@dataclass(slots=True)
class EpochPart:
    """The records of one epoch in one task."""

    epoch: int
    first: Row
    """The offset and timestamp of its first record."""
    records: int
    batches: int


@dataclass(slots=True)
class Staged:
    """Staged offsets [low, high), in the files `NAME.events` and `NAME.partitions`."""

    low: int
    high: int
    name: str = ""
    """The name of the files; names sort like their offsets."""
    records: int = 0
    parts: dict[int, list[int]] = field(default_factory=dict)
    """Batch numbers in the file of partitions, by bucket."""
    partition_records: int = 0
    cluster_rows: list[Row] = field(default_factory=list)
    """Records for `cluster_fold`, and transaction markers."""
    epochs: list[EpochPart] = field(default_factory=list)
    topic_ids: set[bytes] = field(default_factory=set)
    """The topic ids of all records."""
    last_ts_us: int = 0
    """The timestamp of the last record, in microseconds since 1970."""

    def file(self, directory: Path, kind: str) -> Path:
        """Return the path of a file; `kind` is events or partitions."""
        return directory / f"{self.name}.{kind}"


def stage(
    batches: Iterator[pa.RecordBatch], directory: Path, start: int, seed: Seed | None = None
) -> Staged | None:
    """Stage the records of `batches` (level records, packed) from offset `start` on.

    With `seed`, `batches` are of that snapshot (level snapshot), and all records get its last offset. Returns None
    without records. Raises InputIncomplete for records of an unknown version that a history needs.
    """
    chunks = _chunks(batches, start) if seed is None else _chunks(_of_snapshot(batches, seed.end), 0)
    first = next(chunks, None)
    if first is None:
        return None
    low = int(first["offset"][0].as_py())
    staged = Staged(low if seed is None else seed.end - 1, low, f"{low:020d}")
    events, partitions = staged.file(directory, "events"), staged.file(directory, "partitions")
    directory.mkdir(parents=True, exist_ok=True)
    with (
        _arrow_file(events, EVENT_COLUMNS.arrow()) as event_file,
        _arrow_file(partitions, RECORD_COLUMNS) as partition_file,
    ):
        number = 0
        while first is not None:
            if seed is None:
                event_file.write_table(first.select(EVENT_COLUMNS.names).cast(EVENT_COLUMNS.arrow()))
            else:
                first = _as_of(first, seed)
            _check_all_known(first)
            for bucket, part in _by_bucket(first):
                partition_file.write_batch(part)
                staged.parts.setdefault(bucket, []).append(number)
                staged.partition_records += len(part)
                number += 1
            _summarize(first, staged)
            first = next(chunks, None)
    return staged


@contextmanager
def _arrow_file(path: Path, schema: pa.Schema) -> Iterator[pa.ipc.RecordBatchFileWriter]:
    """Write a file in Arrow's format; it is renamed to `path` when it is complete."""
    with replacing(path) as file, pa.ipc.new_file(file, schema) as writer:
        yield writer


def _of_snapshot(batches: Iterator[pa.RecordBatch], end: int) -> Iterator[pa.RecordBatch]:
    """Keep the records of the snapshot that ends at `end`: a directory may have several."""
    for batch in batches:
        yield batch.filter(pc.equal(batch.column("snapshot_offset"), end)).drop_columns(["snapshot_offset"])


def _chunks(batches: Iterator[pa.RecordBatch], start: int) -> Iterator[pa.Table]:
    """Collect tables of about CHUNK_ROWS or CHUNK_BYTES."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if len(batch) and batch.column("offset")[0].as_py() < start:
            batch = batch.filter(pc.greater_equal(batch.column("offset"), start))
        if not len(batch):
            continue
        held.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield pa.Table.from_batches(held).combine_chunks()
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def _as_of(chunk: pa.Table, seed: Seed) -> pa.Table:
    """Give all records of a snapshot the offset, epoch and timestamp of its last record."""
    values = {"offset": seed.end - 1, "base_offset": seed.end - 1, "epoch": seed.epoch, "ts": seed.ts}
    for name, value in values.items():
        place = chunk.column_names.index(name)
        kind = chunk.schema.field(name)
        chunk = chunk.set_column(place, kind, pa.repeat(pa.scalar(value, kind.type), len(chunk)))
    return chunk


def _check_all_known(chunk: pa.Table) -> None:
    """Raise InputIncomplete for a record that the history needs but whose version is unknown."""
    if chunk["raw"].null_count == len(chunk):
        return
    unread = chunk.select(["offset", "control", "type", "type_name", "version"]).filter(
        chunk["raw"].is_valid()
    )
    for row in unread.to_pylist():
        if row["type"] in (CONTROL_TYPES if row["control"] else FOLDED_TYPES):
            raise InputIncomplete(
                f"the record at offset {row['offset']} is a {row['type_name']} of unknown version {row['version']}; "
                "build the history with a newer quorumd"
            )


def bucket_of(topic_ids: pa.ChunkedArray, partitions: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the bucket of each partition, which never changes. `topic_ids` have 16 bytes each."""
    column = topic_ids.combine_chunks()
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[column.offset : column.offset + len(column) + 1]
    ids = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].reshape(-1, UUID_BYTES)
    mixed = np.ascontiguousarray(ids[:, 12:]).view("<u4")[:, 0].astype(np.int64)
    return np.asarray((mixed + partitions.to_numpy()) % BUCKETS, np.uint8)


def _by_bucket(chunk: pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
    types = _types(chunk)
    wanted = (types == PARTITION_RECORD) | (types == PARTITION_CHANGE)
    rows = np.flatnonzero(wanted & ~chunk["control"].to_numpy())
    if not len(rows):
        return
    places = pa.array(rows)
    buckets = bucket_of(chunk["topic_id"].take(places), chunk["partition"].take(places))
    # A stable sort of 8-bit integers is a single radix pass.
    order = np.argsort(buckets, kind="stable")
    bounds = np.searchsorted(buckets[order], np.arange(BUCKETS + 1))
    chosen = chunk.select(RECORD_COLUMNS.names).take(pa.array(rows[order]))
    (ordered,) = chosen.cast(RECORD_COLUMNS).combine_chunks().to_batches()
    for bucket in range(BUCKETS):
        low, high = int(bounds[bucket]), int(bounds[bucket + 1])
        if low < high:
            yield bucket, ordered.slice(low, high - low)


def _summarize(chunk: pa.Table, staged: Staged) -> None:
    offsets = chunk["offset"].to_numpy()
    staged.high = int(offsets[-1]) + 1
    staged.records += len(chunk)
    chunk = with_micros(chunk.select(SUMMARIZED))
    staged.last_ts_us = chunk["ts"][-1].as_py()
    staged.cluster_rows.extend(_cluster_rows(chunk, _types(chunk), chunk["control"].to_numpy()))
    _count_epochs(chunk, offsets, staged)
    staged.topic_ids.update(pc.unique(chunk["topic_id"]).drop_null().to_pylist())


def _types(chunk: pa.Table) -> npt.NDArray[np.int16]:
    """Return the type of each record; -1 if its frame is malformed."""
    types: npt.NDArray[np.int16] = pc.fill_null(chunk["type"], -1).to_numpy()
    return types


def _cluster_rows(chunk: pa.Table, types: npt.NDArray[np.int16], control: npt.NDArray[np.bool_]) -> list[Row]:
    wanted = np.where(
        control, np.isin(types, CONTROL_TYPES), np.isin(types, METADATA_TYPES + TRANSACTION_TYPES)
    )
    found = chunk.select(COLUMNS).filter(pa.array(wanted))
    # Only min.insync.replicas matters, and there may be very many configs.
    is_config = pc.and_not(pc.equal(found["type"], CONFIG), found["control"])
    other = pc.invert(pc.match_substring(pc.fill_null(found["data"], ""), MIN_INSYNC_REPLICAS))
    rows: list[Row] = found.filter(pc.invert(pc.and_(is_config, other))).to_pylist()
    return rows


def _count_epochs(chunk: pa.Table, offsets: npt.NDArray[np.int64], staged: Staged) -> None:
    epochs = chunk["epoch"].to_numpy()
    bases = chunk["base_offset"].to_numpy()
    starts = np.nonzero(np.diff(epochs, prepend=epochs[0] - 1))[0]
    ends = np.append(starts[1:], len(epochs))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        batches = 1 + int(np.count_nonzero(np.diff(bases[start:end])))
        if start == 0 and bases[0] < offsets[0]:
            # This batch began in the previous chunk, where it was counted.
            batches -= 1
        first = {"offset": int(offsets[start]), "ts": chunk["ts"][start].as_py()}
        staged.epochs.append(EpochPart(int(epochs[start]), first, end - start, batches))
