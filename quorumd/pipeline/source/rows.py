"""Converts read batches to the rows of a level, as Arrow batches with the requested columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.errors import InputIncomplete
from quorumd.pipeline.decode import bad_records, decode_records
from quorumd.pipeline.decode.plain import LATEST_MS
from quorumd.pipeline.scan.batches import Batches, Fault
from quorumd.pipeline.source.options import FAIL, REPORT, Interval
from quorumd.pipeline.source.pieces import Origin, Read, describe
from quorumd.pipeline.tables.schemas import BATCHES, Table
from quorumd.protocol.batch_header import COMPRESSION_MASK, CONTROL_BIT

_SNAPSHOT_COLUMNS = ("snapshot_offset", "snapshot_epoch")
_PLACE = ("offset", "position", "fault")
"""Columns that checks of records need, requested or not."""


class RowShape(NamedTuple):
    """The requested rows: columns of a level in order, and the policy for damage."""

    table: Table
    packed: bool
    on_corrupt: str
    offsets: Interval
    """The requested offsets: records of a batch outside them are dropped."""


def record_rows(reads: Iterable[Read], shape: RowShape) -> Iterator[pa.RecordBatch]:
    """Yield rows of the levels `records` and `snapshot`. Raises InputIncomplete for damage if onCorrupt is fail."""
    schema = shape.table.arrow()
    columns = tuple(name for name in shape.table.names if name not in _SNAPSHOT_COLUMNS)
    decoded = (*columns, *(name for name in _PLACE if name not in columns))
    for read in reads:
        origin = read.origin
        yield from _fault_rows(read, read.faults, shape, schema)
        # Other batches are already reported as faults.
        sound = read.batches.sound
        batches = read.batches if sound.all() else read.batches.select(sound)
        if not len(batches):
            continue
        position = read.position if origin.segment is not None else None
        rows = decode_records(
            read.data, batches, origin.node, origin.segment, position, decoded, shape.packed
        )
        rows = _checked(_cut(rows, batches, shape.offsets), read.origin, shape.on_corrupt)
        if rows.num_rows:
            yield _with_columns(rows, origin, schema)


def batch_rows(reads: Iterable[Read], shape: RowShape) -> Iterator[pa.RecordBatch]:
    """Yield rows of the level `batches`. Raises InputIncomplete for damage if onCorrupt is fail."""
    schema = shape.table.arrow()
    for read in reads:
        batches = read.batches
        places = set((batches.position + read.position).tolist())
        at_batches = [fault for fault in read.faults if fault.position in places]
        between = [fault for fault in read.faults if fault.position not in places]
        yield from _fault_rows(read, between if shape.on_corrupt == REPORT else read.faults, shape, schema)
        if shape.on_corrupt != REPORT:
            batches, at_batches = batches.select(batches.sound), []
        if len(batches):
            yield _batch_table(read, batches, at_batches, schema)


def _batch_table(read: Read, batches: Batches, faults: Iterable[Fault], schema: pa.Schema) -> pa.RecordBatch:
    count = len(batches)
    origin = read.origin
    values: dict[str, Callable[[], object]] = {
        "node": lambda: np.full(count, origin.node, np.int32),
        "segment": lambda: _repeated(origin.segment, count),
        "position": lambda: _position(read, batches),
        "size": lambda: batches.size,
        "base_offset": lambda: batches.base_offset,
        "end_offset": lambda: batches.end_offset,
        "records": lambda: batches.count,
        "epoch": lambda: batches.epoch,
        "ts": lambda: _times(batches),
        "control": lambda: (batches.attributes & CONTROL_BIT) != 0,
        "compression": lambda: (batches.attributes & COMPRESSION_MASK).astype(np.int8),
        "stored_crc": lambda: batches.stored_crc.astype(np.int64),
        "crc": lambda: batches.crc.astype(np.int64),
        "fault": lambda: _texts(read, batches, faults),
    }
    arrays = [pa.array(values[field.name](), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _texts(read: Read, batches: Batches, faults: Iterable[Fault]) -> list[str | None]:
    """Return the faults of each batch as text; None for a valid batch."""
    by_position: dict[int, str] = {}
    for fault in faults:
        before = by_position.get(fault.position)
        by_position[fault.position] = f"{before}; {fault}" if before else str(fault)
    if not by_position:
        return [None] * len(batches)
    return [by_position.get(position) for position in (batches.position + read.position).tolist()]


def _times(batches: Batches) -> pa.Array:
    """Return the maximum timestamp of each batch; null if it does not fit the column."""
    times_ms = batches.max_timestamp
    fits = (times_ms >= -LATEST_MS) & (times_ms <= LATEST_MS)
    return pa.array(np.where(fits, times_ms, 0) * 1000, pa.timestamp("us", "UTC"), mask=~fits)


def _repeated(value: str | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), count)


def _position(read: Read, batches: Batches) -> npt.NDArray[np.int64] | pa.Array:
    if read.origin.segment is None:
        return pa.nulls(len(batches), pa.int64())
    return batches.position + read.position


def _cut(rows: pa.RecordBatch, batches: Batches, offsets: Interval) -> pa.RecordBatch:
    """Drop records of the first and the last batch that are outside `offsets`."""
    if offsets.low <= int(batches.base_offset.min()) and int(batches.end_offset.max()) <= offsets.high:
        return rows
    column = rows.column("offset")
    inside = pc.and_(pc.greater_equal(column, offsets.low), pc.less(column, offsets.high))
    return rows.filter(inside)


def _checked(rows: pa.RecordBatch, origin: Origin, on_corrupt: str) -> pa.RecordBatch:
    """Apply the policy for damage to records that could not be decoded."""
    faults = rows.column("fault")
    if faults.null_count == len(faults) or on_corrupt == REPORT:
        return rows
    damaged = pc.is_valid(faults)
    if on_corrupt != FAIL:
        return rows.filter(pc.invert(damaged))
    raise InputIncomplete(describe(origin, bad_records(rows)[0]))


def _with_columns(rows: pa.RecordBatch, origin: Origin, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of `schema`, in its order."""
    arrays = []
    for field in schema:
        if field.name in _SNAPSHOT_COLUMNS and origin.snapshot is not None:
            value = origin.snapshot[_SNAPSHOT_COLUMNS.index(field.name)]
            arrays.append(pa.repeat(pa.scalar(value, field.type), rows.num_rows))
        else:
            arrays.append(rows.column(field.name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fault_rows(
    read: Read, faults: list[Fault], shape: RowShape, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield a row per damaged place, with only its position and fault."""
    if not faults:
        return
    if shape.on_corrupt == FAIL:
        raise InputIncomplete(describe(read.origin, faults[0]))
    if shape.on_corrupt != REPORT:
        return
    origin = read.origin
    offset = "base_offset" if shape.table.name == BATCHES.name else "offset"
    snapshot: dict[str, int | str | None] = dict(
        zip(_SNAPSHOT_COLUMNS, origin.snapshot or (None, None), strict=True)
    )
    rows = [
        snapshot
        | {
            "node": origin.node,
            "segment": origin.segment,
            "position": fault.position if origin.segment is not None else None,
            offset: fault.offset if fault.offset >= 0 else None,
            "fault": str(fault),
        }
        for fault in faults
    ]
    yield pa.RecordBatch.from_pylist(
        [{field.name: row.get(field.name) for field in schema} for row in rows], schema
    )
