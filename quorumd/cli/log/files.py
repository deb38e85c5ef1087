"""Read the files of a metadata log piece by piece: segments, snapshots and indexes.

    for piece in read_file(path): ...       Batch | IndexEntry | Preallocated | Incomplete | Fault

Nothing is trusted and nothing is repaired: a batch with a wrong CRC is shown with a fault and reading continues
after it; bytes that are not a batch end the file with a fault. If they change shortly afterwards, the log is being
written, and reading ends without a fault. Only a window of a file is in memory at a time.
The files of stock Kafka controllers have the same format.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import TypeAlias

from quorumd.cli.output import JsonObject
from quorumd.errors import ConfigError, MalformedMessage, UnsupportedVersion
from quorumd.log.batch_windows import read_windows
from quorumd.log.snapshot_file import PART, SUFFIX, parse_snapshot_name
from quorumd.pipeline.copies.read_only_disk import ReadOnlyFile
from quorumd.protocol import record_batch
from quorumd.protocol.batch_header import BatchHeader, crc_is_valid
from quorumd.protocol.batch_scan import BatchRules
from quorumd.protocol.control_record import decode_control
from quorumd.protocol.json_values import plain
from quorumd.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from quorumd.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from quorumd.protocol.metadata_record import decode_frame
from quorumd.protocol.record_batch import Record

KINDS = {
    SUFFIX: "snapshot",
    SUFFIX + PART: "incomplete snapshot",
    ".log": "segment",
    ".index": "offset index",
    ".timeindex": "time index",
}
"""The kind of file per suffix, in dump order for files with the same base offset."""

OFFSET_ENTRY = Struct(">ii")
"""Last offset of a batch relative to the segment's base offset, position of the batch."""
TIME_ENTRY = Struct(">qi")
"""Largest timestamp so far, its offset relative to the segment's base offset."""

_BLOCK = 1 << 20
_CHECKS = 5
_CHECK_SECONDS = 0.02
"""How often, and how far apart, the end of a file is read again before it counts as damaged."""

Pause: TypeAlias = Callable[[float], object]


@dataclass(slots=True)
class Batch:
    """One record batch, its JSON-ready `records` and its `faults`."""

    header: BatchHeader
    position: int
    valid: bool
    records: list[JsonObject] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One index entry; `position` is set in an offset index, `timestamp_ms` in a time index."""

    offset: int
    position: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Preallocated:
    """Zeros up to the end of the file: preallocated space."""

    position: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The end of a file that is still being written or fetched, which is not a fault."""

    position: int
    bytes: int
    """The number of bytes of the last batch that are present."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason why reading ended before the end of the file."""

    position: int
    text: str
    is_cut_off: bool = False
    """Whether the file ends within an otherwise valid batch."""


Piece: TypeAlias = Batch | IndexEntry | Preallocated | Incomplete | Fault


def file_kind(path: Path) -> str | None:
    """The suffix of the name, a key of KINDS; None for an unknown kind of file."""
    return next((kind for kind in KINDS if path.name.endswith(kind)), None)


def files_of(path: Path) -> list[Path]:
    """The file itself, or all files of known kinds in a directory, ordered by base offset.

    Raises ConfigError if there are none.
    """
    if path.is_dir():
        inside = [path, *(sub for sub in path.iterdir() if sub.is_dir())]
        found = [file for directory in inside for file in directory.iterdir() if file_kind(file)]
        if not found:
            raise ConfigError(f"{path}: the directory has no {', '.join(KINDS)} files")
        return sorted(
            found,
            key=lambda file: (str(file.parent), _number(file), list(KINDS).index(file_kind(file) or "")),
        )
    if not path.exists():
        raise ConfigError(f"{path}: no such file; give files or directories of a metadata log")
    if file_kind(path) is None:
        raise ConfigError(f"{path}: unknown kind of file; expected one of {', '.join(KINDS)}")
    return [path]


