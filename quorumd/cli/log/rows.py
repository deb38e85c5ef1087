"""`quorumd log dump --output jsonl|csv`: one row per record, decoded by the data pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorumd.cli.log.files import changes
from quorumd.errors import ConfigError
from quorumd.log.snapshot_file import PART, SUFFIX
from quorumd.pipeline.copies.read_only_disk import ReadOnlyFile

if TYPE_CHECKING:
    from quorumd.pipeline.scan.batches import Fault, Scanned


def dump_rows(files: Iterable[Path], output: str) -> Iterator[str]:
    """Print the records of segments and snapshots and yield the faults with their positions.

    Raises ConfigError if the packages of the pipeline are missing.
    """
    try:
        from quorumd.pipeline.decode import records_table
        from quorumd.pipeline.tables.row_text import csv_header
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"--output {output} needs {missing.name}; pip install 'quorumd[pipeline]', or use --output json"
        ) from None
    # Files have no node: `segment`, here the path, distinguishes copies.
    names = tuple(name for name in records_table().names if name != "node")
    if output == "csv":
        click.echo(csv_header(names))
    for file in files:
        for lines, faults in _pieces(file, names, output):
            if lines:
                click.echo("\n".join(lines))
            for fault in faults:
                offset = f" (offset {fault.offset})" if fault.offset >= 0 else ""
                yield f"{file}, position {fault.position}{offset}: {fault}"


def has_records(file: Path) -> bool:
    return file.suffix in (".log", SUFFIX, PART)


def _pieces(file: Path, names: tuple[str, ...], output: str) -> Iterator[tuple[list[str], list[Fault]]]:
    from quorumd.pipeline.decode import bad_records, decode_records, with_faults
    from quorumd.pipeline.tables.row_text import csv_lines, json_lines

    for data, position, scanned in _scanned(file):
        faults = [
            fault for fault in scanned.faults if not (file.suffix == PART and fault.code == "TORN_TAIL")
        ]
        rows = decode_records(data, scanned.batches, 0, str(file), position, names)
        unreadable = bad_records(rows)
        rows = with_faults(rows, faults, 0, str(file))
        yield json_lines(rows) if output == "jsonl" else csv_lines(rows), [*faults, *unreadable]


def _scanned(file: Path) -> Iterator[tuple[bytes, int, Scanned]]:
    """As `scan.read_pieces`, with an additional piece with a fault if a snapshot lacks its footer."""
    from quorumd.pipeline.scan.batches import Place, read_pieces, scan
    from quorumd.pipeline.source.pieces import is_footer, lacking_footer

    digits = re.match(r"\d+", file.name) if file.suffix == ".log" else None
    place, is_finished = Place(expected_offset=0), False
    for data, position, scanned in read_pieces(file, base_offset=int(digits.group()) if digits else 0):
        place = scanned.next
        if len(scanned.batches):
            is_finished = is_footer(data, int(scanned.batches.position[-1]))
        yield data, position, _without_write(file, data, position, scanned) if digits else scanned
    missing = lacking_footer(place, is_finished) if file.suffix == SUFFIX else None
    if missing is not None:
        yield b"", place.position, scan(b"")._replace(faults=[missing])


def _without_write(file: Path, data: bytes, position: int, scanned: Scanned) -> Scanned:
    """Omit what follows the last whole batch of a segment that is being written."""
    fault = scanned.faults[-1] if scanned.faults else None
    if fault is None or fault.code not in ("TORN_TAIL", "BAD_CRC") or fault.position < position:
        return scanned
    start = fault.position - position
    if any(scanned.batches.position > start):
        return scanned
    with closing(ReadOnlyFile(str(file))) as opened:
        seen = data[start : start + fault.size]
        if not changes(opened, fault.position, seen, fault.code == "TORN_TAIL"):
            return scanned
    whole = scanned.batches.select(scanned.batches.position < start)
    return scanned._replace(batches=whole, faults=scanned.faults[:-1])
