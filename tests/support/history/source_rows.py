"""Reads rows of the source without Spark, by calling its readers as Spark does."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import Filter

from quorumd.pipeline.source.options import SourceOptions, parse_options
from quorumd.pipeline.source.reader import Reader
from quorumd.pipeline.source.stream import StreamReader


def options_of(path: Path | str | None, **options: object) -> SourceOptions:
    """Build options; `path` is None for a live cluster, which the option `bootstrap` names."""
    given = {name: str(value) for name, value in options.items()}
    return parse_options(given if path is None else given | {"path": str(path)})


def read_table(
    path: Path | str | None, columns: Sequence[str] = (), filters: Sequence[Filter] = (), **options: object
) -> pa.Table:
    """Return the rows of a batch read; each task is read separately, as in a worker."""
    parsed = options_of(path, **options)
    table = parsed.table.select(tuple(columns)) if columns else parsed.table
    reader = Reader(parsed, table)
    if filters:
        assert list(reader.pushFilters(list(filters))) == list(filters)
    tasks = [pickle.loads(pickle.dumps(task)) for task in reader.partitions()]
    worker = pickle.loads(pickle.dumps(reader))
    return pa.Table.from_batches([batch for task in tasks for batch in worker.read(task)], table.arrow())


def read_micro_batch(reader: StreamReader, start: dict[str, int], end: dict[str, int]) -> pa.Table:
    """Return the rows of a micro-batch of a stream."""
    tasks = [pickle.loads(pickle.dumps(task)) for task in reader.partitions(start, end)]
    worker = StreamReader(reader.options, reader.table)
    return pa.Table.from_batches(
        [batch for task in tasks for batch in worker.read(task)], reader.table.arrow()
    )


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows in an order that does not depend on tasks."""
    found: list[dict[str, Any]] = table.to_pylist()
    return sorted(found, key=lambda row: tuple((value is not None, value) for value in row.values()))
