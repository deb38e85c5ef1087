"""The directory of a history: Parquet files per table, and `history.json`, which lists the valid files.

A file has a unique name and never changes. It becomes visible when history.json, which is replaced atomically, lists
it: readers see all of a micro-batch or nothing of it, and leftovers of a crash are never visible. Listed files
survive a power failure: files and their directories are flushed before history.json lists them. Workers flush their
own files while they write further ones.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from quorumd.errors import ConfigError, InputIncomplete
from quorumd.output_files import open_for_appending, replacing
from quorumd.pipeline.tables.schemas import HISTORY_TABLES, Row

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

MANIFEST = "history.json"
FORMAT = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STAGING = "staging"
COPIED = "snapshot"
"""The directory with the copy of a live cluster's snapshot."""
FLUSHES = 4
"""The number of flushing threads per process; they only wait for the disk."""
BUCKETS = 16
"""The number of parts in which partitions are folded; each has its own file of partition_current."""

ASCENDING = frozenset(
    {
        "offset",
        "base_offset",
        "ts",
        "from_offset",
        "from_ts",
        "to_offset",
        "to_ts",
        "partition_epoch",
        "leader_epoch",
    }
)
"""Columns with delta encoding: half the size, and faster."""


@dataclass(slots=True)
class Manifest:
    """The content of history.json. The history covers the offsets [begin, end)."""

    begin: int = 0
    end: int = 0
    cluster_id: str | None = None
    kraft_version: int = 0
    min_isr: dict[str, int] = field(default_factory=dict)
    """min.insync.replicas at `end`, by topic name; "" for the cluster default."""
    end_ts_us: int = 0
    """The timestamp of the last record, in microseconds since 1970."""
    end_epoch: int = -1
    """The epoch of the record before `end`; a log with another epoch there is a different log."""
    files: dict[str, list[str]] = field(default_factory=dict)
    """Paths relative to the directory, by table; paths of partition_current are in the order of buckets."""
    obsolete: list[str] = field(default_factory=list)
    """Files that only the previous manifest listed; a reader may still have them open."""

    def paths(self, table: str) -> list[str]:
        """Return the files of a table; buckets without partitions have none."""
        return [path for path in self.files.get(table, []) if path]

    @property
    def named(self) -> set[str]:
        """The files of all tables."""
        return {path for table in self.files for path in self.paths(table)}


def read_manifest(directory: Path) -> Manifest | None:
    """Read the manifest in a directory; None if there is none. Raises InputIncomplete, and ConfigError for another
    format."""
    try:
        document = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        version = document.pop("format")
        if version != FORMAT:
            raise ConfigError(
                f"{directory / MANIFEST} has format {version}, but only format {FORMAT} is supported; build the "
                "history again in another directory"
            )
        return Manifest(**document)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise InputIncomplete(f"{directory / MANIFEST} cannot be read: {error}") from None


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace the manifest atomically and durably. Call `flush_new` for newly listed files first."""
    with replacing(directory / MANIFEST) as file:
        file.write(json.dumps({"format": FORMAT} | asdict(manifest), indent=1).encode())
        file.flush()
        os.fsync(file.fileno())
    flush(directory)


def flush_new(directory: Path, paths: Collection[str]) -> None:
    """Make files and their names durable; files that are already flushed cost little."""
    directories = {parent for path in paths for parent in Path(path).parents}
    # Flush all files at once: the disk merges the flushes.
    with ThreadPoolExecutor(FLUSHES) as threads:
        for together in (sorted(paths), sorted(directories)):
            list(threads.map(flush, [directory / each for each in together]))


def flush(path: Path) -> None:
    """Flush a file, or the names in a directory, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Lock the history against other writers while the block runs. Raises ConfigError if it is locked."""
    _make(directory)
    with os.fdopen(open_for_appending(directory / ".lock"), "wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"{directory} is being written by another `quorumd pipeline history build`"
            ) from None
        yield


def _make(directory: Path) -> None:
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for made in missing:
        flush(made.parent)


def remove_leftovers(directory: Path, manifest: Manifest) -> None:
    """Remove the files of a killed run, which the manifest does not list."""
    shutil.rmtree(directory / STAGING, ignore_errors=True)
    known = manifest.named | set(manifest.obsolete)
    for table in HISTORY_TABLES:
        for file in (directory / table).rglob("*.parquet*"):
            if str(file.relative_to(directory)) not in known:
                file.unlink()
    for file in directory.glob(f".{MANIFEST}.*"):
        file.unlink()
    _remove_empty_directories(directory)


def remove_obsolete(directory: Path, paths: list[str]) -> None:
    """Remove files that no manifest lists."""
    for path in paths:
        (directory / path).unlink(missing_ok=True)
        parent = (directory / path).parent
        if not any(parent.iterdir()):
            parent.rmdir()


def _remove_empty_directories(directory: Path) -> None:
    for table in HISTORY_TABLES:
        for inside in (directory / table).glob("lo=*"):
            if not any(inside.iterdir()):
                inside.rmdir()


def as_micros(time: datetime) -> int:
    """Convert a time with a time zone to microseconds since 1970, exactly."""
    return (time - _EPOCH) // timedelta(microseconds=1)


def as_time(micros: int) -> datetime:
    """Convert microseconds since 1970 to a time in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def path_in(table: str, low: int, name: str) -> str:
    """Return the path of a table's file for the micro-batch that begins at offset `low`."""
    return f"{table}/lo={low:020d}/{name}.parquet"


