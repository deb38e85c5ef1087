"""Encodes and decodes coordinator records in record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from quorumd.broker.log.records import (
    MAX_DECOMPRESSED_BYTES,
    decompressed,
    encode_record,
    record_spans,
)
from quorumd.broker.log.transaction_marker import read_marker
from quorumd.errors import CorruptLog, MalformedMessage, UnsupportedVersion
from quorumd.protocol.batch_header import HEADER_SIZE, TRANSACTIONAL_BIT, BatchHeader, encode_header
from quorumd.protocol.batch_scan import Ascending, scan
from quorumd.protocol.coordinator_record import decode_key, decode_value, encode_key, encode_value
from quorumd.protocol.wire import Message

NO_PRODUCER = -1


class CoordinatorRecord(NamedTuple):
    """A key and a value, which is encoded in `version`; a value of None is a tombstone."""

    key: Message
    value: Message | None = None
    version: int = 0


class LoadedRecord(NamedTuple):
    """A record of the log; `producer_id` is set if it is part of a transaction."""

    offset: int
    key: Message
    value: Message | None
    producer_id: int = NO_PRODUCER
    producer_epoch: int = -1


class LoadedMarker(NamedTuple):
    """A transaction marker of the log."""

    offset: int
    producer_id: int
    producer_epoch: int
    is_commit: bool


def encode_records(
    records: Sequence[CoordinatorRecord],
    wall_ms: int,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
) -> bytes:
    """Encode the records as one batch with base offset 0, transactional if a producer id is given."""
    payload = b"".join(
        encode_record(
            index,
            0,
            encode_key(record.key),
            None if record.value is None else encode_value(record.value, record.version),
        )
        for index, record in enumerate(records)
    )
    batch = BatchHeader(
        position=0,
        size=HEADER_SIZE + len(payload),
        base_offset=0,
        end_offset=len(records),
        epoch=-1,
        crc=0,
        attributes=TRANSACTIONAL_BIT if producer_id != NO_PRODUCER else 0,
        timestamp_ms=wall_ms,
        max_timestamp_ms=wall_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1,
        count=len(records),
    )
    return encode_header(batch, payload)


def decode_records(coordinator: str, data: bytes) -> Iterator[LoadedRecord | LoadedMarker]:
    """Iterate over the records and markers of whole batches; records of unknown types are skipped.

    Raises CorruptLog for a batch that cannot be read.
    """
    found = scan(data, Ascending(with_crc=False))
    if found.fault and not found.headers:
        raise CorruptLog(f"the records of the {coordinator} coordinator cannot be read: {found.fault}")
    for batch in found.headers:
        try:
            yield from _decode_batch(coordinator, data, batch)
        except MalformedMessage as fault:
            raise CorruptLog(
                f"the batch of the {coordinator} coordinator at offset {batch.base_offset} is malformed: {fault}"
            ) from None


def _decode_batch(coordinator: str, data: bytes, batch: BatchHeader) -> Iterator[LoadedRecord | LoadedMarker]:
    if batch.is_control:
        marker = read_marker(data, batch)
        if marker is not None:
            yield LoadedMarker(batch.base_offset, batch.producer_id, batch.producer_epoch, marker.is_commit)
        return
    payload = decompressed(data, batch)
    if payload is None:
        raise MalformedMessage(
            f"compression codec {batch.codec} is not supported, or the records are larger than "
            f"{MAX_DECOMPRESSED_BYTES} bytes"
        )
    producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER
    for span in record_spans(payload, batch.count):
        if span.key_start < 0:
            continue
        try:
            key = decode_key(coordinator, payload[span.key_start : span.key_end])
            value = None
            if span.value_start >= 0:
                value = decode_value(coordinator, key, payload[span.value_start : span.value_end])
        except UnsupportedVersion:
            continue
        yield LoadedRecord(
            batch.base_offset + span.offset_delta, key, value, producer_id, batch.producer_epoch
        )
