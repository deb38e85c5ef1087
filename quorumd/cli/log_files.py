"""What is in the files of a metadata log, piece by piece: segments, snapshots and their indexes.

    for piece in read_file(path): ...       Batch | IndexEntry | Preallocated | Fault

Nothing is trusted and nothing is repaired: a batch whose CRC does not match is shown as it stands with a
fault, and reading goes on behind it; bytes that are no batch end the file with a fault. One batch is in
memory at a time. A stock Kafka controller's files have the same format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import IO, Any, TypeAlias

from quorumd.errors import ConfigError, MalformedMessage, UnsupportedVersion
from quorumd.ids import KafkaUuid
from quorumd.protocol import record_batch
from quorumd.protocol.control_record import decode_control
from quorumd.protocol.metadata_record import decode_frame
from quorumd.protocol.record_batch import HEADER_SIZE, BatchHeader, Record
from quorumd.protocol.wire import MessageStruct

KINDS = {".checkpoint": "snapshot", ".log": "segment", ".index": "offset index", ".timeindex": "time index"}
"""By suffix, in the order in which a folder is dumped where the numbers are the same."""

OFFSET_ENTRY = Struct(">ii")
"""Last offset of a batch less the base offset of the segment, position of the batch."""
TIME_ENTRY = Struct(">qi")
"""Largest timestamp so far, its offset less the base offset of the segment."""

_BLOCK = 1 << 20


@dataclass(slots=True)
class Batch:
    """One record batch. `records` are JSON-ready; `faults` say what is wrong with it."""

    header: BatchHeader
    position: int
    valid: bool
    records: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One entry of an index; `position` in an offset index, `timestamp_ms` in a time index."""

    offset: int
    position: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Preallocated:
    """Zeros up to the end of the file: room that was reserved ahead."""

    position: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Fault:
    """Why reading ended before the end of the file."""

    position: int
    text: str


Piece: TypeAlias = Batch | IndexEntry | Preallocated | Fault


def files_of(path: Path) -> list[Path]:
    """The file itself, or all files of a folder that can be read here, in order of their first offsets.

    Raises ConfigError when it is neither.
    """
    if path.is_dir():
        inside = [path, *(sub for sub in path.iterdir() if sub.is_dir())]
        found = [file for folder in inside for file in folder.iterdir() if file.suffix in KINDS]
        if not found:
            raise ConfigError(f"{path}: no {', '.join(KINDS)} files in this folder")
        return sorted(
            found, key=lambda file: (str(file.parent), _number(file), list(KINDS).index(file.suffix))
        )
    if not path.exists():
        raise ConfigError(f"{path}: no such file; give files or folders of a metadata log")
    if path.suffix not in KINDS:
        raise ConfigError(f"{path}: not a kind of file known here; known are {', '.join(KINDS)}")
    return [path]


def read_file(path: Path, headers_only: bool = False) -> Iterator[Piece]:
    """The pieces of one file in order. Raises OSError when it cannot be read."""
    with path.open("rb") as stream:
        size = path.stat().st_size
        if path.suffix in (".log", ".checkpoint"):
            first_offset = _number(path) if path.suffix == ".log" else 0
            yield from _read_batches(stream, size, first_offset, headers_only)
        else:
            yield from _read_index(stream, size, path.suffix, _number(path))


def _number(path: Path) -> int:
    """The offset that a file's name begins with; 0 where it does not, as in bootstrap.checkpoint."""
    digits = re.match(r"\d+", path.name)
    return int(digits.group()) if digits else 0


def _read_batches(stream: IO[bytes], size: int, expected_offset: int, headers_only: bool) -> Iterator[Piece]:
    position = 0
    epoch = 0
    while position < size:
        stream.seek(position)
        beginning = stream.read(HEADER_SIZE)
        if not any(beginning):
            yield _zeros(stream, position, size)
            return
        try:
            header = record_batch.read_header(beginning, 0)
        except MalformedMessage as error:
            # The text begins with the position within what was read, which is not the one in the file.
            yield Fault(position, str(error).partition(": ")[2])
            return
        if position + header.size > size:
            left = size - position
            yield Fault(position, f"a batch of {header.size} bytes is announced, the file ends after {left}")
            return
        stream.seek(position)
        batch = _inspect(stream.read(header.size), header, position, headers_only)
        if header.base_offset != expected_offset:
            batch.faults.append(f"offset {expected_offset} was expected here")
        if header.epoch < epoch:
            batch.faults.append(f"epoch {header.epoch} comes after epoch {epoch}")
        yield batch
        epoch = header.epoch
        expected_offset = header.end_offset
        position += header.size


def _inspect(data: bytes, header: BatchHeader, position: int, headers_only: bool) -> Batch:
    batch = Batch(header, position, record_batch.crc_is_valid(data, header))
    if not batch.valid:
        batch.faults.append("the CRC does not match: the bytes are not those that were written")
        return batch
    if headers_only:
        return batch
    try:
        for record in record_batch.records(data, header):
            try:
                batch.records.append(_decoded(record, header.is_control))
            except MalformedMessage as error:
                batch.records.append({"offset": record.offset, "value": (record.value or b"").hex()})
                batch.faults.append(f"record {record.offset}: {error}")
    except MalformedMessage as error:
        batch.faults.append(str(error))
    return batch


def _decoded(record: Record, is_control: bool) -> dict[str, Any]:
    """One record as JSON. A type or version that is not known here is no fault: its bytes are shown."""
    shown: dict[str, Any] = {"offset": record.offset}
    value = record.value or b""
    try:
        if is_control:
            control = decode_control(record.key or b"", value)
            return shown | {"type": control.NAME, "data": plain(control)}
        message, version = decode_frame(value)
        return shown | {"type": message.NAME, "version": version, "data": plain(message)}
    except UnsupportedVersion as error:
        return shown | {"unknown": str(error), "value": value.hex()}


def plain(value: Any) -> Any:
    """A message or a part of one as JSON-ready values: Kafka's field names, Uuids as Kafka prints them."""
    if isinstance(value, MessageStruct):
        return {_camel_case(name): plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, KafkaUuid):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return value


def _camel_case(name: str) -> str:
    first, *others = name.replace("kraft", "k_raft").split("_")
    return first + "".join(part.capitalize() for part in others)


def _zeros(stream: IO[bytes], position: int, size: int) -> Piece:
    """Zeros from `position` are reserved room, unless something stands behind them."""
    stream.seek(position)
    at = position
    while block := stream.read(_BLOCK):
        if any(block):
            behind = at + len(block) - len(block.lstrip(b"\0"))
            return Fault(position, f"{behind - position} zero bytes, and then something else at {behind}")
        at += len(block)
    return Preallocated(position, size - position)


def _read_index(stream: IO[bytes], size: int, suffix: str, base_offset: int) -> Iterator[Piece]:
    shape = OFFSET_ENTRY if suffix == ".index" else TIME_ENTRY
    data = stream.read()
    used = len(data.rstrip(b"\0"))
    end = -(-used // shape.size) * shape.size
    if end > len(data):
        yield Fault(len(data) // shape.size * shape.size, f"{len(data)} bytes are no whole number of entries")
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
