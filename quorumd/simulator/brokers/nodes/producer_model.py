"""Derives the producers of a log from its batches alone; an oracle without code of the brokers' producer state."""

from __future__ import annotations

from typing import Final, NamedTuple

from quorumd.protocol.batch_header import NO_PRODUCER, BatchHeader
from quorumd.simulator.checkers.base import InvariantViolation

NONE: Final = -1


class ProducerBatch(NamedTuple):
    """A batch or marker of a producer."""

    offset: int
    producer_id: int
    epoch: int
    last_sequence: int
    is_transactional: bool
    is_marker: bool


class KnownProducer(NamedTuple):
    """The state of one producer."""

    epoch: int
    last_sequence: int
    transaction: int
    """The first offset of its open transaction, -1 without one."""
    offset: int
    """The offset of its newest batch or marker."""


class ProducerModel:
    """The producers of one log."""

    __slots__ = ("_batches", "newest", "transactions")

    def __init__(self) -> None:
        self.newest: dict[int, KnownProducer] = {}
        """The state of each producer, by producer id."""
        self.transactions: list[tuple[int, int]] = []
        """The first offset and the marker's offset of every transaction that has ended since the log was loaded."""
        self._batches: list[ProducerBatch] = []

    def add(self, batch: BatchHeader) -> None:
        """Add the next batch of the log. Raises InvariantViolation for a producer epoch below an earlier one."""
        is_known = self._batches and batch.base_offset <= self._batches[-1].offset
        if batch.producer_id == NO_PRODUCER or is_known:
            return
        added = ProducerBatch(
            batch.base_offset,
            batch.producer_id,
            batch.producer_epoch,
            batch.last_sequence,
            batch.is_transactional,
            batch.is_control,
        )
        self._batches.append(added)
        self._apply(added)

    def truncate(self, end_offset: int) -> None:
        """Remove the batches from this offset on."""
        kept = [batch for batch in self._batches if batch.offset < end_offset]
        if len(kept) < len(self._batches):
            self._batches = kept
            self.newest, self.transactions = {}, []
            for batch in kept:
                self._apply(batch)
            self.loaded()

    def loaded(self) -> None:
        """Record that the broker has loaded a producer snapshot: like Kafka, it then considers ended transactions as
        completed, whether or not their markers are committed."""
        self.transactions.clear()

    def _apply(self, batch: ProducerBatch) -> None:
        before = self.newest.get(batch.producer_id, KnownProducer(NONE, NONE, NONE, NONE))
        if batch.epoch < before.epoch:
            raise InvariantViolation(
                "the epoch of a producer never decreases in a log",
                f"{batch} follows {before}",
            )
        transaction = before.transaction
        if batch.is_marker:
            sequence = before.last_sequence if batch.epoch == before.epoch else NONE
            if transaction != NONE:
                self.transactions.append((transaction, batch.offset))
            transaction = NONE
        else:
            sequence = batch.last_sequence
            if batch.is_transactional and transaction == NONE:
                transaction = batch.offset
        self.newest[batch.producer_id] = KnownProducer(batch.epoch, sequence, transaction, batch.offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the offset below which every transaction has a committed marker, at most the high watermark."""
        unstable = [each.transaction for each in self.newest.values() if each.transaction != NONE]
        unstable += [first for first, marker in self.transactions if marker >= high_watermark]
        return min([high_watermark, *unstable])
