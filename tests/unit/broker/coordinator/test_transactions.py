"""The transaction coordinator: who may go on, what is concurrent, timeouts and forgotten ids."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.broker.coordinator.shards import EXPIRED_PER_SLICE
from quorumd.broker.coordinator.transaction import Transaction, TransactionState
from quorumd.broker.coordinator.transactions import (
    CHANGED_AT_ONCE,
    VISITED_AT_ONCE,
    ProducerResult,
    TransactionCoordinator,
)
from quorumd.broker.settings.coordinator_settings import TransactionSettings
from quorumd.errors import ErrorCode
from tests.support.broker.coordinator_shards import CoordinatorShard
from tests.support.call_counter import CallCounter

PARTITION = TopicPartition("topic", 0)
SETTINGS = TransactionSettings(id_expiration_ms=100_000, remove_expired_interval_ms=30_000)
OTHER = (99, 0)
NEW = (-1, -1)


class Coordinator:
    """One partition with its log; `markers` are those that it wants to be written."""

    def __init__(self) -> None:
        self.markers: list[tuple[str, Transaction]] = []
        self.shard = CoordinatorShard(
            "transaction",
            "__transaction_state",
            lambda: TransactionCoordinator(SETTINGS, lambda *marker: self.markers.append(marker)),
        )
        self._producer_ids: Iterator[int] = iter(range(7, 1000))

    def init(self, expected: tuple[int, int] = NEW, timeout_ms: int = 20_000) -> ProducerResult | None:
        results: list[ProducerResult] = []
        new = next(self._producer_ids)
        self.shard.run(
            lambda machine, times: machine.init("t", timeout_ms, expected, new, times, results.append)
        )
        return results[0] if results else None

    def add(self, producer: ProducerResult, *partitions: TopicPartition) -> ErrorCode | None:
        results: list[ErrorCode] = []
        added = frozenset(partitions or (PARTITION,))
        self.shard.run(
            lambda machine, times: machine.add_partitions(
                "t", producer.producer_id, producer.epoch, added, 1, times, results.append
            )
        )
        return results[0] if results else None

    def end(
        self, producer: ProducerResult, is_commit: bool = True, version: int = 1
    ) -> ProducerResult | None:
        results: list[ProducerResult] = []
        self.shard.run(
            lambda machine, times: machine.end(
                "t", producer.producer_id, producer.epoch, is_commit, version, -1, times, results.append
            )
        )
        return results[0] if results else None

    def verify(self, producer: ProducerResult) -> ErrorCode | None:
        results: list[dict[TopicPartition, ErrorCode]] = []
        partitions = frozenset({PARTITION})
        self.shard.run(
            lambda machine, times: machine.verify(
                "t", producer.producer_id, producer.epoch, partitions, results.append
            )
        )
        return results[0][PARTITION] if results else None

    def write_markers(self) -> None:
        for transactional_id, transaction in self.markers:
            self.shard.run(
                lambda machine, times, each=(transactional_id, transaction): machine.markers_written(
                    *each, times
                )
            )
        self.markers.clear()

    @property
    def transaction(self) -> Transaction | None:
        return self.shard.machine.transactions.get("t")


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def begun(coordinator: Coordinator) -> ProducerResult:
    producer = coordinator.init()
    assert producer is not None
    assert coordinator.add(producer) is ErrorCode.NONE
    return producer


def test_timeout_of_a_transaction_has_bounds(coordinator: Coordinator) -> None:
    for timeout_ms in (0, SETTINGS.max_timeout_ms + 1):
        assert coordinator.init(timeout_ms=timeout_ms) == ProducerResult(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT
        )
    assert coordinator.transaction is None


def test_producer_that_the_coordinator_does_not_know_is_fenced(coordinator: Coordinator) -> None:
    unknown = ProducerResult(ErrorCode.NONE, *OTHER)
    assert coordinator.end(unknown) == ProducerResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    producer = begun(coordinator)
    assert coordinator.init(expected=OTHER) == ProducerResult(ErrorCode.PRODUCER_FENCED)
    assert coordinator.verify(unknown) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.add(unknown) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.end(unknown) == ProducerResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert coordinator.end(producer._replace(epoch=5)) == ProducerResult(ErrorCode.PRODUCER_FENCED)


def test_producer_whose_transactional_id_has_expired_gets_a_new_producer_id(coordinator: Coordinator) -> None:
    """It recovers from INVALID_PRODUCER_ID_MAPPING with the id that it had."""
    producer = coordinator.init(expected=OTHER)
    assert producer is not None
    assert (producer.error, producer.epoch) == (ErrorCode.NONE, 0)
    assert producer.producer_id != OTHER[0]


@pytest.mark.parametrize("producer", ["same", "next epoch", "next producer id"])
@pytest.mark.parametrize("is_commit", [False, True])
def test_next_transaction_waits_for_the_markers_of_the_previous_one(
    coordinator: Coordinator, producer: str, is_commit: bool
) -> None:
    """With transaction.version 2 a client may have an empty transaction to abort before they are written."""
    first = begun(coordinator)
    ended = coordinator.end(first, version=2)
    assert ended is not None
    assert ended.error is ErrorCode.NONE
    given = {"same": first, "next epoch": ended, "next producer id": ended._replace(producer_id=99, epoch=0)}
    waiting = coordinator.end(given[producer], is_commit, version=2)
    assert waiting == ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert coordinator.add(given[producer]) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    aborted = coordinator.end(ended, False, version=2)
    assert aborted is not None
    assert aborted.error is ErrorCode.NONE


def test_partition_counts_only_once_its_record_is_committed(coordinator: Coordinator) -> None:
    """After a failover the next coordinator would not know that it needs a marker."""
    producer = coordinator.init()
    assert producer is not None
    coordinator.shard.log.is_replicating = False
    assert coordinator.add(producer) is None
    coordinator.shard.pass_ms(5_000)
    assert coordinator.add(producer) is None, "a retry of what timed out"
    assert coordinator.verify(producer) is None
    coordinator.shard.replicate()
    assert coordinator.add(producer) is ErrorCode.NONE
    assert coordinator.verify(producer) is ErrorCode.NONE


def test_change_that_is_not_replicated_makes_others_concurrent(coordinator: Coordinator) -> None:
    producer = begun(coordinator)
    coordinator.shard.log.is_replicating = False
    assert coordinator.add(producer, TopicPartition("topic", 1)) is None
    assert coordinator.init() == ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert coordinator.add(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.verify(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.end(producer) == ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    coordinator.shard.replicate()
    assert coordinator.verify(producer) is ErrorCode.NONE
    assert coordinator.end(producer) == ProducerResult(ErrorCode.NONE, producer.producer_id, 0)


def test_ending_transaction_makes_others_concurrent(coordinator: Coordinator) -> None:
    producer = begun(coordinator)
    coordinator.end(producer)
    assert coordinator.init() == ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert coordinator.add(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.verify(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.end(producer) == ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert coordinator.end(producer, is_commit=False) == ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    coordinator.write_markers()
    assert coordinator.verify(producer) is ErrorCode.TRANSACTION_ABORTABLE
    assert coordinator.init() == ProducerResult(ErrorCode.NONE, producer.producer_id, 1)


def test_client_of_version_1_cannot_end_what_never_began(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    assert producer is not None
    assert coordinator.end(producer, is_commit=False) == ProducerResult(ErrorCode.INVALID_TXN_STATE)


def test_refused_append_is_reported_and_changes_nothing(coordinator: Coordinator) -> None:
    producer = begun(coordinator)
    coordinator.shard.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    result = coordinator.end(producer)
    assert result is not None
    assert result.error is not ErrorCode.NONE
    assert coordinator.markers == []
    assert coordinator.transaction is not None
    assert coordinator.transaction.state is TransactionState.ONGOING


def test_transaction_that_lasts_too_long_is_aborted(coordinator: Coordinator) -> None:
    producer = begun(coordinator)
    coordinator.shard.pass_ms(15_000)
    assert coordinator.verify(producer) is ErrorCode.NONE
    coordinator.shard.pass_ms(20_000)
    assert coordinator.transaction is not None
    assert coordinator.transaction.state is TransactionState.PREPARE_ABORT
    assert coordinator.end(producer) == ProducerResult(ErrorCode.PRODUCER_FENCED)
    coordinator.write_markers()
    assert coordinator.transaction is not None
    assert coordinator.transaction.state is TransactionState.COMPLETE_ABORT


def test_transaction_begun_by_a_clock_ahead_times_out_by_the_local_clock(coordinator: Coordinator) -> None:
    begun(coordinator)
    coordinator.shard.time.machine.wall_offset_ms -= 1_000_000
    coordinator.shard.fail_over()
    coordinator.shard.pass_ms(15_000)
    assert coordinator.transaction is not None
    assert coordinator.transaction.state is TransactionState.ONGOING
    coordinator.shard.pass_ms(30_000)
    assert coordinator.transaction is not None
    assert coordinator.transaction.state is TransactionState.PREPARE_ABORT


def test_new_producer_aborts_the_open_transaction_once(coordinator: Coordinator) -> None:
    begun(coordinator)
    coordinator.shard.log.is_replicating = False
    assert coordinator.init() == ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    coordinator.shard.pass_ms(60_000)
    assert coordinator.markers == [], "the decision is not replicated"


def test_unused_id_is_forgotten(coordinator: Coordinator) -> None:
    begun(coordinator)
    coordinator.shard.pass_ms(60_000)
    coordinator.write_markers()
    coordinator.shard.pass_ms(60_000)
    assert coordinator.transaction is not None, "not for the time of its expiration"
    coordinator.shard.pass_ms(90_000)
    assert coordinator.transaction is None
    coordinator.shard.fail_over()
    assert coordinator.transaction is None


def test_new_leader_writes_the_markers_of_ending_transactions(coordinator: Coordinator) -> None:
    producer = begun(coordinator)
    coordinator.end(producer)
    first = coordinator.markers[:]
    coordinator.markers.clear()
    coordinator.shard.fail_over()
    assert coordinator.markers == first
    coordinator.write_markers()
    assert coordinator.transaction is not None
    assert coordinator.transaction.state is TransactionState.COMPLETE_COMMIT


def test_late_markers_of_an_earlier_transaction_change_nothing(coordinator: Coordinator) -> None:
    producer = begun(coordinator)
    coordinator.end(producer)
    late = coordinator.markers[:]
    coordinator.write_markers()
    assert coordinator.add(producer) is ErrorCode.NONE
    coordinator.markers += late
    coordinator.write_markers()
    assert coordinator.transaction is not None
    assert coordinator.transaction.state is TransactionState.ONGOING


@pytest.mark.parametrize("state", [TransactionState.EMPTY, TransactionState.ONGOING])
def test_ids_that_expire_together_are_handled_in_slices(
    coordinator: Coordinator, state: TransactionState
) -> None:
    """Clients make up transactional ids: all that had expired or timed out were handled in one turn."""
    machine, log, heap = coordinator.shard.machine, coordinator.shard.log, coordinator.shard.time.heap
    at_once = CHANGED_AT_ONCE * EXPIRED_PER_SLICE
    for number in range(3 * at_once):
        machine.transactions[f"t{number}"] = Transaction(number, 0, 1, state=state, start_ms=0, update_ms=0)
    written = [len(log.records("transaction"))]
    until_ms = heap.now_ms + 150_000
    while written[-1] - written[0] < 3 * at_once and heap.step(until_ms):
        written.append(len(log.records("transaction")))
    assert written[-1] - written[0] == 3 * at_once
    assert max(after - before for before, after in pairwise(written)) <= at_once


def test_many_ids_are_visited_in_slices(coordinator: Coordinator) -> None:
    """Also if none of them has expired."""
    machine = coordinator.shard.machine
    longest = []
    for count in (2, 6):
        total = count * VISITED_AT_ONCE * EXPIRED_PER_SLICE
        machine.transactions.update(
            (f"t{number}", Transaction(number, 0, 1, update_ms=10**15)) for number in range(total)
        )
        calls = CallCounter()
        until_ms = coordinator.shard.time.heap.now_ms + 30_000
        is_stepping = True
        while is_stepping:
            with calls.counted():
                is_stepping = coordinator.shard.time.heap.step(until_ms)
        longest.append(calls.longest)
    assert longest[1] <= 1.2 * longest[0]
