"""An independent reader of log files, written from the format's description; it shares no code with the daemon."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_STARTS_AT = 21
CONTROL = 0x20
CONFIG_RECORD = 4


@dataclass(frozen=True)
class Batch:
    base_offset: int
    end_offset: int
    epoch: int
    is_control: bool
    position: int
    data: bytes


def batches(log_file: Path) -> list[Batch]:
    """Return every batch of one segment; zeros after the last batch are preallocated blocks.

    Fails on a wrong CRC, on a gap in the offsets, and on anything but zeros after the last batch.
    """
    data = log_file.read_bytes()
    found = []
    position = 0
    expected = int(log_file.stem)
    while data[position : position + HEADER.size].strip(b"\0"):
        base, length, epoch, magic, crc, attributes, delta, *_, count = HEADER.unpack_from(data, position)
        end = position + 12 + length
        assert magic == 2, f"{log_file} at {position}: magic {magic}"
        assert crc32c.crc32c(data[position + CRC_STARTS_AT : end]) == crc, (
            f"{log_file} at {position}: wrong CRC"
        )
        assert base == expected, f"{log_file} at {position}: offset {base} where {expected} is due"
        assert count == delta + 1
        expected = base + count
        is_control = bool(attributes & CONTROL)
        found.append(Batch(base, expected, epoch, is_control, position, data[position:end]))
        position = end
    assert not data[position:].strip(b"\0"), f"{log_file} at {position}: neither batch nor zeros"
    return found


def record_values(batch: Batch) -> list[bytes]:
    """Return the values of the records of one batch."""
    values = []
    position = HEADER.size
    while position < len(batch.data):
        length, position = _varint(batch.data, position)
        end = position + length
        position += 1
        for _ in range(2):
            _, position = _varint(batch.data, position)
        key_length, position = _varint(batch.data, position)
        position += max(key_length, 0)
        value_length, position = _varint(batch.data, position)
        values.append(batch.data[position : position + value_length])
        position = end
    return values


def config_changes(partition_directory: Path, below: int) -> Iterator[tuple[str, str, str | None]]:
    """Yield (resource name, config name, value) of every ConfigRecord below an offset, in order."""
    for path in sorted(partition_directory.glob("*.log")):
        for batch in batches(path):
            if batch.is_control or batch.end_offset > below:
                continue
            for value in record_values(batch):
                _, position = _unsigned_varint(value, 0)
                kind, position = _unsigned_varint(value, position)
                _, position = _unsigned_varint(value, position)
                if kind != CONFIG_RECORD:
                    continue
                position += 1
                resource, position = _compact_string(value, position)
                name, position = _compact_string(value, position)
                text, position = _compact_string(value, position)
                yield resource or "", name or "", text


def bytes_below(partition_directory: Path, end_offset: int) -> bytes:
    """Return the bytes of the log up to the last batch that ends at or below an offset."""
    return b"".join(
        batch.data
        for path in sorted(partition_directory.glob("*.log"))
        for batch in batches(path)
        if batch.end_offset <= end_offset
    )


def _unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value, position = _unsigned_varint(data, position)
    return (value >> 1) ^ -(value & 1), position


def _compact_string(data: bytes, position: int) -> tuple[str | None, int]:
    length, position = _unsigned_varint(data, position)
    if length == 0:
        return None, position
    return data[position : position + length - 1].decode(), position + length - 1
