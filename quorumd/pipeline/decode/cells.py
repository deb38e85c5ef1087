"""The cells of a table while it is filled, and the Arrow columns made of them.

Numbers are kept as they are. What has a length (lists, strings, bytes) is kept as where it begins in the buffer and
how many elements it has: it is copied once, when the column is made. What stands in no piece (JSON, texts of faults)
goes behind the piece, into the same buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorumd.pipeline.decode.gather import Gather, Positions
from quorumd.pipeline.scan import Data
from quorumd.pipeline.schemas import INTS, RECORDS, Table, arrow_type

_UUID_BYTES: Final = 16
_NUMBERS: Final[dict[str, type]] = {
    "BIGINT": np.int64,
    "INT": np.int32,
    "SMALLINT": np.int16,
    "TINYINT": np.int8,
    "TIMESTAMP": np.int64,
}
_UUIDS: Final = "ARRAY<BINARY>"
_ELEMENT_SIZES: Final = {INTS: 4, _UUIDS: _UUID_BYTES, "STRING": 1, "BINARY": 1}


class _Numbers(NamedTuple):
    values: npt.NDArray[Any]
    is_valid: npt.NDArray[np.bool_]


class _Slices(NamedTuple):
    """`counts` is -1 where the cell is null."""

    starts: Positions
    counts: Positions


class Cells:
    """The wanted columns of `rows` rows; each is null until it is put."""

    def __init__(self, data: Data, gather: Gather, rows: int, wanted: Iterable[str], packed: bool) -> None:
        self.rows = rows
        self.wanted = frozenset(wanted)
        self._data = data
        self._gather = gather
        self._packed = packed
        self._types = {column.name: column.type for column in RECORDS.columns}
        self._numbers: dict[str, _Numbers] = {}
        self._slices: dict[str, _Slices] = {}
        self._extra = bytearray()

    def put(self, name: str, rows: Any, values: Any, is_valid: Any = True) -> None:
        """Numbers of some rows; nothing is done for a column that is not wanted."""
        if name in self.wanted:
            column = self._numbers.get(name)
            if column is None:
                kind = _NUMBERS[self._types[name]]
                column = _Numbers(np.zeros(self.rows, kind), np.zeros(self.rows, np.bool_))
                self._numbers[name] = column
            column.values[rows] = values
            column.is_valid[rows] = is_valid

    def put_slices(self, name: str, rows: Any, start: Any, count: Any) -> None:
        """Lists, strings or bytes of some rows: where they begin, and how many elements; -1 for null."""
        if name in self.wanted:
            column = self._slices.get(name)
            if column is None:
                column = _Slices(np.zeros(self.rows, np.int64), np.full(self.rows, -1, np.int64))
                self._slices[name] = column
            column.starts[rows] = start
            column.counts[rows] = count

    def put_text(self, name: str, rows: Any, text: str) -> None:
        """The same string for all these rows."""
        if name in self.wanted:
            encoded = text.encode()
            self.put_slices(name, rows, len(self._data) + len(self._extra), len(encoded))
            self._extra += encoded

    def clear(self, rows: Any) -> None:
        """Make all cells of these rows null again."""
        for numbers in self._numbers.values():
            numbers.is_valid[rows] = False
        for slices in self._slices.values():
            slices.counts[rows] = -1

    def put_row(self, row: int, values: Mapping[str, Any]) -> None:
        """The cells of a row of `plain`."""
        for name, value in values.items():
            if name not in self.wanted or name not in self._types:
                continue
            kind = self._types[name]
            if kind in _NUMBERS:
                self.put(name, row, value)
            elif kind in _ELEMENT_SIZES:
                encoded = _encoded(kind, value)
                start = len(self._data) + len(self._extra)
                self.put_slices(name, row, start, len(encoded) // _ELEMENT_SIZES[kind])
                self._extra += encoded

    def column(self, name: str) -> pa.Array:
        """What was put, as the Arrow type of its column."""
        if self._extra:
            self._gather = Gather(self._data, bytes(self._extra))
            self._extra, self._data = bytearray(), b""
        kind = self._types[name]
        if kind in _NUMBERS:
            numbers = self._numbers.get(name)
            return pa.nulls(self.rows, arrow_type(kind)) if numbers is None else _number_array(kind, *numbers)
        slices = self._slices.get(name)
        if slices is None:
            table = RECORDS.packed() if self._packed else RECORDS
            return pa.nulls(self.rows, _type_of(table, name))
        if kind == INTS:
            return self._ints(*slices)
        if kind == _UUIDS:
            return self._uuids(*slices)
        return self._bytes(arrow_type(kind), *slices)

    def _ints(self, start: Positions, count: Positions) -> pa.Array:
        offsets, places = _elements(start, count, 4)
        values = self._gather.int32[places].astype("<i4")
        if self._packed:
            return _sized(pa.binary(), offsets * 4, pa.py_buffer(values), count)
        return _list(arrow_type(INTS), offsets, pa.array(values.astype(np.int32, copy=False)), count)

    def _uuids(self, start: Positions, count: Positions) -> pa.Array:
        offsets, places = _elements(start, count, _UUID_BYTES)
        uuids = self._gather.uuid[places]
        ends = np.arange(len(places) + 1, dtype=np.int32) * _UUID_BYTES
        values = pa.Array.from_buffers(
            pa.binary(), len(places), [None, pa.py_buffer(ends), pa.py_buffer(uuids.tobytes())]
        )
        return _list(arrow_type(_UUIDS), offsets, values, count)

    def _bytes(self, kind: pa.DataType, start: Positions, count: Positions) -> pa.Array:
        is_there = count >= 0
        if (count[is_there] == _UUID_BYTES).all():
            # Nearly always: a column of topic ids.
            offsets = np.concatenate(([0], np.cumsum(is_there))) * _UUID_BYTES
            return _sized(kind, offsets, pa.py_buffer(self._gather.uuid[start[is_there]].tobytes()), count)
        offsets, places = _elements(start, count, 1)
        return _sized(kind, offsets, pa.py_buffer(self._gather.bytes[places]), count)


def _encoded(kind: str, value: Any) -> bytes:
    if kind == INTS:
        return np.array(value, ">i4").tobytes()
    if kind == _UUIDS:
        return b"".join(value)
    return value.encode() if isinstance(value, str) else bytes(value)


def _type_of(table: Table, name: str) -> pa.DataType:
    return next(arrow_type(column.type) for column in table.columns if column.name == name)


def _elements(start: Positions, count: Positions, size: int) -> tuple[Positions, Positions]:
    """Offsets of the lists in their elements, and where each element is."""
    counts = np.maximum(count, 0)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    places = np.repeat(start - offsets[:-1] * size, counts)
    places += np.arange(offsets[-1]) * size
    return offsets, places


def _validity(is_valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    if is_valid.all():
        return None
    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))


def _number_array(kind: str, values: npt.NDArray[Any], is_valid: npt.NDArray[np.bool_]) -> pa.Array:
    buffers = [_validity(is_valid), pa.py_buffer(values)]
    return pa.Array.from_buffers(arrow_type(kind), len(values), buffers)


def _sized(kind: pa.DataType, offsets: Positions, values: pa.Buffer, count: Positions) -> pa.Array:
    buffers = [_validity(count >= 0), pa.py_buffer(offsets.astype(np.int32)), values]
    return pa.Array.from_buffers(kind, len(count), buffers)


def _list(kind: pa.DataType, offsets: Positions, values: pa.Array, count: Positions) -> pa.Array:
    buffers = [_validity(count >= 0), pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(kind, len(count), buffers, children=[values])
