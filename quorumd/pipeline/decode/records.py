"""decode_records: batches of a piece as one Arrow batch of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from quorumd.pipeline.decode import configs
from quorumd.pipeline.decode.bodies import Bodies
from quorumd.pipeline.decode.cells import TYPE_NAME, Cells
from quorumd.pipeline.decode.configs import put_configs
from quorumd.pipeline.decode.gather import Gather, Mask, Positions
from quorumd.pipeline.decode.layouts import LAYOUTS
from quorumd.pipeline.decode.plain import COLUMNS, LATEST_MS, Row, batch_rows, record_row
from quorumd.pipeline.decode.record_walk import Records, walk
from quorumd.pipeline.scan import Batches, Data, Fault
from quorumd.pipeline.schemas import RECORDS, Table
from quorumd.protocol import messages
from quorumd.protocol.metadata_record import FRAME_VERSION
from quorumd.protocol.record_batch import CONTROL_BIT, Record

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
"""Columns for which no body has to be looked at."""
_NO_KIND: Final = 1 << 14
"""Larger than any type and version in seven bits each."""
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
    """The records of these batches of a piece, in their order, as columns of schemas.RECORDS.

    Batches whose CRC does not match have no rows. `segment` and `position`, which is that of the piece in its file,
    are None for what was read live. Only what `columns` needs is decoded, so that records that cannot be read are
    told apart only where `fault` is asked for. With `packed` lists of ids are BINARY (schemas.PACKED). Never raises
    for what the bytes are; KeyError for a column that there is not.
    """
    if not batches.sound.all():
        batches = batches.select(batches.sound)
    return _Decoding(data, batches, columns, packed).record_batch(node, segment, position)


def records_table(columns: Sequence[str] = RECORDS.names, packed: bool = False) -> Table:
    """What decode_records gives for these columns."""
    table = RECORDS.packed() if packed else RECORDS
    return table.select(tuple(columns))


def fault_rows(
    faults: Sequence[Fault],
    node: int,
    segment: str | None,
    columns: Sequence[str] = RECORDS.names,
    packed: bool = False,
) -> pa.RecordBatch:
    """A row for each damaged place that a scan found, in the columns of decode_records."""
    rows = [
        {
            "node": node,
            "segment": segment,
            "position": fault.position,
            "offset": fault.offset if fault.offset >= 0 else None,
            "fault": f"{fault.code}: {fault.text}",
        }
        for fault in faults
    ]
    return pa.RecordBatch.from_pylist(rows, records_table(columns, packed).arrow())


def with_faults(
    rows: pa.RecordBatch, faults: Sequence[Fault], node: int, segment: str | None
) -> pa.RecordBatch:
    """Rows that have a `position`, and among them one for each fault: before the records of the batch it is about."""
    if not faults:
        return rows
    packed = rows.schema == records_table(rows.schema.names, packed=True).arrow()
    table = pa.Table.from_batches([fault_rows(faults, node, segment, rows.schema.names, packed), rows])
    order = np.argsort(table.column("position").to_numpy(), kind="stable")
    return table.take(pa.array(order)).combine_chunks().to_batches()[0]


def bad_records(rows: pa.RecordBatch) -> list[Fault]:
    """What could not be read in these rows, which have `position`, `offset` and `fault`."""
    faulty = rows.filter(rows.column("fault").is_valid()).select(["position", "offset", "fault"])
    found = []
    for row in faulty.to_pylist():
        code, _, text = row["fault"].partition(": ")
        found.append(Fault(code, row["position"], row["offset"], text))
    return found


class _Decoding:
    """The decoding of one piece."""

    def __init__(self, data: Data, batches: Batches, columns: Sequence[str], packed: bool) -> None:
        self._table = records_table(columns, packed)
        self._data = data if isinstance(data, bytes) else bytes(data)
        self._batches = batches
        self._gather = Gather(data)
        self._records, usual = walk(self._gather, self._data, batches)
        odd = {
            index: list(batch_rows(self._data, batches, index)) for index in np.flatnonzero(~usual).tolist()
        }
        self._place_rows(odd)
        self._cells = Cells(self._gather, len(self._batch), columns, packed)
        self._put_records()
        for index, rows in odd.items():
            for number, row in enumerate(rows):
                self._cells.put_row(int(self._first_rows[index]) + number, row)

    def _place_rows(self, odd: dict[int, list[Row]]) -> None:
        """Which rows each batch has: `_rows` of the records that were walked, `_batch` of every row."""
        batch = self._records.batch
        if not odd:
            self._batch = batch
            self._rows: Positions = np.arange(len(batch))
            return
        counts = np.bincount(batch, minlength=len(self._batches))
        before = np.cumsum(counts) - counts
        for index, rows in odd.items():
            counts[index] = len(rows)
        self._first_rows = np.cumsum(counts) - counts
        self._batch = np.repeat(np.arange(len(counts)), counts)
        self._rows = np.arange(len(batch)) + (self._first_rows - before)[batch]

    def record_batch(self, node: int, segment: str | None, position: int | None) -> pa.RecordBatch:
        """All columns, in the order in which they were asked for."""
        size = len(self._batch)
        schema = self._table.arrow()
        batch_columns: dict[str, Callable[[], pa.Array]] = {
            "node": lambda: pa.array(np.full(size, node, np.int32)),
            "segment": lambda: pa.repeat(pa.scalar(segment, pa.string()), size),
            "position": lambda: self._positions(position),
            "base_offset": lambda: pa.array(self._batches.base_offset[self._batch]),
            "epoch": lambda: pa.array(self._batches.epoch[self._batch]),
            "control": lambda: pa.array((self._batches.attributes & CONTROL_BIT != 0)[self._batch]),
        }
        arrays = [
            batch_columns[name]() if name in batch_columns else self._cells.column(name)
            for name in schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _positions(self, position: int | None) -> pa.Array:
        if position is None:
            return pa.nulls(len(self._batch), pa.int64())
        return pa.array(self._batches.position[self._batch] + position)

    def _put_records(self) -> None:
        records, cells, rows = self._records, self._cells, self._rows
        # Scattering costs ten times what copying does.
        every: Any = slice(None) if cells.rows == len(rows) else rows
        in_range = np.abs(records.timestamp_ms) <= LATEST_MS
        times = (
            np.where(in_range, records.timestamp_ms, 0) * 1000
            if not in_range.all()
            else records.timestamp_ms * 1000
        )
        cells.put("offset", every, records.offset)
        cells.put("ts", every, times, in_range)
        deep = cells.wanted - _SHALLOW
        if not deep and cells.wanted.isdisjoint(("type", TYPE_NAME, "version")):
            return
        frame, key, version = (self._gather.bytes[records.value + byte] for byte in range(3))
        is_control = (self._batches.attributes & CONTROL_BIT != 0)[records.batch]
        # A frame of three bytes, as all records that are known have it.
        is_odd = is_control | (frame != FRAME_VERSION) | (key >= 0x80) | (version >= 0x80)
        is_odd |= records.end - records.value < 3
        cells.put("type", every, key)
        cells.put("version", every, version)
        cells.put_type_names(every, messages.RECORDS, key)
        self._put_bodies(key, version, is_odd, deep)
        odd = np.flatnonzero(is_odd)
        cells.clear(rows[odd])
        cells.put("offset", rows[odd], records.offset[odd])
        cells.put("ts", rows[odd], times[odd], in_range[odd])
        for index in odd.tolist():
            cells.put_row(int(rows[index]), self._plain(records, index, bool(is_control[index])))

    def _put_bodies(self, key: Any, version: Any, is_odd: Mask, wanted: frozenset[str]) -> None:
        """Put the columns of the bodies; marks the records that `plain` has to decode as odd."""
        kinds = key.astype(np.uint16) << 7 | version
        kinds[is_odd] = _NO_KIND
        for kind in np.flatnonzero(np.bincount(kinds, minlength=_NO_KIND)[:_NO_KIND]).tolist():
            api_key, of_version = kind >> 7, kind & 0x7F
            if not _fills(api_key, wanted):
                continue
            chosen = np.flatnonzero(kinds == kind)
            start, end = self._records.value[chosen] + 3, self._records.end[chosen]
            if (api_key, of_version) == (configs.TYPE, configs.VERSION):
                is_odd[chosen] = put_configs(self._gather, self._cells, self._rows[chosen], start, end)
                continue
            layout = LAYOUTS.get(api_key)
            if layout is None or of_version > layout.max_version:
                is_odd[chosen] = True
                continue
            bodies = Bodies(self._gather, self._cells, self._rows[chosen], start, end)
            is_odd[chosen] = bodies.decode(layout, of_version)

    def _plain(self, records: Records, index: int, is_control: bool) -> Row:
        """What the codec says of one record."""
        key_start, key_size = int(records.key[index]), int(records.key_size[index])
        key = self._data[key_start : key_start + key_size] if key_size >= 0 else None
        value = self._data[records.value[index] : records.end[index]]
        return record_row(Record(int(records.offset[index]), 0, key, value), is_control)


def _fills(api_key: int, wanted: frozenset[str]) -> bool:
    """Whether records of this type say anything in these columns."""
    if not wanted:
        return False
    columns = COLUMNS.get(messages.RECORDS.get(api_key, ""))
    if columns is None or not wanted.isdisjoint(_OF_ALL_TYPES):
        return True
    return not wanted.isdisjoint((*columns, "fenced", "in_controlled_shutdown"))
