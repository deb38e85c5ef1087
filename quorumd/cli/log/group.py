"""`quorumd log`: inspect the files of a metadata log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from quorumd.cli.command_group import CommandGroup
from quorumd.cli.output import JsonObject, json_array

if TYPE_CHECKING:
    from quorumd.cli.log.files import Batch, Piece

Show: TypeAlias = Callable[[JsonObject], None]


@click.group(cls=CommandGroup)
def log() -> None:
    """Inspect the files of a metadata log.

    \b
    Example:
      quorumd log dump run/demo/node-0/data
    """


@log.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--headers-only", is_flag=True, help="Show batch headers without their records.")
@click.option(
    "--secrets",
    is_flag=True,
    help="Show the salt and the keys of SCRAM credentials, which are hidden otherwise.",
)
@click.option(
    "--output",
    type=click.Choice(["text", "json", "jsonl", "csv"]),
    default="text",
    show_default=True,
    help="Print text, one JSON array of batches with their records (json), or one row per record (jsonl, csv).",
)
def dump(paths: tuple[Path, ...], headers_only: bool, secrets: bool, output: str) -> None:
    """Show every batch and record of segments (.log) and snapshots (.checkpoint), and every index entry.

    FILE may be a directory: all its .log, .checkpoint, .index and .timeindex files are shown in order. The CRC of
    each batch is checked; control and metadata records are decoded. Files of stock Kafka controllers are
    supported, as are a log that is being written and a snapshot that is being fetched (.checkpoint.part). Exit
    code 1 if a file is damaged; each fault is shown at its position and again at the end.

    jsonl and csv use the columns and the fast decoder of the data pipeline, need
    `pip install 'quorumd[pipeline]'`, and omit .index and .timeindex files.

    \b
    Examples:
      quorumd log dump run/demo/node-0/data
      quorumd log dump --headers-only 00000000000000000000.log
      quorumd log dump 00000000000000123456-0000000007.checkpoint
      quorumd log dump --output json 00000000000000000000.log | jq '.[].records[]?'
      quorumd log dump --output jsonl run/demo/node-0/data | jq 'select(.type_name == "TopicRecord")'
    """
    from quorumd.cli.log.files import files_of

    files = [file for path in paths for file in files_of(path)]
    if output in ("jsonl", "csv"):
        for option, is_given in (("--headers-only", headers_only), ("--secrets", secrets)):
            if is_given:
                raise click.UsageError(f"{option} cannot be combined with --output {output}")
        _exit_with(_flat_rows(files, output))
        return
    with _json_array() if output == "json" else nullcontext(_show_text) as show:
        faults = [fault for file in files for fault in _dump_file(file, headers_only, secrets, show)]
    _exit_with(faults)


def _flat_rows(files: list[Path], output: str) -> list[str]:
    from quorumd.cli.log.rows import dump_rows, has_records

    return list(dump_rows((file for file in files if has_records(file)), output))


def _exit_with(faults: list[str]) -> None:
    """Print the faults; exit with code 1 if there are any."""
    for fault in faults:
        click.echo(f"error: {fault}", err=True)
    if faults:
        raise click.exceptions.Exit(1)


def _dump_file(file: Path, headers_only: bool, secrets: bool, show: Show) -> Iterable[str]:
    """Show one file and yield its faults, each with its position."""
    from quorumd.cli.log.files import KINDS, Batch, Fault, file_kind, read_file

    kind = KINDS[file_kind(file) or ""]
    show({"kind": "file", "file": str(file), "type": kind, "size": file.stat().st_size})
    for piece in read_file(file, headers_only, secrets):
        show(_row(piece))
        if isinstance(piece, Fault):
            yield f"{file}, position {piece.position}: {piece.text}"
        if isinstance(piece, Batch):
            for fault in piece.faults:
                yield f"{file}, position {piece.position} (offset {piece.header.base_offset}): {fault}"


def _row(piece: Piece) -> JsonObject:
    from quorumd.cli.log.files import Batch, Incomplete, IndexEntry, Preallocated

    if isinstance(piece, Batch):
        return _batch_row(piece)
    if isinstance(piece, IndexEntry):
        where = (
            {"position": piece.position} if piece.timestamp_ms is None else {"timestamp": piece.timestamp_ms}
        )
        return {"kind": "entry", "offset": piece.offset} | where
    if isinstance(piece, Preallocated):
        return {"kind": "preallocated", "position": piece.position, "bytes": piece.bytes}
    if isinstance(piece, Incomplete):
        return {"kind": "incomplete", "position": piece.position, "bytes": piece.bytes}
    return {"kind": "fault", "position": piece.position, "text": piece.text}


def _batch_row(batch: Batch) -> JsonObject:
    header = batch.header
    return {
        "kind": "batch",
        "baseOffset": header.base_offset,
        "lastOffset": header.end_offset - 1,
        "count": header.count,
        "epoch": header.epoch,
        "isControl": header.is_control,
        "compression": header.compression,
        "position": batch.position,
        "size": header.size,
        "timestamp": header.max_timestamp_ms,
        "crc": header.crc,
        "valid": batch.valid,
        "records": batch.records,
        "faults": batch.faults,
    }


@contextmanager
def _json_array() -> Iterator[Show]:
    with json_array() as show:
        yield lambda row: show(json.dumps(row, separators=(",", ":")))


def _show_text(row: JsonObject) -> None:
    kind = row["kind"]
    if kind == "file":
        click.echo(f"{row['file']}: {row['type']}, {row['size']} bytes")
    elif kind == "batch":
        _show_batch(row)
    elif kind == "entry":
        target = (
            f"position: {row['position']}" if "position" in row else f"timestamp: {_time(row['timestamp'])}"
        )
        click.echo(f"offset: {row['offset']} {target}")
    elif kind == "preallocated":
        click.echo(f"{row['bytes']} bytes preallocated from position {row['position']}")
    elif kind == "incomplete":
        click.echo(
            f"incomplete, still being written: {row['bytes']} bytes of the next batch from position {row['position']}"
        )
    else:
        click.echo(f"! position {row['position']}: {row['text']}")


def _show_batch(row: JsonObject) -> None:
    named = ("baseOffset", "lastOffset", "count", "epoch", "isControl", "position", "size", "crc", "valid")
    parts = [f"{name}: {json.dumps(row[name])}" for name in named]
    parts.insert(-2, f"timestamp: {_time(row['timestamp'])}")
    click.echo(" ".join(parts))
    for record in row["records"]:
        click.echo(f"| offset: {record['offset']} {_record_text(record)}")
    for fault in row["faults"]:
        click.echo(f"! {fault}")


def _record_text(record: JsonObject) -> str:
    if "type" in record:
        version = f" v{record['version']}" if "version" in record else ""
        return f"{record['type']}{version} {json.dumps(record['data'])}"
    reason = f"({record['unknown']}) " if "unknown" in record else ""
    return f"{reason}value: {record['value']}"


def _time(timestamp_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return (
        moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if timestamp_ms >= 0
        else str(timestamp_ms)
    )
