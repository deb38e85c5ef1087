"""Prints rows of the pipeline on stdout: as a table for people; as JSON, JSON lines or CSV for scripts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeAlias, cast

import click

from quorumd.cli.output import columns, json_array
from quorumd.cli.pipeline.progress import finish
from quorumd.ids import id_or_hex

Row: TypeAlias = Mapping[str, object]


class _RecordBatch(Protocol):
    def to_pylist(self) -> Iterable[Row]: ...


class _ArrowTable(Protocol):
    """A pyarrow.Table: this package must not import pyarrow."""

    @property
    def column_names(self) -> Sequence[str]: ...

    def to_batches(self, max_chunksize: int) -> Iterable[_RecordBatch]: ...


class _DataFrame(Protocol):
    """A DataFrame of Spark, which must not be imported here either."""

    def toArrow(self) -> _ArrowTable: ...


Rows: TypeAlias = _DataFrame | _ArrowTable | Iterable[Row]


def print_rows(rows: Rows, output: str, names: Sequence[str] | None = None) -> None:
    """Print rows in their order.

    `rows` is a Spark DataFrame, a pyarrow.Table, or mappings from column to value with the columns `names` (by
    default the keys of the first row). Times are ISO 8601 in UTC, 16 bytes are an id as Kafka writes it, other bytes
    are hex.
    """
    names, records = _records(rows, names)
    finish()
    if output == "text":
        cells = [[_cell(record[name], "-") for name in names] for record in records]
        click.echo(columns(names, cells) if cells else "(no rows)")
    elif output == "csv":
        click.echo(_csv_line(names))
        for record in records:
            click.echo(_csv_line([_cell(record[name], "") for name in names]))
    elif output == "jsonl":
        for record in records:
            click.echo(_json(names, record))
    else:
        with json_array() as show:
            for record in records:
                show(_json(names, record))


def _records(rows: Rows, names: Sequence[str] | None) -> tuple[Sequence[str], Iterable[Row]]:
    """Return column names and rows, without importing Spark or Arrow."""
    if hasattr(rows, "toArrow"):
        rows = cast(_DataFrame, rows).toArrow()
    if hasattr(rows, "to_batches"):
        table = cast(_ArrowTable, rows)
        return list(table.column_names), _arrow_rows(table)
    listed = list(rows)
    return names or (list(listed[0]) if listed else []), listed


def _arrow_rows(table: _ArrowTable) -> Iterator[Row]:
    for batch in table.to_batches(max_chunksize=4096):
        yield from batch.to_pylist()


def plain(value: object) -> object:
    """Convert a value to JSON types."""
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, bytes | bytearray):
        return id_or_hex(bytes(value))
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def _json(names: Sequence[str], record: Mapping[str, object]) -> str:
    return json.dumps({name: plain(record[name]) for name in names}, separators=(",", ":"))


def _cell(value: object, empty: str) -> str:
    shown = plain(value)
    if shown is None:
        return empty
    if isinstance(shown, bool):
        return "yes" if shown and empty else "no" if empty else str(shown).lower()
    if isinstance(shown, float):
        return f"{shown:.3f}".rstrip("0").rstrip(".") if empty else repr(shown)
    if isinstance(shown, list | dict):
        return json.dumps(shown, separators=(",", ":"))
    return str(shown)


def _csv_line(cells: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    return buffer.getvalue()
