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

from quorumd.pipeline.decode.gather import Counts, Gather, Positions, joined, offsets_of
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


TYPE_NAME: Final = "type_name"


class _Numbers(NamedTuple):
    values: npt.NDArray[Any]
    is_valid: npt.NDArray[np.bool_]


class _Slices(NamedTuple):
    """`counts` is -1 where the cell is null."""

    starts: Positions
    counts: Counts


class Cells:
    """The wanted columns of `rows` rows; each is null until it is put."""

    def __init__(self, gather: Gather, rows: int, wanted: Iterable[str], packed: bool) -> None:
        self.rows = rows
        self.wanted = frozenset(wanted)
        self._gather = gather
        self._packed = packed
        self._types = {column.name: column.type for column in RECORDS.columns}
        self._numbers: dict[str, _Numbers] = {}
        self._slices: dict[str, _Slices] = {}
        self._type_names = np.full(rows if TYPE_NAME in self.wanted else 0, -1, np.int8)
        self._name_numbers: dict[str, int] = {}

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
                column = _Slices(np.zeros(self.rows, np.int64), np.full(self.rows, -1, np.int32))
                self._slices[name] = column
            column.starts[rows] = start
            column.counts[rows] = count

    def clear(self, rows: Any) -> None:
        """Make all cells of these rows null again."""
        for numbers in self._numbers.values():
            numbers.is_valid[rows] = False
        for slices in self._slices.values():
            slices.counts[rows] = -1
        if TYPE_NAME in self.wanted:
            self._type_names[rows] = -1

    def put_row(self, row: int, values: Mapping[str, Any]) -> None:
        """The cells of a row of `plain`."""
        for name, value in values.items():
            kind = self._types.get(name)
            if kind in _NUMBERS:
                self.put(name, row, value)
            elif name == TYPE_NAME:
                self.put_type_name(row, value)
            elif kind in _ELEMENT_SIZES and name in self.wanted:
                encoded = _encoded(kind, value)
                place = self._gather.append(encoded)
                self.put_slices(name, row, place, len(encoded) // _ELEMENT_SIZES[kind])

    def put_type_name(self, row: int, name: str) -> None:
        """The column has few different values: it is made of their numbers."""
        if TYPE_NAME in self.wanted:
            self._type_names[row] = self._name_numbers.setdefault(name, len(self._name_numbers))

    def put_type_names(self, rows: Any, names: Mapping[int, str], types: npt.NDArray[np.uint8]) -> None:
        """The names of types, null for those without one."""
        if TYPE_NAME in self.wanted:
            numbers = np.full(256, -1, np.int8)
            for number, name in names.items():
                numbers[number] = self._name_numbers.setdefault(name, len(self._name_numbers))
            self._type_names[rows] = numbers[types]

    def column(self, name: str) -> pa.Array:
        """What was put, as the Arrow type of its column."""
        if name == TYPE_NAME:
            return self._type_name_column()
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

    def _type_name_column(self) -> pa.Array:
        numbers = pa.array(self._type_names, mask=self._type_names < 0)
        return pa.array(list(self._name_numbers), pa.string()).take(numbers)

    def _ints(self, start: Positions, count: Counts) -> pa.Array:
        offsets = offsets_of(count)
        values = self._values(start, count, 4).view(">i4").astype("<i4")
        if self._packed:
            return _sized(pa.binary(), offsets * 4, pa.py_buffer(values), count)
        return _list(arrow_type(INTS), offsets, pa.array(values.astype(np.int32, copy=False)), count)

    def _uuids(self, start: Positions, count: Counts) -> pa.Array:
        offsets = offsets_of(count)
        values = self._values(start, count, _UUID_BYTES)
        ends = np.arange(offsets[-1] + 1, dtype=np.int32) * _UUID_BYTES
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(values)]
        uuids = pa.Array.from_buffers(pa.binary(), int(offsets[-1]), buffers)
        return _list(arrow_type(_UUIDS), offsets, uuids, count)

    def _bytes(self, kind: pa.DataType, start: Positions, count: Counts) -> pa.Array:
        rows = np.flatnonzero(count >= 0)
        if (count[rows] == _UUID_BYTES).all():
            # Nearly always: a column of topic ids.
            values = pa.py_buffer(self._gather.uuid[start[rows]].tobytes())
        else:
            values = pa.py_buffer(self._values(start, count, 1))
        return _sized(kind, offsets_of(count), values, count)

    def _values(self, start: Positions, count: Counts, size: int) -> npt.NDArray[np.uint8]:
        # Most cells of most columns are null or empty.
        rows = np.flatnonzero(count > 0)
        return joined(self._gather, start[rows], count[rows].astype(np.int64) * size)


def _encoded(kind: str, value: Any) -> bytes:
    if kind == INTS:
        return np.array(value, ">i4").tobytes()
    if kind == _UUIDS:
        return b"".join(value)
    return value.encode() if isinstance(value, str) else bytes(value)


def _type_of(table: Table, name: str) -> pa.DataType:
    return next(arrow_type(column.type) for column in table.columns if column.name == name)


def _validity(is_valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    if is_valid.all():
        return None
    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))


def _number_array(kind: str, values: npt.NDArray[Any], is_valid: npt.NDArray[np.bool_]) -> pa.Array:
    buffers = [_validity(is_valid), pa.py_buffer(values)]
    return pa.Array.from_buffers(arrow_type(kind), len(values), buffers)


def _sized(kind: pa.DataType, offsets: Counts, values: pa.Buffer, count: Counts) -> pa.Array:
    buffers = [_validity(count >= 0), pa.py_buffer(offsets), values]
    return pa.Array.from_buffers(kind, len(count), buffers)


def _list(kind: pa.DataType, offsets: Counts, values: pa.Array, count: Counts) -> pa.Array:
    buffers = [_validity(count >= 0), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(count), buffers, children=[values])
