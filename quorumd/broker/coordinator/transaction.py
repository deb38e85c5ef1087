"""A transactional id: its producer and its transaction, and the record of both."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.broker.coordinator.records import CoordinatorRecord
from quorumd.protocol.messages.transaction_log_key import TransactionLogKey
from quorumd.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue

NO_PRODUCER_EPOCH: Final = -1
MAX_PRODUCER_EPOCH: Final = 2**15 - 1
TRANSACTION_V2: Final = 2
"""The transaction.version from which on every transaction bumps the producer epoch (KIP-890)."""


class TransactionState(Enum):
    """The states of a transaction, with their values in the record and the names that Kafka's tools print."""

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    @property
    def title(self) -> str:
        """The name that Kafka's tools print."""
        return self.value[1]


STATES: Final = {state.value[0]: state for state in TransactionState}
ENDING: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
ENDED: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class Transaction(NamedTuple):
    """The state of a transactional id."""

    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    update_ms: int = -1
    last_epoch: int = NO_PRODUCER_EPOCH
    """The producer epoch before the last change, for retried requests."""
    previous_id: int = -1
    """The producer id before the last change, for retried requests."""
    next_id: int = -1
    """The producer id after this transaction, if the epochs of the current producer id are used up."""
    version: int = 0
    """The transaction.version of the client."""


def transaction_record(transactional_id: str, transaction: Transaction) -> CoordinatorRecord:
    """Return the record of a transactional id."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    has_version = transaction.version > 0
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.value[0],
        transaction_partitions=None
        if transaction.state is TransactionState.EMPTY
        else [PartitionsSchema(topic, numbers) for topic, numbers in topics.items()],
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    if has_version:
        value.previous_producer_id = transaction.previous_id
        value.next_producer_id = transaction.next_id
        value.client_transaction_version = transaction.version
    return CoordinatorRecord(TransactionLogKey(transactional_id), value, int(has_version))


def transaction_from_record(value: TransactionLogValue) -> Transaction:
    """Return the transaction of a record."""
    partitions = frozenset(
        TopicPartition(topic.topic, number)
        for topic in value.transaction_partitions or ()
        for number in topic.partition_ids
    )
    return Transaction(
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        STATES[value.transaction_status],
        partitions,
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        NO_PRODUCER_EPOCH,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
    )
