"""The fields of many records of one type and version at once, by their layout.

A field of every record is read before the next field of any: where it begins differs from record to record, and is
known from the lengths before it. Tagged fields are read in lock step, the next one of every record at once.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from quorumd.pipeline.decode.cells import Cells
from quorumd.pipeline.decode.gather import Gather, Mask, Positions, joined, offsets_of, rows_with
from quorumd.pipeline.decode.layouts import ELEMENT_SIZES, SIZES, Kind, Layout, Tag

_LONGEST_BODY: Final = 1 << 15
"""Longer ones may have more elements than the codec takes; it shall say."""


_SMALL_TAG: Final = 64


class _Tagged(NamedTuple):
    """Tagged fields: of which body each is, its tag, and where its value is."""

    which: Positions
    number: npt.NDArray[np.int32]
    start: Positions
    end: Positions


class Bodies:
    """Bodies from `at` to `end`, of the records that are the given rows of a table."""

    def __init__(self, gather: Gather, cells: Cells, rows: Positions, at: Positions, end: Positions) -> None:
        self._gather = gather
        self._cells = cells
        self._rows = rows
        self._at = at
        self._end = end
        self._is_odd: Mask = end - at > _LONGEST_BODY

    def decode(self, layout: Layout, version: int) -> Mask:
        """Put the columns of this layout. Gives the records that do not fit it, whose cells mean nothing."""
        for name, number in layout.constants:
            self._cells.put(name, self._rows, number)
        for field in layout.fields:
            if version >= field.since:
                self._at = self._value(field.column, field.kind, self._rows, self._at)
        tags = {tag.number: tag for tag in layout.tags if version >= tag.since}
        for tag in tags.values():
            if tag.default is not None:
                self._cells.put(tag.column, self._rows, tag.default)
        self._tagged_fields(tags)
        self._is_odd |= self._at != self._end
        return self._is_odd

    def _value(self, column: str, kind: Kind, rows: Positions, at: Positions) -> Positions:
        """Put one field of all records, and say where it ends."""
        gather, cells = self._gather, self._cells
        end = at + SIZES.get(kind, 0)
        if kind is Kind.UUID:
            cells.put_slices(column, rows, at, 16)
        elif kind in SIZES:
            if column in cells.wanted:
                cells.put(column, rows, _numbers(gather, kind, at))
        else:
            # None of the fields that are not tagged may be null: 0.
            length, start, longer = gather.short_uvarint(at)
            self._is_odd |= length == 0
            if longer is not None:
                self._is_odd |= longer
            count = length - 1
            if kind is Kind.STRING:
                self._check_string(start, count)
            cells.put_slices(column, rows, start, count)
            end = start + count * ELEMENT_SIZES[kind]
        np.minimum(end, self._end, out=end)
        return end

    def _check_string(self, start: Positions, count: Positions) -> None:
        """Other characters than those of ASCII may be no UTF-8: the codec shall say."""
        count = np.where((count < 0) | (start + count > self._end), 0, count)
        hits = joined(self._gather, start, count) >= 0x80
        if hits.any():
            self._is_odd |= rows_with(hits, offsets_of(count.astype(np.int32)))

    def _tagged_fields(self, tags: dict[int, Tag]) -> None:
        """Read the section of tagged fields, which is the end of every body."""
        count, at, longer = self._gather.short_uvarint(self._at)
        if longer is not None:
            self._is_odd |= longer
        self._at = at
        left = np.flatnonzero((count > 0) & ~self._is_odd)
        found: list[_Tagged] = []
        latest = np.full(len(self._rows), -1, np.int32)
        while len(left):
            found.append(self._next_tagged_field(left, latest))
            left = left[np.flatnonzero((count[left] > len(found)) & ~self._is_odd[left])]
        if found:
            self._tagged_values(tags, _Tagged(*map(np.concatenate, zip(*found, strict=True))))

    def _next_tagged_field(self, which: Positions, latest: npt.NDArray[np.int32]) -> _Tagged:
        """One tagged field of each of these records; `latest` is the tag before it."""
        number, at, longer_number = self._gather.short_uvarint(self._at[which])
        size, start, longer_size = self._gather.short_uvarint(at)
        end = start + size
        limit = self._end[which]
        # Tags ascend. Which of two values of the same tag counts, the codec shall say.
        is_odd = (end > limit) | (number <= latest[which])
        latest[which] = number
        for longer in (longer_number, longer_size):
            if longer is not None:
                is_odd |= longer
        if is_odd.any():
            self._is_odd[which[is_odd]] = True
            # Whatever comes of them is not looked at; it must only be within the piece.
            np.minimum(start, limit, out=start)
            np.minimum(end, limit, out=end)
        self._at[which] = end
        return _Tagged(which, number.astype(np.int32), start, end)

    def _tagged_values(self, tags: dict[int, Tag], found: _Tagged) -> None:
        """Put tagged fields, those of one tag at a time."""
        for number in _distinct(found.number):
            tag = tags.get(number)
            if tag is None:
                continue
            chosen = np.flatnonzero(found.number == number)
            which = found.which[chosen]
            self._tagged_value(tag, which, found.start[chosen], found.end[chosen])

    def _tagged_value(self, tag: Tag, which: Positions, start: Positions, end: Positions) -> None:
        rows = self._rows[which]
        if tag.kind is Kind.RARE:
            self._is_odd[which] = True
        elif tag.kind in SIZES:
            self._is_odd[which[start + SIZES[tag.kind] != end]] = True
            if tag.column in self._cells.wanted:
                values = _numbers(self._gather, tag.kind, start)
                self._cells.put(tag.column, rows, values, True if tag.null is None else values != tag.null)
        else:
            length, first, longer = self._gather.short_uvarint(start)
            count = length - 1
            wrong = first + np.maximum(count, 0) * ELEMENT_SIZES[tag.kind] != end
            if longer is not None:
                wrong |= longer
            if wrong.any():
                self._is_odd[which[wrong]] = True
                count[wrong] = -1
            self._cells.put_slices(tag.column, rows, first, count)


def _numbers(gather: Gather, kind: Kind, at: Positions) -> Any:
    if kind is Kind.INT32:
        return gather.int32[at]
    if kind is Kind.INT64:
        return gather.int64[at]
    return gather.bytes[at].view(np.int8)


def _distinct(numbers: npt.NDArray[np.int32]) -> list[int]:
    """The tags among these; there are few, nearly all of them small."""
    small = np.bincount(np.minimum(numbers, _SMALL_TAG))
    distinct = np.flatnonzero(small[:_SMALL_TAG]).tolist()
    if len(small) > _SMALL_TAG:
        distinct += np.unique(numbers[np.flatnonzero(numbers >= _SMALL_TAG)]).tolist()
    return distinct
