"""Shapes: records with the same lengths, counts and tags have each field at the same position.

One record per shape is parsed field by field, on behalf of thousands of others: only the bytes that determine
positions must be equal in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from quorumd.pipeline.decode.gather import WIDE, Mask, Words
from quorumd.pipeline.decode.layouts import CONFIG, ELEMENT_SIZES, LAYOUTS, SIZES, Kind, Layout, Tag
from quorumd.protocol.metadata_record import FRAME_VERSION

LONGEST: Final = 2_047
"""The largest record in bytes that may have a shape."""
FRAME_SIZE: Final = 3
"""The bytes of frame version, type and version of all known records."""
_MOST_KNOWN: Final = 4_096
_LONGEST_VARINT: Final = 5
_WORD: Final = 8


class Reads(Enum):
    """The decoder of the records of a shape."""

    PLACES = "their fields are where the shape says"
    CONFIGS = "the value is a ConfigRecord"
    CODEC = "the node's codec"
    CODEC_BY_BATCH = "the node's codec, with all records of the batch: this one may not be where it seems"


class CellPlace(NamedTuple):
    """The position of a cell relative to the record, and its number of elements."""

    start: int
    elements: int


class _NoValue(NamedTuple):
    """The position of a number, and the value that stands for null."""

    start: int
    kind: Kind
    number: int


class _WordCheck(NamedTuple):
    word: int
    mask: np.uint64
    value: np.uint64


@dataclass(slots=True)
class Shape:
    """The positions of the parts of a record of this shape, relative to the record."""

    reads: Reads
    timestamp: int = 0
    """The position of the timestamp delta, a varint."""
    offset: int = 0
    """The position of the offset delta, a varint."""
    value: int = 0
    """The position of the value."""
    api_key: int = -1
    """-1 if the value does not begin with a known frame, like `version`."""
    version: int = -1
    places: dict[str, CellPlace] = field(default_factory=dict)
    """By column."""
    constants: dict[str, int] = field(default_factory=dict)
    for_codec: Shape | None = None
    """The same shape for records with `has_odd_content`."""
    _mask: int = 0
    _value: int = 0
    _checks: tuple[_WordCheck, ...] = ()
    _texts: tuple[CellPlace, ...] = ()
    _no_values: tuple[_NoValue, ...] = ()

    def is_of(self, record: int) -> bool:
        """Return True if a record of this size, as a little-endian number, has this shape."""
        return record & self._mask == self._value

    def are_of(self, words: Words) -> Mask:
        """Return the records of this size, a row of words each, that have this shape."""
        fits = np.ones(len(words), np.bool_)
        for word, mask, value in self._checks:
            fits &= words[:, word] & mask == value
        return fits

    def has_odd_content(self, words: Words) -> Mask:
        """Return the records that the codec must decode: with bytes that may not be UTF-8, or numbers that stand
        for null."""
        odd = np.zeros(len(words), np.bool_)
        for text in self._texts:
            odd |= (words.view(np.uint8)[:, text.start : text.start + text.elements] >= WIDE).any(axis=1)
        for start, kind, number in self._no_values:
            dtype = ">i4" if kind is Kind.INT32 else "i1"
            odd |= np.ndarray((len(words),), dtype, words.data, start, words.strides[:1]) == number
        return odd


ODD_BATCH: Final = Shape(Reads.CODEC_BY_BATCH)
_known: dict[int, list[Shape]] = {}
"""By record size. A cache: it affects only the speed."""


def shape_of(record: bytes) -> Shape:
    """Return the shape of a record."""
    number = int.from_bytes(record, "little")
    same_size = _known.setdefault(len(record), [])
    for shape in same_size:
        if shape.is_of(number):
            return shape
    if sum(map(len, _known.values())) >= _MOST_KNOWN:
        _known.clear()
        same_size = _known.setdefault(len(record), [])
    shape = _Outline(record).shape()
    same_size.append(shape)
    return shape


class _UnusualError(Exception):
    """The record has no shape."""


class _Outline:
    """Parses one record, and marks the bits that determine positions."""

    def __init__(self, record: bytes) -> None:
        self._record = record
        self._at = 0
        self._end = len(record)
        self._marks = bytearray(len(record))
        self._texts: list[CellPlace] = []
        self._no_values: list[_NoValue] = []

    def shape(self) -> Shape:
        try:
            shape = self._framed()
        except _UnusualError:
            shape = Shape(Reads.CODEC_BY_BATCH)
        else:
            if shape.reads is Reads.PLACES:
                shape = self._with_places(shape)
        return self._with_marks(shape)

    def _framed(self) -> Shape:
        """Parse what surrounds the value, and the frame of the value."""
        if self._varint() < 0:
            raise _UnusualError
        # Attributes, none of which are defined.
        self._skip(1)
        timestamp, offset = self._free_varint(), self._free_varint()
        key_size = self._varint()
        if key_size > 0:
            self._skip(key_size)
        value_size, value = self._varint(), self._at
        # The codec reports null values. After the value follows the number of headers: none.
        if value_size < 0 or value + value_size + 1 != self._end:
            raise _UnusualError
        self._end -= 1
        self._marks[self._end] = 0xFF
        if self._record[self._end]:
            raise _UnusualError
        shape = Shape(Reads.CODEC, timestamp, offset, value)
        if value_size < FRAME_SIZE:
            return shape
        frame, key, version = self._byte(), self._byte(), self._byte()
        if frame != FRAME_VERSION or key >= WIDE or version >= WIDE:
            return shape
        layout = LAYOUTS.get(key)
        if (key, version) == CONFIG:
            shape.reads = Reads.CONFIGS
        elif layout is not None and version <= layout.max_version:
            shape.reads = Reads.PLACES
        shape.api_key, shape.version = key, version
        return shape

    def _with_places(self, shape: Shape) -> Shape:
        layout = LAYOUTS[shape.api_key]
        places: dict[str, CellPlace] = {}
        constants = dict(layout.constants)
        try:
            for column, kind, since in layout.fields:
                if shape.version >= since:
                    places[column] = self._field(kind)
            self._tagged_fields(layout, shape.version, places, constants)
            if self._at != self._end:
                raise _UnusualError
        except _UnusualError:
            return replace(shape, reads=Reads.CODEC)
        return replace(shape, places=places, constants=constants)

    def _with_marks(self, shape: Shape) -> Shape:
        room = bytes(-len(self._record) % _WORD)
        masks = np.frombuffer(bytes(self._marks) + room, "<u8")
        values = np.frombuffer(self._record + room, "<u8") & masks
        marked = np.flatnonzero(masks).tolist()
        checks = tuple(_WordCheck(index, masks[index], values[index]) for index in marked)
        shape = replace(
            shape,
            _mask=int.from_bytes(self._marks, "little"),
            _checks=checks,
            _texts=tuple(self._texts),
            _no_values=tuple(self._no_values),
        )
        shape._value = int.from_bytes(self._record, "little") & shape._mask
        if shape.reads is Reads.PLACES and (self._texts or self._no_values):
            shape.for_codec = replace(shape, reads=Reads.CODEC, places={}, constants={})
        return shape

    def _field(self, kind: Kind) -> CellPlace:
        if kind in SIZES:
            return CellPlace(self._skip(SIZES[kind]), SIZES[kind])
        # Untagged fields are never null.
        place = self._elements(kind)
        if place.elements < 0:
            raise _UnusualError
        return place

    def _elements(self, kind: Kind) -> CellPlace:
        """Parse a list or string: the length is one more, 0 for null."""
        count = self._uvarint() - 1
        place = CellPlace(self._skip(max(count, 0) * ELEMENT_SIZES[kind]), count)
        if kind is Kind.STRING:
            self._texts.append(place)
        return place

    def _tagged_fields(
        self, layout: Layout, version: int, places: dict[str, CellPlace], constants: dict[str, int]
    ) -> None:
        """Parse the tagged fields at the end of a body."""
        tags = {tag.number: tag for tag in layout.tags if version >= tag.since}
        constants.update((tag.column, tag.default) for tag in tags.values() if tag.default is not None)
        latest = -1
        for _ in range(self._uvarint()):
            number, size = self._uvarint(), self._uvarint()
            end = self._at + size
            # Tags ascend; the codec decides about repeated tags.
            if number <= latest:
                raise _UnusualError
            latest = number
            tag = tags.get(number)
            if tag is None:
                self._skip(size)
            else:
                self._tagged_field(tag, places)
                constants.pop(tag.column, None)
            if self._at != end:
                raise _UnusualError

    def _tagged_field(self, tag: Tag, places: dict[str, CellPlace]) -> None:
        if tag.kind is Kind.RARE:
            raise _UnusualError
        if tag.kind not in SIZES:
            place = self._elements(tag.kind)
            if place.elements >= 0:
                places[tag.column] = place
            return
        places[tag.column] = place = CellPlace(self._skip(SIZES[tag.kind]), SIZES[tag.kind])
        if tag.null is not None:
            self._no_values.append(_NoValue(place.start, tag.kind, tag.null))

    def _skip(self, size: int) -> int:
        """Skip bytes whose values may differ; return their position."""
        place = self._at
        if size > self._end - place:
            raise _UnusualError
        self._at += size
        return place

    def _byte(self) -> int:
        place = self._skip(1)
        self._marks[place] = 0xFF
        return self._record[place]

    def _uvarint(self) -> int:
        """Parse a varint of one or two bytes."""
        value = self._byte()
        if value < WIDE:
            return value
        second = self._byte()
        if second >= WIDE:
            raise _UnusualError
        return (second << 7) + value - WIDE

    def _varint(self) -> int:
        value = self._uvarint()
        return (value >> 1) ^ -(value & 1)

    def _free_varint(self) -> int:
        """Skip a varint whose value may differ, but not its length; return its position."""
        begin = self._at
        for _ in range(_LONGEST_VARINT):
            place = self._skip(1)
            self._marks[place] = WIDE
            if self._record[place] < WIDE:
                return begin
        raise _UnusualError
