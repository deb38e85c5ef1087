"""Formats Arrow rows as JSON lines and CSV, column by column.

Times are ISO 8601 in UTC, 16 bytes are an id as Kafka writes it, other bytes are hex, lists are JSON. JSON lines
omit null values and have the column `data` as an object; in CSV, null is empty.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from quorumd.ids import id_or_hex

_JSON_COLUMN = "data"


def json_lines(rows: pa.RecordBatch) -> list[str]:
    """Format one line per row."""
    texts = [
        pc.binary_join_element_wise(f"{json.dumps(name)}:", _json_text(name, rows.column(name)), "")
        for name in rows.schema.names
    ]
    return _lines(texts, "{", "}")


def csv_header(names: Sequence[str]) -> str:
    return ",".join(map(_csv_cell, names))


def csv_lines(rows: pa.RecordBatch) -> list[str]:
    """Format one line per row, without the header (`csv_header`)."""
    return _lines([_csv_text(column).fill_null("") for column in rows.columns], "", "")


def _lines(texts: list[pa.Array], before: str, after: str) -> list[str]:
    joined = pc.binary_join_element_wise(*texts, ",", null_handling="skip")
    lines: list[str] = pc.binary_join_element_wise(before, joined, after, "").to_pylist()
    return lines


def _json_text(name: str, column: pa.Array) -> pa.Array:
    if name == _JSON_COLUMN:
        return column
    return _text(column, lambda value: json.dumps(_plain(value)), '"')


def _csv_text(column: pa.Array) -> pa.Array:
    if pa.types.is_list(column.type):
        listed = _text(column, lambda value: json.dumps(_plain(value)), "")
        if pa.types.is_binary(column.type.value_type):
            return _by_value(listed, _csv_cell)
        # The elements are numbers: only the commas need quoting.
        return pc.binary_join_element_wise('"', listed, '"', "")
    return _text(column, lambda value: _csv_cell(_plain(value)), "")


def _text(column: pa.Array, of_value: Callable[[object], str], quote: str) -> pa.Array:
    """Convert a column to strings. Strings and bytes are converted by `of_value`, each distinct value once."""
    kind = column.type
    if pa.types.is_list(kind):
        return _list_text(column, of_value)
    if pa.types.is_timestamp(kind):
        moments = column.view(pa.int64()).view(pa.timestamp(kind.unit))
        millis = moments.cast(pa.timestamp("ms"), safe=False).cast(pa.string())
        iso = pc.replace_substring(millis, " ", "T", max_replacements=1)
        return pc.binary_join_element_wise(quote, iso, f"Z{quote}", "")
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _by_value(column, of_value)
    return column.cast(pa.string())


def _by_value(column: pa.Array, of_value: Callable[[object], str]) -> pa.Array:
    encoded = column.dictionary_encode()
    texts = pa.array([of_value(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return texts.take(encoded.indices)


def _list_text(column: pa.Array, of_value: Callable[[object], str]) -> pa.Array:
    elements = _text(column.values, of_value, '"')
    lists = pa.ListArray.from_arrays(column.offsets, elements, mask=column.is_null())
    return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")


def _plain(value: object) -> object:
    return id_or_hex(value) if isinstance(value, bytes) else value


def _csv_cell(value: object) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow([value])
    return buffer.getvalue()