def read_file(
    path: Path, headers_only: bool = False, secrets: bool = False, pause: Pause = time.sleep
) -> Iterator[Piece]:
    """Yield the pieces of one file in order. Raises OSError if it cannot be read.

    Secrets in records are hidden unless `secrets`.
    """
    kind = file_kind(path)
    with closing(ReadOnlyFile(str(path))) as file:
        if kind == ".log":

            def is_written(position: int, seen: bytes, is_cut_off: bool) -> bool:
                return changes(file, position, seen, is_cut_off, pause)

            yield from _read_batches(
                file, _number(path), lambda header: not headers_only, secrets, is_written
            )
        elif kind == SUFFIX:
            yield from _read_snapshot(file, path.name, headers_only, secrets)
        elif kind == SUFFIX + PART:
            yield from _read_part(file, headers_only, secrets)
        else:
            yield from _read_index(file, path.suffix, _number(path))


def _number(path: Path) -> int:
    """The offset at the start of a file's name; 0 if there is none, as in bootstrap.checkpoint."""
    digits = re.match(r"\d+", path.name)
    return int(digits.group()) if digits else 0


def changes(
    file: ReadOnlyFile, position: int, seen: bytes, is_cut_off: bool, pause: Pause = time.sleep
) -> bool:
    """Whether the bytes at `position` differ from those that were `seen`, or change shortly afterwards: the file is
    being written, and what was read there is part of a write.

    With `is_cut_off` the file ended after `seen`, and may have grown.
    """
    for _ in range(_CHECKS):
        if file.read_at(position, len(seen) + is_cut_off) != seen:
            return True
        pause(_CHECK_SECONDS)
    return False


def _read_snapshot(file: ReadOnlyFile, name: str, headers_only: bool, secrets: bool) -> Iterator[Piece]:
    """Check that batches run from a header to a footer and have the epoch in the file's name."""
    named = parse_snapshot_name(name)
    position, ended = 0, False
    for piece in _read_batches(file, 0, lambda header: header.is_control or not headers_only, secrets):
        if isinstance(piece, Preallocated):
            piece = Fault(piece.position, f"{piece.bytes} zero bytes, which a snapshot must not have")
        if isinstance(piece, Fault):
            yield piece
            return
        assert isinstance(piece, Batch)
        types = [record.get("type") for record in piece.records if piece.header.is_control]
        if position == 0 and piece.valid and types[:1] != [SnapshotHeaderRecord.NAME]:
            piece.faults.append("the first record is not a snapshot header")
        if ended:
            piece.faults.append("the batch follows the snapshot footer")
        if named is not None and piece.header.epoch != named.epoch:
            piece.faults.append(f"expected epoch {named.epoch}, as in the file's name")
        position = piece.position + piece.header.size
        ended = ended or SnapshotFooterRecord.NAME in types
        if headers_only:
            piece.records = []
        yield piece
    if not ended:
        yield Fault(position, "the file ends without a snapshot footer")


def _read_part(file: ReadOnlyFile, headers_only: bool, secrets: bool) -> Iterator[Piece]:
    position = 0
    for piece in _read_batches(file, 0, lambda header: not headers_only, secrets):
        if isinstance(piece, Fault) and piece.is_cut_off:
            break
        yield piece
        if isinstance(piece, Fault):
            return
        if isinstance(piece, Batch):
            position = piece.position + piece.header.size
    yield Incomplete(position, file.size() - position)


