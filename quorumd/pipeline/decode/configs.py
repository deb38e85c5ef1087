"""Decodes ConfigRecords, which are frequent and have no separate columns, to JSON, many at a time."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.pipeline.decode.cells import Cells
from quorumd.pipeline.decode.gather import Counts, Gather, Mask, Positions, joined, offsets_of, rows_with

_LONGEST_BODY: Final = 1 << 15
"""Longer bodies may have strings longer than the codec accepts."""


def put_configs(gather: Gather, cells: Cells, rows: Positions, at: Positions, end: Positions) -> Mask:
    """Set `data` of rows whose bodies are between `at` and `end`. Return the rows that the codec must decode."""
    is_odd = end - at > _LONGEST_BODY
    types = gather.bytes[at].view(np.int8)
    starts, counts = [], []
    place = at + 1
    for nullable in (False, False, True):
        length, start, longer = gather.short_uvarint(place)
        if longer is not None:
            is_odd |= longer
        if not nullable:
            is_odd |= length == 0
        place = start + np.maximum(length - 1, 0)
        is_odd |= place > end
        np.minimum(place, end, out=place)
        starts.append(start)
        counts.append((length - 1).astype(np.int32))
    # One byte remains: the number of tagged fields, 0.
    is_odd |= (place + 1 != end) | (gather.bytes[place] != 0)
    texts = []
    for start, count in zip(starts, counts, strict=True):
        count[is_odd] = 0
        values, offsets = joined(gather, start, np.maximum(count, 0).astype(np.int64)), offsets_of(count)
        is_odd |= rows_with(_to_escape(values), offsets)
        texts.append((values, offsets, count >= 0))
    if "data" in cells.wanted:
        lines = _json(types, *(_strings(*text) for text in texts))
        _, offsets_buffer, text = lines.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32)[: len(rows) + 1]
        begin = gather.append(text[: offsets[-1]])
        good = np.flatnonzero(~is_odd)
        lines_at = begin + offsets[:-1].astype(np.int64)
        cells.put_slices("data", rows[good], lines_at[good], np.diff(offsets).astype(np.int64)[good])
    return is_odd


def _to_escape(values: npt.NDArray[np.uint8]) -> Mask:
    """Return True for bytes that JSON escapes or that may not be valid UTF-8: the codec decodes their rows."""
    hits: Mask = (values < 0x20) | (values >= 0x7F) | (values == ord('"')) | (values == ord("\\"))
    return hits


def _strings(values: npt.NDArray[np.uint8], offsets: Counts, is_there: Mask) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    strings = pa.Array.from_buffers(pa.string(), len(is_there), buffers)
    return strings if is_there.all() else pc.if_else(pa.array(is_there), strings, None)


def _json(types: npt.NDArray[np.int8], resource: pa.Array, name: pa.Array, value: pa.Array) -> pa.Array:
    quoted = pc.binary_join_element_wise('"', value, '"', "").fill_null("null")
    parts = (
        '{"resourceType":',
        pa.array(types).cast(pa.string()),
        ',"resourceName":"',
        resource,
        '","name":"',
        name,
        '","value":',
        quoted,
        "}",
    )
    return pc.binary_join_element_wise(*parts, "")
