"""Transaction markers: the control batches that end a transaction, written for the transaction coordinator.

key     version i16 = 0 | type i16: 0 abort, 1 commit
value   version i16 = 0 | coordinator epoch i32
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from quorumd.broker.log.leader_epochs import NO_EPOCH
from quorumd.broker.log.records import encode_record, record_spans
from quorumd.errors import MalformedMessage
from quorumd.protocol.batch_header import (
    CONTROL_BIT,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    encode_header,
)

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
ABORT = 0
COMMIT = 1


class TransactionMarker(NamedTuple):
    """A commit or abort marker."""

    is_commit: bool
    coordinator_epoch: int


def read_marker(data: bytes, batch: BatchHeader) -> TransactionMarker | None:
    """The marker in a complete control batch.

    None if compaction has removed the marker, and for control records of other types. Raises MalformedMessage.
    """
    if batch.count == 0:
        return None
    payload = data[batch.position + HEADER_SIZE : batch.position + batch.size]
    span = next(iter(record_spans(payload, 1)))
    if span.key_end - span.key_start < _KEY.size or span.value_end - span.value_start < _VALUE.size:
        raise MalformedMessage(f"control batch at offset {batch.base_offset}: the record is not a marker")
    _, kind = _KEY.unpack_from(payload, span.key_start)
    if kind not in (ABORT, COMMIT):
        return None
    _, coordinator_epoch = _VALUE.unpack_from(payload, span.value_start)
    return TransactionMarker(kind == COMMIT, coordinator_epoch)


def encode_marker(
    producer_id: int, producer_epoch: int, marker: TransactionMarker, timestamp_ms: int
) -> bytes:
    """Encode a control batch with base offset 0."""
    key = _KEY.pack(0, COMMIT if marker.is_commit else ABORT)
    record = encode_record(0, 0, key, _VALUE.pack(0, marker.coordinator_epoch))
    batch = BatchHeader(
        position=0,
        size=HEADER_SIZE + len(record),
        base_offset=0,
        end_offset=1,
        epoch=NO_EPOCH,
        crc=0,
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
        timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1,
        count=1,
    )
    return encode_header(batch, record)
