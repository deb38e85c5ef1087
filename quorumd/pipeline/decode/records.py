"""Decodes batches of a piece to one Arrow batch of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorumd.pipeline.decode.cells import Cells
from quorumd.pipeline.decode.configs import put_configs
from quorumd.pipeline.decode.gather import Gather, Mask, Positions
from quorumd.pipeline.decode.plain import COLUMNS, batch_rows, record_row
from quorumd.pipeline.decode.record_walk import Records, walk
from quorumd.pipeline.decode.shapes import FRAME_SIZE, Reads, Shape
from quorumd.pipeline.scan.batches import Batches, Data, Fault
from quorumd.pipeline.tables.schemas import RECORDS, Row, Table
from quorumd.protocol import messages
from quorumd.protocol.batch_header import CONTROL_BIT
from quorumd.protocol.record_batch import Record

_Scalar = TypeVar("_Scalar", bound=np.generic)

_SHALLOW: Final = frozenset(
    (
        "node",
        "segment",
        "position",
        "offset",
        "base_offset",
        "epoch",
        "ts",
        "control",
        "type",
        "type_name",
        "version",
    )
)
"""Columns that do not require the body of a record."""
_NO_ROWS: Final = np.empty(0, np.int64)
_OF_ALL_TYPES: Final = frozenset(("data", "raw", "fault"))


def decode_records(
    data: Data,
    batches: Batches,
    node: int,
    segment: str | None,
    position: int | None,
    columns: Sequence[str] = RECORDS.names,
    packed: bool = False,
) -> pa.RecordBatch:
    """Decode the records of these batches, in order, to columns of schemas.RECORDS.

    Batches with a wrong CRC have no rows. `segment` and `position` (of the piece in its file) are None for data of
    a live node. Only what `columns` needs is decoded, so malformed records are only detected if `fault` is
    requested. With `packed`, lists of ids are BINARY (schemas.PACKED). Never raises for malformed bytes; KeyError
    for an unknown column.
    """
    if not batches.sound.all():
        batches = batches.select(batches.sound)
    return _Decoding(data, batches, columns, packed).record_batch(node, segment, position)


def records_table(columns: Sequence[str] = RECORDS.names, packed: bool = False) -> Table:
    """Return the table that decode_records returns for these columns."""
    table = RECORDS.packed() if packed else RECORDS
    return table.select(tuple(columns))


def fault_rows(
    faults: Sequence[Fault],
    node: int,
    segment: str | None,
    columns: Sequence[str] = RECORDS.names,
    packed: bool = False,
) -> pa.RecordBatch:
    """Return a row per damaged place found by a scan, in the columns of decode_records."""
    rows = [
        {
            "node": node,
            "segment": segment,
            "position": fault.position,
            "offset": fault.offset if fault.offset >= 0 else None,
            "fault": str(fault),
        }
        for fault in faults
    ]
    return pa.RecordBatch.from_pylist(rows, records_table(columns, packed).arrow())


def with_faults(
    rows: pa.RecordBatch, faults: Sequence[Fault], node: int, segment: str | None
) -> pa.RecordBatch:
    """Insert a row per fault, before the records of its batch; the rows need the column `position`."""
    if not faults:
        return rows
    packed = rows.schema == records_table(rows.schema.names, packed=True).arrow()
    table = pa.Table.from_batches([fault_rows(faults, node, segment, rows.schema.names, packed), rows])
    order = np.argsort(table.column("position").to_numpy(), kind="stable")
    return table.take(pa.array(order)).combine_chunks().to_batches()[0]


def bad_records(rows: pa.RecordBatch) -> list[Fault]:
    """Return the faults in rows with `position`, `offset` and `fault`; position is None for data of a live node."""
    faulty = rows.filter(rows.column("fault").is_valid()).select(["position", "offset", "fault"])
    found = []
    for row in faulty.to_pylist():
        code, _, text = row["fault"].partition(": ")
        found.append(Fault(code, row["position"], row["offset"], text))
    return found


class _Decoding:
    """Decodes one piece."""

    def __init__(self, data: Data, batches: Batches, columns: Sequence[str], packed: bool) -> None:
        self._table = records_table(columns, packed)
        self._data = data if isinstance(data, bytes) else bytes(data)
        self._batches = batches
        self._gather = Gather(data)
        walked = walk(self._gather, self._data, batches)
        odd = {
            index: list(batch_rows(self._data, batches, index))
            for index in np.flatnonzero(~walked.usual).tolist()
        }
        self._shapes = walked.shapes
        self._counts = np.bincount(walked.records.batch, minlength=len(batches))
        self._records, self._rows = walked.records, walked.rows
        if odd:
            self._make_room({index: len(rows) for index, rows in odd.items()})
        self._cells = Cells(
            self._gather,
            self._shapes,
            self._rows,
            self._records.shape,
            self._records.begin,
            columns,
            packed,
        )
        first = np.cumsum(self._counts) - self._counts
        for index, rows in odd.items():
            for number, row in enumerate(rows):
                self._cells.put_row(int(first[index]) + number, row)
        self._put_bodies(self._cells.wanted - _SHALLOW)

    def _make_room(self, odd: Mapping[int, int]) -> None:
        """Reserve rows for the records of odd batches; they begin at 0 and have the first shape."""
        records, counts = self._records, self._counts
        before = np.cumsum(counts) - counts
        for index, rows in odd.items():
            counts[index] = rows
        places = np.arange(len(records.batch))
        places += (np.cumsum(counts) - counts - before)[records.batch]
        columns = [np.zeros(int(counts.sum()), column.dtype) for column in records]
        for column, values in zip(columns, records, strict=True):
            column[places] = values
        self._records = Records(*columns)
        self._rows = [places[rows] for rows in self._rows]

    def record_batch(self, node: int, segment: str | None, position: int | None) -> pa.RecordBatch:
        """Return all requested columns, in order."""
        size = len(self._records.batch)
        schema = self._table.arrow()
        own_columns: dict[str, Callable[[], pa.Array]] = {
            "node": lambda: pa.array(np.full(size, node, np.int32)),
            "segment": lambda: pa.repeat(pa.scalar(segment, pa.string()), size),
            "position": lambda: self._positions(position),
            "offset": self._offsets,
            "base_offset": lambda: pa.array(self._of_batches(self._batches.base_offset)),
            "epoch": lambda: pa.array(self._of_batches(self._batches.epoch)),
            "ts": self._times,
            "control": lambda: pa.array(self._of_batches(self._batches.attributes & CONTROL_BIT != 0)),
        }
        arrays = [
            own_columns[name]() if name in own_columns else self._cells.column(name) for name in schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _of_batches(self, values: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
        return np.repeat(values, self._counts)

    def _positions(self, position: int | None) -> pa.Array:
        if position is None:
            return pa.nulls(len(self._records.batch), pa.int64())
        return pa.array(self._of_batches(self._batches.position + position))

    def _offsets(self) -> pa.Array:
        offsets = self._of_batches(self._batches.base_offset)
        offsets += self._records.number
        return self._cells.numbers("offset", offsets, self._is_walked())

    def _times(self) -> pa.Array:
        times = self._of_batches(self._batches.base_timestamp)
        places = np.array([shape.timestamp for shape in self._shapes])
        deltas, _, _ = self._gather.varint(self._records.begin + places.take(self._records.shape))
        times += deltas
        times *= 1000
        return self._cells.numbers("ts", times, self._is_walked())

    def _is_walked(self) -> Mask | None:
        """Return a mask of the rows that the codec did not decode; None for all rows."""
        return self._records.begin > 0 if (self._records.begin == 0).any() else None

    def _put_bodies(self, wanted: frozenset[str]) -> None:
        """Decode the rows that their shape cannot decode."""
        by_codec, configs = [_NO_ROWS], [_NO_ROWS]
        for shape, rows in zip(self._shapes, self._rows, strict=True):
            if _fills(shape, wanted):
                if shape.reads is Reads.CODEC:
                    by_codec.append(rows)
                elif shape.reads is Reads.CONFIGS:
                    configs.append(rows)
        if len(configs) > 1:
            rows = np.concatenate(configs)
            by_codec.append(rows[self._put_configs(rows)])
        for row in np.concatenate(by_codec).tolist():
            self._cells.put_row(row, self._plain(row))

    def _put_configs(self, rows: Positions) -> Mask:
        values = np.array([shape.value for shape in self._shapes])
        begin = self._records.begin[rows]
        start = begin + values.take(self._records.shape[rows]) + FRAME_SIZE
        return put_configs(self._gather, self._cells, rows, start, begin + self._records.size[rows] - 1)

    def _plain(self, row: int) -> Row:
        """Decode one record with the codec."""
        records, shape = self._records, self._shapes[self._records.shape[row]]
        begin = int(records.begin[row])
        value = self._data[begin + shape.value : begin + int(records.size[row]) - 1]
        return record_row(Record(0, 0, None, value), is_control=False)


def _fills(shape: Shape, wanted: frozenset[str]) -> bool:
    """Return True if records of this shape may have values in these columns."""
    if shape.api_key < 0:
        return True
    columns = COLUMNS.get(messages.RECORDS.get(shape.api_key, ""))
    if columns is None or not wanted.isdisjoint(_OF_ALL_TYPES):
        return bool(wanted)
    return not wanted.isdisjoint((*columns, "fenced", "in_controlled_shutdown"))