def _read_batches(
    file: ReadOnlyFile,
    expected_offset: int,
    is_decoded: Callable[[BatchHeader], bool],
    secrets: bool,
    is_written: Callable[[int, bytes, bool], bool] = lambda position, seen, is_cut_off: False,
) -> Iterator[Piece]:
    """Yield all batches, with their records if `is_decoded` returns True for the header.

    `is_written(position, seen, is_cut_off)` returns whether the bytes there are part of a write, see `changes`.
    """
    end = epoch = 0
    for window in read_windows(file, BatchRules()):
        for header in window.headers:
            position = window.position + header.position
            batch = _inspect(window.data, header, position, is_decoded(header), secrets)
            if not batch.valid and header is window.headers[-1]:
                seen = window.data[header.position : header.position + header.size]
                if is_written(position, seen, False):
                    yield Incomplete(position, len(seen))
                    return
            if header.base_offset != expected_offset:
                batch.faults.append(f"expected offset {expected_offset}")
            if header.epoch < epoch:
                batch.faults.append(f"epoch {header.epoch} follows epoch {epoch}")
            yield batch
            epoch = header.epoch
            expected_offset = header.end_offset
        end = window.end
        if window.fault:
            rest = window.data[end - window.position :]
            if is_written(end, rest, window.is_cut_off):
                yield Incomplete(end, len(rest))
            else:
                yield Fault(end, window.fault, window.is_cut_off)
            return
    if end < file.size():
        yield _zeros(file, end)


def _inspect(data: bytes, header: BatchHeader, position: int, is_decoded: bool, secrets: bool) -> Batch:
    batch = Batch(header, position, crc_is_valid(data, header))
    if not batch.valid:
        batch.faults.append("the CRC does not match: the batch is corrupt")
        return batch
    if not is_decoded:
        return batch
    try:
        for record in record_batch.records(data, header):
            try:
                batch.records.append(_decoded(record, header.is_control, secrets))
            except MalformedMessage as error:
                batch.records.append({"offset": record.offset, "value": (record.value or b"").hex()})
                batch.faults.append(f"record {record.offset}: {error}")
    except MalformedMessage as error:
        batch.faults.append(str(error))
    return batch


def _decoded(record: Record, is_control: bool, secrets: bool) -> JsonObject:
    """One record as JSON. An unknown type or version is not a fault: the record's bytes are shown."""
    shown: JsonObject = {"offset": record.offset}
    value = record.value or b""
    try:
        if is_control:
            control = decode_control(record.key or b"", value)
            return shown | {"type": control.NAME, "data": plain(control)}
        message, version = decode_frame(value)
        return shown | {"type": message.NAME, "version": version, "data": plain(message, secrets)}
    except UnsupportedVersion as error:
        return shown | {"unknown": str(error), "value": value.hex()}


def _zeros(file: ReadOnlyFile, position: int) -> Piece:
    """The zeros at `position`: preallocated space, or a fault if other bytes follow."""
    at = position
    while block := file.read_at(at, _BLOCK):
        if any(block):
            behind = at + len(block) - len(block.lstrip(b"\0"))
            return Fault(position, f"{behind - position} zero bytes, followed by other bytes at {behind}")
        at += len(block)
    return Preallocated(position, at - position)


def _read_index(file: ReadOnlyFile, suffix: str, base_offset: int) -> Iterator[Piece]:
    shape = OFFSET_ENTRY if suffix == ".index" else TIME_ENTRY
    size = file.size()
    data = file.read_at(0, size)
    used = len(data.rstrip(b"\0"))
    end = -(-used // shape.size) * shape.size
    if end > len(data):
        yield Fault(
            len(data) // shape.size * shape.size, f"{len(data)} bytes are not a whole number of entries"
        )
        end = len(data) // shape.size * shape.size
    before = (-1, -1)
    for number, entry in enumerate(shape.iter_unpack(data[:end])):
        position = number * shape.size
        offset = base_offset + (entry[0] if suffix == ".index" else entry[1])
        yield (
            IndexEntry(offset, position=entry[1])
            if suffix == ".index"
            else IndexEntry(offset, timestamp_ms=entry[0])
        )
        if entry[0] <= before[0] or entry[1] < before[1]:
            yield Fault(position, "the entries are not in ascending order")
            return
        before = entry
    if end < size:
        yield Preallocated(end, size - end)
