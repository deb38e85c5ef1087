"""Builds Arrow columns from the shapes of records and from rows that were decoded singly.

Numbers are copied directly. Values with a length (lists, strings, bytes) are copied once, from their position in
the buffer. Values that are not in the piece (JSON, texts of faults) are appended to the same buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorumd.pipeline.decode.gather import Gather, Mask, Positions, joined
from quorumd.pipeline.decode.shapes import CellPlace, Shape
from quorumd.pipeline.tables.schemas import INTS, RECORDS, Table, arrow_type
from quorumd.protocol import messages

_UUID_BYTES: Final = 16
_NUMBERS: Final[dict[str, type[np.integer]]] = {
    "BIGINT": np.int64,
    "INT": np.int32,
    "SMALLINT": np.int16,
    "TINYINT": np.int8,
    "TIMESTAMP": np.int64,
}
_UUIDS: Final = "ARRAY<BINARY>"
_ELEMENT_SIZES: Final = {INTS: 4, _UUIDS: _UUID_BYTES, "STRING": 1, "BINARY": 1}

TYPE_NAME: Final = "type_name"
_SPARSE: Final = 6
"""Below one in this many rows, sorting the rows is faster than a mask over all of them."""
_NO_ROWS: Final = np.empty(0, np.int64)
_NO_PLACE: Final = CellPlace(0, -1)
_Extra = tuple[list[int], list[Any]]
"""Rows and their values."""


class _Slices(NamedTuple):
    """Cells with a length that are not null: ascending rows, start positions and numbers of elements."""

    rows: Positions
    start: Positions
    elements: Positions


class Cells:
    """The requested columns of rows, each with a shape and the position of its record; see `shapes`.

    `rows` are the rows per shape, `shape` is the index of the shape per row.
    """

    def __init__(
        self,
        gather: Gather,
        shapes: Sequence[Shape],
        rows: Sequence[Positions],
        shape: Positions,
        begin: Positions,
        wanted: Iterable[str],
        packed: bool,
    ) -> None:
        self.wanted = frozenset(wanted)
        self._gather = gather
        self._shapes = shapes
        self._rows = rows
        self._shape = shape
        self._begin = begin
        self._packed = packed
        self._types = {column.name: column.type for column in RECORDS.columns}
        self._extra: dict[str, _Extra] = {}
        self._slices: dict[str, _Slices] = {}

    def put_slices(self, name: str, rows: Positions, start: Positions, count: Positions) -> None:
        """Set lists, strings or bytes of some rows by position and number of elements; at most once per column."""
        self._slices[name] = _Slices(rows, start, count)

    def put_row(self, row: int, values: Mapping[str, object]) -> None:
        """Set the cells of a row decoded by `plain`; they take precedence over the cells of its shape."""
        for name, value in values.items():
            if name in self.wanted:
                rows, put = self._extra.setdefault(name, ([], []))
                rows.append(row)
                put.append(value)

    def column(self, name: str) -> pa.Array:
        """Return all cells of a column as its Arrow type."""
        kind = self._types[name]
        if name == TYPE_NAME:
            return self._type_names()
        if kind in _NUMBERS:
            return self._of_numbers(name, kind)
        return self._of_slices(name, kind)

    def numbers(self, name: str, values: npt.NDArray[np.integer], is_valid: Mask | None) -> pa.Array:
        """Return a column of these numbers with the rows of `put_row`; `is_valid` is None if all are valid."""
        rows, put = self._extra.get(name, ([], []))
        if rows:
            values[rows] = put
            if is_valid is not None:
                is_valid[rows] = True
        return _number_array(self._types[name], values, is_valid)

    def _of_numbers(self, name: str, kind: str) -> pa.Array:
        dtype = _NUMBERS[kind]
        constants = [_constant(shape, name) for shape in self._shapes]
        has_constant = [constant is not None for constant in constants]
        has_place = [name in shape.places for shape in self._shapes]
        if not (any(has_constant) or any(has_place) or name in self._extra):
            return pa.nulls(len(self._shape), arrow_type(kind))
        if any(has_constant):
            numbers: npt.NDArray[np.integer] = np.array([constant or 0 for constant in constants], dtype)
            values, is_valid = numbers.take(self._shape), np.array(has_constant).take(self._shape)
        else:
            values, is_valid = np.zeros(len(self._shape), dtype), np.zeros(len(self._shape), np.bool_)
        if any(has_place):
            rows = self._rows_of(has_place)
            places = np.array([shape.places.get(name, _NO_PLACE).start for shape in self._shapes])
            at = self._begin[rows]
            at += places.take(self._shape[rows])
            values[rows] = self._view(dtype)[at]
            is_valid[rows] = True
        return self.numbers(name, values, is_valid)

    def _rows_of(self, shapes: Sequence[bool]) -> Positions:
        """Return the rows of these shapes, ascending."""
        parts = [rows for rows, is_wanted in zip(self._rows, shapes, strict=True) if is_wanted]
        if len(parts) == 1:
            return parts[0]
        if sum(map(len, parts)) * _SPARSE > len(self._shape):
            return np.flatnonzero(np.array(shapes).take(self._shape))
        return np.sort(np.concatenate(parts))

    def _view(self, dtype: type[np.integer]) -> npt.NDArray[np.integer]:
        if dtype is np.int8:
            return self._gather.bytes.view(np.int8)
        return self._gather.int32 if dtype is np.int32 else self._gather.int64

    def _type_names(self) -> pa.Array:
        extra_rows, extra = self._extra.get(TYPE_NAME, ([], []))
        names = sorted({*messages.RECORDS.values(), *extra})
        numbers = {name: number for number, name in enumerate(names)}
        of_shapes = [numbers.get(messages.RECORDS.get(shape.api_key, ""), -1) for shape in self._shapes]
        chosen = np.array(of_shapes, np.int32).take(self._shape)
        chosen[extra_rows] = [numbers[name] for name in extra]
        return pa.array(names, pa.string()).take(pa.array(chosen, mask=chosen < 0))

    def _of_slices(self, name: str, kind: str) -> pa.Array:
        slices = self._places_of(name, kind)
        if not len(slices.rows):
            table = RECORDS.packed() if self._packed else RECORDS
            return pa.nulls(len(self._shape), _type_of(table, name))
        if kind == INTS:
            return self._ints(slices)
        if kind == _UUIDS:
            return self._uuids(slices)
        return self._bytes(arrow_type(kind), slices)

    def _places_of(self, name: str, kind: str) -> _Slices:
        found = [slices] if (slices := self._slices.get(name)) is not None else []
        has_place = [name in shape.places for shape in self._shapes]
        if any(has_place):
            rows = self._rows_of(has_place)
            places = np.array([shape.places.get(name, _NO_PLACE) for shape in self._shapes])
            shape = self._shape[rows]
            start = self._begin[rows]
            start += places[:, 0].take(shape)
            found.append(_Slices(rows, start, places[:, 1].take(shape)))
        if name in self._extra:
            extra_rows, put = self._extra[name]
            encoded = [_encoded(kind, value) for value in put]
            start = np.array([self._gather.append(each) for each in encoded])
            count = np.array([len(each) // _ELEMENT_SIZES[kind] for each in encoded])
            found.append(_Slices(np.array(extra_rows), start, count))
        if len(found) == 1 and any(has_place):
            return found[0]
        whole = [np.concatenate([_NO_ROWS, *parts]) for parts in zip(*found, strict=True)] or [_NO_ROWS] * 3
        order = np.argsort(whole[0], kind="stable")
        return _Slices(*(column[order] for column in whole))

    def _ints(self, slices: _Slices) -> pa.Array:
        values = self._gather.int32[_elements(slices, 4)].astype(np.int32)
        if self._packed:
            return self._sized(pa.binary(), slices, pa.py_buffer(values), 4)
        return self._list(arrow_type(INTS), slices, pa.array(values))

    def _uuids(self, slices: _Slices) -> pa.Array:
        values = self._gather.uuid[_elements(slices, _UUID_BYTES)]
        ends = np.arange(0, values.nbytes + 1, _UUID_BYTES, dtype=np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(values.view(np.uint8))]
        uuids = pa.Array.from_buffers(pa.binary(), len(values), buffers)
        return self._list(arrow_type(_UUIDS), slices, uuids)

    def _bytes(self, kind: pa.DataType, slices: _Slices) -> pa.Array:
        if (slices.elements == _UUID_BYTES).all():
            # The usual case: a column of topic ids.
            values = self._gather.uuid[slices.start].view(np.uint8)
        else:
            values = joined(self._gather, slices.start, slices.elements)
        return self._sized(kind, slices, pa.py_buffer(values))

    def _sized(self, kind: pa.DataType, slices: _Slices, values: pa.Buffer, size: int = 1) -> pa.Array:
        return pa.Array.from_buffers(kind, len(self._shape), [*self._bounds(slices, size), values])

    def _list(self, kind: pa.DataType, slices: _Slices, values: pa.Array) -> pa.Array:
        return pa.Array.from_buffers(kind, len(self._shape), self._bounds(slices, 1), children=[values])

    def _bounds(self, slices: _Slices, size: int) -> list[pa.Buffer | None]:
        """Return the validity bitmap and the offsets of the cells in all elements."""
        rows = len(self._shape)
        offsets = np.zeros(rows + 1, np.int32)
        if len(slices.rows) * _SPARSE > rows:
            offsets[1:][slices.rows] = slices.elements * size
            np.cumsum(offsets, out=offsets)
        elif len(slices.rows):
            ends = np.cumsum(slices.elements * size)
            offsets[slices.rows[0] + 1 :] = np.repeat(ends, np.diff(slices.rows, append=rows))
        if len(slices.rows) == rows:
            return [None, pa.py_buffer(offsets)]
        is_valid = np.zeros(rows, np.bool_)
        is_valid[slices.rows] = True
        return [_validity(is_valid), pa.py_buffer(offsets)]


def _elements(slices: _Slices, size: int) -> Positions:
    """Return the position of each element of all cells."""
    start, elements = slices.start, slices.elements
    if not elements.all():
        start, elements = start[elements > 0], elements[elements > 0]
    # The step from element to element is `size`, except for the first one of a cell.
    steps = np.full(int(elements.sum()), size)
    steps[:1] = start[:1]
    steps[np.cumsum(elements)[:-1]] = np.diff(start) - (elements[:-1] - 1) * size
    return np.cumsum(steps)


def _constant(shape: Shape, name: str) -> int | None:
    if name == "type":
        return shape.api_key if shape.api_key >= 0 else None
    if name == "version":
        return shape.version if shape.version >= 0 else None
    return shape.constants.get(name)


def _encoded(kind: str, value: Any) -> bytes:
    if kind == INTS:
        return np.array(value, ">i4").tobytes()
    if kind == _UUIDS:
        return b"".join(value)
    return value.encode() if isinstance(value, str) else bytes(value)


def _type_of(table: Table, name: str) -> pa.DataType:
    return next(arrow_type(column.type) for column in table.columns if column.name == name)


def _validity(is_valid: Mask) -> pa.Buffer | None:
    if is_valid.all():
        return None
    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))


def _number_array(kind: str, values: npt.NDArray[np.integer], is_valid: Mask | None) -> pa.Array:
    buffers = [None if is_valid is None else _validity(is_valid), pa.py_buffer(values)]
    return pa.Array.from_buffers(arrow_type(kind), len(values), buffers)
