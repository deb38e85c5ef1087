"""Batches as producers send them."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.broker.log.records import compressed, encode_record
from quorumd.protocol.batch_header import HEADER_SIZE, TRANSACTIONAL_BIT, BatchHeader, encode_header

Record = tuple[bytes | None, bytes | None]
"""(key, value)"""


def produced(
    records: Sequence[Record] = ((b"key", b"value"),),
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    codec: int = 0,
    timestamps: Sequence[int] = (),
    base_offset: int = 0,
    epoch: int = -1,
) -> bytes:
    """Encode a batch. `timestamps` has one per record, by default 1000 for each."""
    times = list(timestamps) or [1000] * len(records)
    payload = b"".join(
        [
            encode_record(delta, times[delta] - times[0], key, value)
            for delta, (key, value) in enumerate(records)
        ]
    )
    payload = compressed(payload, codec)
    batch = BatchHeader(
        position=0,
        size=HEADER_SIZE + len(payload),
        base_offset=base_offset,
        end_offset=base_offset + len(records),
        epoch=epoch,
        crc=0,
        attributes=codec | (TRANSACTIONAL_BIT if transactional else 0),
        timestamp_ms=times[0] if times else 1000,
        max_timestamp_ms=max(times, default=1000),
        producer_id=producer_id,
        producer_epoch=producer_epoch if producer_id >= 0 else -1,
        base_sequence=sequence,
        count=len(records),
    )
    return encode_header(batch, payload)
