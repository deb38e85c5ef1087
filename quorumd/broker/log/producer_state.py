"""Producer state of one partition: sequence numbers, epochs and open transactions (KIP-98, KIP-360, KIP-890).

A leader calls `duplicate_of` and `check` before it appends a batch; every replica calls `update` after an append. An
idempotent producer has at most five batches in flight, so the last five are enough to detect duplicates.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from quorumd.broker.log.transaction_marker import TransactionMarker
from quorumd.broker.log.validation import Origin
from quorumd.errors import ErrorCode, RequestError
from quorumd.protocol.batch_header import MAX_SEQUENCE, NO_PRODUCER, NO_TIMESTAMP, BatchHeader

REMEMBERED_BATCHES = 5
MAX_PRODUCERS = 5_000
"""Producers of a partition that are remembered: clients choose their ids. A producer that is forgotten can go on."""
_EXAMINED_PRODUCERS = 100
"""Producers among which one without an open transaction is forgotten: those with one need a transactional id."""
NO_OFFSET = -1
NO_PRODUCER_EPOCH = -1
MAX_PRODUCER_EPOCH = 2**15 - 1


class ProducedBatch(NamedTuple):
    """Sequence numbers and offsets of an appended batch."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class AbortedTransaction(NamedTuple):
    """An entry of the transaction index. `last_offset` is the offset of the abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerEntry:
    """The state of one producer."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "producer_id",
        "transaction_start",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp_ms: int = NO_TIMESTAMP,
        transaction_start: int = NO_OFFSET,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp_ms = last_timestamp_ms
        self.transaction_start = transaction_start
        """The first offset of the open transaction, NO_OFFSET if there is none."""
        self.batches: list[ProducedBatch] = []
        """The most recent batches of `epoch`, oldest first."""

    @property
    def last_sequence(self) -> int:
        """The last sequence number of `epoch`, -1 if unknown."""
        return self.batches[-1].last_sequence if self.batches else -1

    def __repr__(self) -> str:
        return (
            f"<producer {self.producer_id} epoch {self.epoch} sequence {self.last_sequence}, "
            f"transaction from {self.transaction_start}>"
        )