def write_table(directory: Path, path: str, table: pa.Table) -> None:
    """Write a table atomically; the caller flushes it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = directory / path
    target.parent.mkdir(parents=True, exist_ok=True)
    ascending = [name for name in table.column_names if name in ASCENDING]
    bounded = [field.name for field in table.schema if pa.types.is_primitive(field.type)]
    with replacing(target) as file:
        pq.write_table(
            table,
            file,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in table.column_names if name not in ASCENDING],
            column_encoding=dict.fromkeys(ascending, "DELTA_BINARY_PACKED"),
            # Every file has values of all texts and lists, so their bounds would never exclude a file.
            write_statistics=bounded,
            # Otherwise dictionary-encoded columns would be read as dictionaries.
            store_schema=False,
        )


def write_rows(directory: Path, path: str, table: str, rows: list[Row], cluster_id: str | None) -> None:
    """Write rows of a table of HISTORY_TABLES; times may be microseconds since 1970."""
    import pyarrow as pa

    schema = HISTORY_TABLES[table].arrow()
    columns = [
        pa.repeat(pa.scalar(cluster_id, field.type), len(rows))
        if field.name == "cluster_id"
        else pa.array([row.get(field.name) for row in rows], field.type)
        for field in schema
    ]
    write_table(directory, path, pa.table(columns, schema=schema))


def read_rows(directory: Path, paths: list[str], table: str) -> list[Row]:
    """Read what `write_rows` wrote, without the cluster id; times are microseconds since 1970."""
    found = with_micros(read_files(directory, paths, table).drop_columns(["cluster_id"]))
    rows: list[Row] = found.to_pylist()
    return rows


def with_micros(table: pa.Table) -> pa.Table:
    """Convert times to microseconds since 1970, which become Python objects much faster."""
    import pyarrow as pa

    kinds = [pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))


def read_files(
    directory: Path,
    paths: list[str],
    table: str,
    columns: list[str] | None = None,
    filters: pc.Expression | None = None,
) -> pa.Table:
    """Read the rows of these files that pass `filters`.

    Raises InputIncomplete if a file does not exist.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = HISTORY_TABLES[table].arrow()
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    try:
        parts = [
            pq.read_table(directory / path, columns=schema.names, filters=filters, partitioning=None)
            for path in paths
        ]
    except FileNotFoundError as error:
        raise InputIncomplete(
            f"{error} no longer exists; retry if the history is being built, otherwise build it again"
        ) from None
    return pa.concat_tables(parts).select(schema.names) if parts else schema.empty_table()
