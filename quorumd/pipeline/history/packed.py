"""Lists of ids as Arrow binaries, 4 bytes little-endian per id: lengths, differences and membership."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ID_BYTES = 4
_PORTION = 1 << 14
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PackedLists:
    """A column of packed lists, accessed by row number; null counts as an empty list."""

    column: pa.BinaryArray
    """The lists, without nulls."""
    starts: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]
    """The number of ids per list."""
    ids: npt.NDArray[np.int32]

    @classmethod
    def of(cls, column: pa.BinaryArray) -> PackedLists:
        """Wrap an array whose nulls have no bytes."""
        _, offset_buffer, data = column.buffers()
        data = pa.py_buffer(b"") if data is None else data
        offsets = np.frombuffer(offset_buffer, np.int32)[column.offset : column.offset + len(column) + 1]
        ends = offsets // ID_BYTES
        buffers = [None, pa.py_buffer(offsets), data]
        without_nulls = pa.Array.from_buffers(pa.binary(), len(column), buffers)
        return cls(without_nulls, ends[:-1], np.diff(ends), np.frombuffer(data, np.int32))

    def take(self, rows: Ints) -> pa.BinaryArray:
        """Return the lists of these rows."""
        return self.column.take(pa.array(rows))

    def differ(self, some: Ints, others: Ints) -> Flags:
        """Return True where the list in the row of `some` differs from the list in the row of `others`."""
        lengths = self.lengths[some]
        different = lengths != self.lengths[others]
        for place in range(int(lengths.max(initial=0))):
            there = ~different & (lengths > place)
            different[there] = (
                self.ids[self.starts[some[there]] + place] != self.ids[self.starts[others[there]] + place]
            )
        return np.asarray(different)

    def exchanged(self, before: Ints, after: Ints) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Compare the lists of the rows `before` and `after`: return the numbers of removed and of added ids."""
        shared = self.shared(before, self, after)
        lost = self.lengths[before] - shared
        return lost.astype(np.int32), (self.lengths[after] - shared).astype(np.int32)

    def shared(self, rows: Ints, others: PackedLists, other_rows: Ints) -> npt.NDArray[np.int32]:
        """Return the number of ids that two lists have in common. A list never has an id twice."""
        shared = np.zeros(len(rows), np.int32)
        # In portions, so that a few long lists do not widen all rows.
        for start in range(0, len(rows), _PORTION):
            portion = slice(start, start + _PORTION)
            these = others._places(other_rows[portion], -2)
            for place in self._places(rows[portion], -1):
                for other in these:
                    shared[portion] += place == other
        return shared

    def _places(self, rows: Ints, padding: int) -> list[npt.NDArray[np.int32]]:
        """Return arrays of the first ids of the lists, the second ids and so on, with `padding` after the end of a
        list."""
        lengths, starts = self.lengths[rows], self.starts[rows]
        found = []
        for place in range(int(lengths.max(initial=0))):
            ids = self.ids.take(starts + place, mode="clip")
            ids[lengths <= place] = padding
            found.append(ids)
        return found

    def contain(self, rows: Ints, wanted: npt.NDArray[np.int32]) -> Flags:
        """Return True where the list in a row contains the id in `wanted`."""
        found = np.zeros(len(rows), np.bool_)
        lengths = self.lengths[rows]
        for place in range(int(lengths.max(initial=0))):
            there = np.nonzero(lengths > place)[0]
            found[there] |= self.ids[self.starts[rows[there]] + place] == wanted[there]
        return found


def pack(lists: pa.ListArray | pa.ChunkedArray) -> pa.BinaryArray:
    """Convert a column of `list<int32>` to packed lists without copying ids."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    offsets = np.frombuffer(lists.buffers()[1], np.int32)[lists.offset : lists.offset + len(lists) + 1]
    packed_offsets = pa.py_buffer((offsets * ID_BYTES).astype(np.int32))
    values = lists.values.buffers()[1]
    if lists.values.offset:
        values = values.slice(lists.values.offset * ID_BYTES)
    return pa.Array.from_buffers(pa.binary(), len(lists), [_validity(lists), packed_offsets, values])


def unpack(column: pa.BinaryArray | pa.ChunkedArray) -> pa.ListArray:
    """Convert packed lists to a column of `list<int32>` without copying ids."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[column.offset : column.offset + len(column) + 1]
    count = 0 if data is None else data.size // ID_BYTES
    values = pa.Array.from_buffers(pa.int32(), count, [None, data if data is not None else pa.py_buffer(b"")])
    list_type = pa.list_(pa.field("element", pa.int32()))
    list_offsets = pa.py_buffer((offsets // ID_BYTES).astype(np.int32))
    return pa.Array.from_buffers(list_type, len(column), [_validity(column), list_offsets], children=[values])


def _validity(column: pa.Array) -> pa.Buffer | None:
    """Return the validity bitmap, shifted to the first element of the column; None without nulls."""
    if column.null_count == 0:
        return None
    return pa.array(column.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]