class ProducerStates:
    """The producer state of a log. `entries` is keyed by producer id; the producer of the last batch comes last."""

    __slots__ = ("_open", "_unreplicated", "entries")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self._open: dict[int, int] = {}
        """First offset of each open transaction -> producer id, in ascending order."""
        self._unreplicated: list[tuple[int, int]] = []
        """(first offset, marker offset) of completed transactions whose marker may be above the high watermark."""

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Replace the state by the entries of a snapshot."""
        self.entries = {entry.producer_id: entry for entry in entries}
        starts = [
            (entry.transaction_start, entry.producer_id)
            for entry in self.entries.values()
            if entry.transaction_start != NO_OFFSET
        ]
        self._open = dict(sorted(starts))
        self._unreplicated = []

    def duplicate_of(self, batch: BatchHeader) -> ProducedBatch | None:
        """The appended batch that a client's `batch` duplicates, or None."""
        entry = self.entries.get(batch.producer_id)
        if entry is None or entry.epoch != batch.producer_epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        for known in entry.batches:
            if known.base_sequence == first and known.last_sequence == last:
                return known
        return None

    def check(self, batch: BatchHeader, origin: Origin) -> None:
        """Raise RequestError unless a leader may append this batch."""
        entry = self.entries.get(batch.producer_id)
        if entry is None:
            return
        producer_epoch = batch.producer_epoch
        name = f"producer {batch.producer_id}"
        if producer_epoch < entry.epoch:
            raise RequestError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"{name} has epoch {producer_epoch}, below epoch {entry.epoch} in the log",
            )
        if origin is Origin.CLIENT:
            first = batch.base_sequence
            if producer_epoch != entry.epoch:
                in_sequence = first == 0 or entry.epoch == NO_PRODUCER_EPOCH
            else:
                last = entry.last_sequence
                in_sequence = first == last + 1 or (first == 0 and last == MAX_SEQUENCE)
            if not in_sequence:
                raise RequestError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"out of order sequence number of {name}: {first} of epoch {producer_epoch} follows "
                    f"{entry.last_sequence} of epoch {entry.epoch}",
                )
        if entry.transaction_start != NO_OFFSET and not batch.is_transactional:
            raise RequestError(
                ErrorCode.INVALID_TXN_STATE,
                f"{name} has an open transaction, but the batch is not transactional",
            )

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Raise RequestError unless a leader may append this marker.

        From transaction version 2 on, every marker has a higher producer epoch than its transaction (KIP-890).
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        is_raised = producer_epoch > entry.epoch or transaction_version < 2
        # After a failover, a coordinator resends markers whose transaction may have ended already.
        is_repeated = entry.transaction_start == NO_OFFSET or producer_epoch == MAX_PRODUCER_EPOCH
        if producer_epoch < entry.epoch or not (is_raised or is_repeated):
            raise RequestError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"the marker of producer {producer_id} has epoch {producer_epoch}; the log has epoch {entry.epoch}",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise RequestError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the marker of producer {producer_id} has coordinator epoch {coordinator_epoch}, below "
                f"{entry.coordinator_epoch} in the log",
            )

    def update(self, batch: BatchHeader, marker: TransactionMarker | None) -> AbortedTransaction | None:
        """Apply an appended batch. Returns the transaction that its marker aborts, or None."""
        if batch.producer_id == NO_PRODUCER:
            return None
        if batch.is_control and marker is None:
            return None  # Compaction removed the marker.
        entry = self.entries.pop(batch.producer_id, None)
        if entry is None:
            entry = ProducerEntry(batch.producer_id)
            if len(self.entries) >= MAX_PRODUCERS:
                self._forget_one()
        self.entries[batch.producer_id] = entry
        if entry.epoch != batch.producer_epoch:
            entry.batches.clear()
            entry.epoch = batch.producer_epoch
        entry.last_timestamp_ms = batch.max_timestamp_ms
        if marker is not None:
            return self._end_transaction(entry, batch.base_offset, marker)
        if len(entry.batches) == REMEMBERED_BATCHES:
            entry.batches.pop(0)
        entry.batches.append(
            ProducedBatch(
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.end_offset - 1,
                batch.max_timestamp_ms,
            )
        )
        if batch.is_transactional and entry.transaction_start == NO_OFFSET:
            entry.transaction_start = batch.base_offset
            self._open[batch.base_offset] = batch.producer_id
        return None

    def _forget_one(self) -> None:
        """Forget the producer without an open transaction that has been idle for longest."""
        for entry in islice(self.entries.values(), _EXAMINED_PRODUCERS):
            if entry.transaction_start == NO_OFFSET:
                del self.entries[entry.producer_id]
                return

    def _end_transaction(
        self, entry: ProducerEntry, offset: int, marker: TransactionMarker
    ) -> AbortedTransaction | None:
        entry.coordinator_epoch = marker.coordinator_epoch
        first_offset = entry.transaction_start
        if first_offset == NO_OFFSET:
            return None
        entry.transaction_start = NO_OFFSET
        self._open.pop(first_offset, None)
        self._unreplicated.append((first_offset, offset))
        if marker.is_commit:
            return None
        return AbortedTransaction(entry.producer_id, first_offset, offset, next(iter(self._open), offset + 1))

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has an open transaction of this epoch."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.transaction_start != NO_OFFSET and entry.epoch == producer_epoch

    def oldest_transaction(self) -> ProducerEntry | None:
        """The producer with the oldest open transaction, or None."""
        producer_id = next(iter(self._open.values()), None)
        return None if producer_id is None else self.entries.get(producer_id)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The smallest first offset of all transactions that are open or whose marker is not below the high
        watermark; None if there are none."""
        first = next(iter(self._open), None)
        if self._unreplicated:
            self._unreplicated = [entry for entry in self._unreplicated if entry[1] >= high_watermark]
            for start, _ in self._unreplicated:
                if first is None or start < first:
                    first = start
        return first

    def expire(self, wall_ms: int, expiration_ms: int) -> None:
        """Remove producers without an open transaction that have been idle for `expiration_ms`."""
        expired = [
            entry.producer_id
            for entry in self.entries.values()
            if entry.transaction_start == NO_OFFSET and wall_ms - entry.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self.entries[producer_id]
