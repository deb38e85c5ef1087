"""Producer state snapshots in the format of Kafka's `%020d.snapshot`, named by their end offset.

    version i16 = 1 | CRC-32C of the rest u32 | count i32 | count entries:
    producer id i64 | producer epoch i16 | last sequence i32 | last offset i64 | offset delta i32 | timestamp i64
    coordinator epoch i32 | first offset of the open transaction i64, -1 if there is none

A snapshot has only the last batch of each producer. The offset delta is the last offset of that batch minus its
base offset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from struct import Struct

from crc32c import crc32c

from quorumd.broker.log.producer_state import ProducedBatch, ProducerEntry
from quorumd.errors import MalformedMessage
from quorumd.protocol.batch_header import MAX_SEQUENCE

SUFFIX = ".snapshot"
_VERSION = 1
_BEFORE_ENTRIES = Struct(">hIi")
_CRC_END = 6
_ENTRY = Struct(">qhiqiqiq")
_NAME = re.compile(r"([0-9]{20})" + re.escape(SUFFIX))


def snapshot_path(directory: str, end_offset: int) -> str:
    """The path of the snapshot at `end_offset`."""
    return f"{directory}/{end_offset:020d}{SUFFIX}"


def parse_snapshot_name(name: str) -> int | None:
    """The end offset in the file name of a snapshot; None for other files."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Encode the content of the file."""
    packed = [_packed(entry) for entry in entries]
    rest = b"".join([len(packed).to_bytes(4, "big"), *packed])
    return _VERSION.to_bytes(2, "big") + crc32c(rest).to_bytes(4, "big") + rest


def _packed(entry: ProducerEntry) -> bytes:
    last_sequence, last_offset, offset_delta = -1, -1, 0
    if entry.batches:
        last = entry.batches[-1]
        last_sequence, last_offset = last.last_sequence, last.last_offset
        offset_delta = last.last_offset - last.base_offset
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last_sequence,
        last_offset,
        offset_delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        entry.transaction_start,
    )


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Decode the content of the file. Raises MalformedMessage."""
    if len(data) < _BEFORE_ENTRIES.size:
        raise MalformedMessage(f"a producer snapshot of {len(data)} bytes is too short")
    version, crc, count = _BEFORE_ENTRIES.unpack_from(data)
    if version != _VERSION or crc32c(data[_CRC_END:]) != crc:
        raise MalformedMessage(
            f"the producer snapshot has version {version} (expected {_VERSION}) or a wrong CRC"
        )
    if count < 0 or len(data) != _BEFORE_ENTRIES.size + count * _ENTRY.size:
        raise MalformedMessage(
            f"the producer snapshot has {len(data)} bytes, which does not fit {count} entries"
        )
    return [_unpacked(data, _BEFORE_ENTRIES.size + index * _ENTRY.size) for index in range(count)]


def _unpacked(data: bytes, position: int) -> ProducerEntry:
    (
        producer_id,
        epoch,
        last_sequence,
        last_offset,
        offset_delta,
        timestamp_ms,
        coordinator_epoch,
        transaction_start,
    ) = _ENTRY.unpack_from(data, position)
    entry = ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp_ms, transaction_start)
    if last_offset >= 0:
        base_sequence = (last_sequence - offset_delta) & MAX_SEQUENCE if last_sequence >= 0 else -1
        entry.batches.append(
            ProducedBatch(base_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp_ms)
        )
    return entry
