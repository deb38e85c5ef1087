"""Decides, batch by batch in log order, which batches and records a compaction keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from quorumd.broker.log.producer_state import AbortedTransaction
from quorumd.broker.log.records import (
    ENCODABLE,
    GZIP,
    RecordSpan,
    all_records,
    compressed,
    with_timestamp_delta,
)
from quorumd.broker.log.transaction_marker import read_marker
from quorumd.protocol.batch_header import (
    COMPRESSION_MASK,
    DELETE_HORIZON_BIT,
    NO_TIMESTAMP,
    BatchHeader,
    encode_header,
)

_LONG_KEY_BYTES = 32
_DIGEST_BYTES = 16

LastRecords = Mapping[int, tuple[int, int]]
"""Producer id -> (offset of its last record, -1 if only a marker is known, producer epoch)."""


def map_key(key: bytes) -> bytes:
    """The key in the offset map: the record's key, or its digest if it is long."""
    return key if len(key) <= _LONG_KEY_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


class TransactionFilter:
    """Tracks the transactions of a log. Expects every batch once, in log order."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._pending = sorted(aborted, key=_first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_records: set[int] = set()
        """Ids of the producers whose current transaction has batches."""
        self.kept: list[AbortedTransaction] = []
        """Entries of the transaction index to keep: aborted transactions that still have batches."""

    def is_obsolete(self, data: bytes, batch: BatchHeader) -> bool:
        """Whether a batch belongs to an aborted transaction, or is the marker of a transaction without batches."""
        while self._pending and self._pending[-1].first_offset < batch.end_offset:
            entry = self._pending.pop()
            self._aborted.setdefault(entry.producer_id, entry)
        producer_id = batch.producer_id
        if not batch.is_control:
            if batch.is_transactional:
                self._with_records.add(producer_id)
            return batch.is_transactional and producer_id in self._aborted
        marker = read_marker(data, batch)
        has_records = producer_id in self._with_records
        self._with_records.discard(producer_id)
        if marker is not None and not marker.is_commit:
            aborted = self._aborted.pop(producer_id, None)
            if aborted is not None and has_records:
                self.kept.append(aborted)
        return marker is None or not has_records


def _first_offset(entry: AbortedTransaction) -> int:
    return entry.first_offset


class BatchFilter:
    """Compacts the batches of a log in order. `offsets` is the offset map, keyed by `map_key`, and `end_offset` the
    end of the batches that it covers; later ones are kept."""

    def __init__(
        self,
        offsets: Mapping[bytes, int],
        end_offset: int,
        last_records: LastRecords,
        high_watermark: int,
        wall_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self.unread = 0
        """The number of batches that are kept unchanged because their records cannot be read (`all_records`)."""
        self._offsets = offsets
        self._end_offset = end_offset
        self._last_records = last_records
        self._high_watermark = high_watermark
        self._wall_ms = wall_ms
        self._delete_retention_ms = delete_retention_ms

    def compacted(self, data: bytes, batch: BatchHeader, is_obsolete: bool) -> bytes:
        """The encoded batch that remains, b"" if it is removed. Raises MalformedMessage for a malformed marker."""
        original = data[batch.position : batch.position + batch.size]
        if batch.base_offset >= self._end_offset:
            return original
        horizon_ms = batch.delete_horizon_ms
        has_passed = horizon_ms != NO_TIMESTAMP and horizon_ms <= self._wall_ms
        if batch.is_control:
            if not is_obsolete or (batch.count and horizon_ms != NO_TIMESTAMP and not has_passed):
                return original
            if batch.count and not has_passed:
                return self._with_horizon(original, batch)
            return self._emptied(batch)
        if is_obsolete:
            return self._emptied(batch)
        found = all_records(data, batch)
        if found is None:
            self.unread += 1
            return original
        payload, spans = found
        # A batch that cannot be read may have an earlier value of the key.
        removes_tombstones = has_passed and not self.unread
        kept = [span for span in spans if self._is_kept(payload, batch, span, removes_tombstones)]
        if not kept:
            return self._emptied(batch)
        has_tombstones = any(span.value_start < 0 for span in kept)
        if has_tombstones and horizon_ms == NO_TIMESTAMP:
            return self._rewritten(payload, kept, batch, self._wall_ms + self._delete_retention_ms)
        if len(kept) == len(spans):
            return original
        return self._rewritten(payload, kept, batch, NO_TIMESTAMP)

    def _is_kept(
        self, payload: bytes, batch: BatchHeader, span: RecordSpan, removes_tombstones: bool
    ) -> bool:
        if span.key_start < 0 or (span.value_start < 0 and removes_tombstones):
            return False
        key = map_key(payload[span.key_start : span.key_end])
        return batch.base_offset + span.offset_delta >= self._offsets.get(key, -1)

    def _with_horizon(self, original: bytes, batch: BatchHeader) -> bytes:
        found = all_records(original, _standalone(batch))
        if found is None:
            return original
        return self._rewritten(*found, batch, self._wall_ms + self._delete_retention_ms)

    def _rewritten(
        self, payload: bytes, kept: Sequence[RecordSpan], batch: BatchHeader, horizon_ms: int
    ) -> bytes:
        """The batch with the `kept` records. `horizon_ms` is its new delete horizon, which is stored as its base
        timestamp; NO_TIMESTAMP leaves the base timestamp unchanged."""
        changed = _standalone(batch)
        changed.count = len(kept)
        if not batch.has_log_append_time:
            changed.max_timestamp_ms = batch.timestamp_ms + max([span.timestamp_delta for span in kept])
        if horizon_ms == NO_TIMESTAMP:
            parts = [payload[span.start : span.end] for span in kept]
        else:
            shift = batch.timestamp_ms - horizon_ms
            changed.timestamp_ms = horizon_ms
            changed.attributes |= DELETE_HORIZON_BIT
            parts = [with_timestamp_delta(payload, span, span.timestamp_delta + shift) for span in kept]
        if batch.codec not in ENCODABLE:
            changed.attributes = changed.attributes & ~COMPRESSION_MASK | GZIP
        return encode_header(changed, compressed(b"".join(parts), changed.codec))

    def _emptied(self, batch: BatchHeader) -> bytes:
        """The batch without records if it is the last one of an active producer or ends at the high watermark;
        otherwise b""."""
        last_offset, producer_epoch = self._last_records.get(batch.producer_id, (-2, -1))
        is_last = last_offset == batch.end_offset - 1 or (
            last_offset == -1 and batch.is_control and producer_epoch == batch.producer_epoch
        )
        if not is_last and batch.end_offset != self._high_watermark:
            return b""
        empty = _standalone(batch)
        empty.attributes &= ~(COMPRESSION_MASK | DELETE_HORIZON_BIT)
        empty.timestamp_ms = NO_TIMESTAMP
        empty.count = 0
        return encode_header(empty, b"")


def _standalone(batch: BatchHeader) -> BatchHeader:
    """A copy of a header at position 0."""
    return BatchHeader(
        0,
        batch.size,
        batch.base_offset,
        batch.end_offset,
        batch.epoch,
        batch.crc,
        batch.attributes,
        batch.timestamp_ms,
        batch.max_timestamp_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.count,
    )
