"""The transaction coordinator: the state machine of a partition of __transaction_state."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from quorumd.broker.coordinator.classic_membership import append_error
from quorumd.broker.coordinator.effects import Deadlines, Outbox, Times, Write
from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.broker.coordinator.records import CoordinatorRecord, LoadedMarker, LoadedRecord
from quorumd.broker.coordinator.transaction import (
    ENDED,
    ENDING,
    MAX_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    TRANSACTION_V2,
    Transaction,
    TransactionState,
    transaction_from_record,
    transaction_record,
)
from quorumd.broker.settings.coordinator_settings import TransactionSettings
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.transaction_log_key import TransactionLogKey
from quorumd.protocol.messages.transaction_log_value import TransactionLogValue

logger = logging.getLogger("quorumd.broker")

TIMEOUTS: Final = "timeouts"
EXPIRY: Final = "expiry"
VISITED_AT_ONCE: Final = 250
CHANGED_AT_ONCE: Final = 16
"""Transactional ids that are visited and changed per deadline, of which a slice handles `EXPIRED_PER_SLICE`."""


class ProducerResult(NamedTuple):
    """The result of a request: an error, or the producer id and epoch to use next."""

    error: ErrorCode
    producer_id: int = -1
    epoch: int = -1


ProducerResponder = Callable[[ProducerResult], None]
MarkerSender = Callable[[str, Transaction], None]
"""Writes the markers of an ending transaction, then calls `TransactionCoordinator.markers_written`."""


class TransactionCoordinator:
    """The transactional ids of one partition.

    While a change of a transactional id is not committed, requests for it fail with CONCURRENT_TRANSACTIONS; clients
    retry them.
    """

    def __init__(self, settings: TransactionSettings, send_markers: MarkerSender) -> None:
        self.outbox = Outbox()
        self.transactions: dict[str, Transaction] = {}
        self._settings = settings
        self._send_markers = send_markers
        self._changing: set[str] = set()
        self._deadlines: Deadlines[str] = Deadlines()
        self._unvisited: dict[str, deque[str]] = {}
        """By kind of deadline, the transactional ids that are still to be visited."""
        self._ending: list[str] = []
        """The ending transactions among those that were visited for timeouts."""

    # Loading and unloading

    def replay(self, record: LoadedRecord, times: Times) -> None:
        """Apply a record of the log."""
        del times
        key, value = record.key, record.value
        if isinstance(key, TransactionLogKey):
            if isinstance(value, TransactionLogValue):
                self.transactions[key.transactional_id] = transaction_from_record(value)
            else:
                self.transactions.pop(key.transactional_id, None)

    def replay_marker(self, marker: LoadedMarker, times: Times) -> None:
        """Ignore the marker: no transaction writes to this topic."""

    def loaded(self, times: Times) -> None:
        """Set the first deadlines, and resume transactions that were ending."""
        self._deadlines.set(TIMEOUTS, times.now_ms + self._settings.abort_timed_out_interval_ms)
        self._deadlines.set(EXPIRY, times.now_ms + self._settings.remove_expired_interval_ms)
        self._resend_markers([each for each, known in self.transactions.items() if known.state in ENDING])

    def _resend_markers(self, transactional_ids: Sequence[str]) -> None:
        """Send the markers of ending transactions, once the decision is committed."""

        def completed(error: ErrorCode, times: Times) -> None:
            del times
            for transactional_id in transactional_ids if error is ErrorCode.NONE else ():
                known = self.transactions.get(transactional_id)
                if known is not None and known.state in ENDING:
                    self._send_markers(transactional_id, known)

        if transactional_ids:
            self.outbox.add(Write([], completed=completed))

    def unload(self) -> None:
        """Do nothing: every pending request fails with the write that it waits for."""

    def next_deadline(self) -> float | None:
        """Return the earliest deadline, None if there is none."""
        return self._deadlines.next()

    def expire_next(self, times: Times) -> bool:
        """Abort transactions that timed out, or remove expired transactional ids; return False if neither is due."""
        key = self._deadlines.pop_due(times.now_ms)
        if key is None:
            return False
        settings = self._settings
        if key == EXPIRY:
            self._visit(key, self._remove_if_expired, settings.remove_expired_interval_ms, times)
        elif self._visit(key, self._abort_if_timed_out, settings.abort_timed_out_interval_ms, times):
            ending, self._ending = self._ending, []
            self._resend_markers(ending)
        return True

    def _visit(
        self, key: str, visit: Callable[[str, Transaction, Times], bool], interval_ms: float, times: Times
    ) -> bool:
        """Visit the next transactional ids, of which `visit` may change a few; the others follow at the next
        deadline, which is due at once. Returns whether these were the last ones."""
        unvisited = self._unvisited.setdefault(key, deque())
        if not unvisited:
            unvisited.extend(self.transactions)
        visited = changed = 0
        while unvisited and visited < VISITED_AT_ONCE and changed < CHANGED_AT_ONCE:
            visited += 1
            transactional_id = unvisited.popleft()
            known = self.transactions.get(transactional_id)
            changed += known is not None and visit(transactional_id, known, times)
        self._deadlines.set(key, times.now_ms + (0 if unvisited else interval_ms))
        return not unvisited

    def _remove_if_expired(self, transactional_id: str, known: Transaction, times: Times) -> bool:
        is_idle = known.state is TransactionState.EMPTY or known.state in ENDED
        if not is_idle or known.update_ms + self._settings.id_expiration_ms > times.wall_ms:
            return False
        self._forget(transactional_id)
        return True

    def _abort_if_timed_out(self, transactional_id: str, known: Transaction, times: Times) -> bool:
        if known.state in ENDING:
            self._ending.append(transactional_id)
        if known.state is not TransactionState.ONGOING:
            return False
        if known.start_ms > times.wall_ms:
            # Started by the clock of another coordinator, or before this clock was set back.
            self.transactions[transactional_id] = known._replace(start_ms=times.wall_ms)
        elif known.start_ms + known.timeout_ms < times.wall_ms:
            logger.info("transactional id %s: the transaction has timed out", transactional_id)
            self._fence(transactional_id, known, times)
            return True
        return False

    # InitProducerId

    def needs_producer_id(self, transactional_id: str) -> bool:
        """Whether `init` needs a new producer id."""
        known = self.transactions.get(transactional_id)
        return known is None or known.epoch >= MAX_PRODUCER_EPOCH - 1

    def init(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: tuple[int, int],
        new_producer_id: int,
        times: Times,
        respond: ProducerResponder,
    ) -> None:
        """Handle InitProducerId: a new epoch fences the previous producers.

        `expected` is the producer id and epoch of a client that recovers from an error (KIP-360), else (-1, -1). If
        the transactional id has expired, such a client gets a new producer id.
        """
        known = self.transactions.get(transactional_id)
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            respond(ProducerResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return
        if self._is_pending(transactional_id):
            respond(ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        if known is None:
            begun = Transaction(new_producer_id, 0, timeout_ms, update_ms=times.wall_ms)
            self._change(transactional_id, begun, lambda error: respond(_producer_result(begun, error)))
            return
        if expected[0] >= 0 and not _is_expected(known, expected):
            respond(ProducerResult(ErrorCode.PRODUCER_FENCED))
            return
        if known.state is TransactionState.ONGOING:
            self._fence(transactional_id, known, times)
            respond(ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        after = _next_epoch(known, expected, new_producer_id)._replace(
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=-1,
            update_ms=times.wall_ms,
        )
        self._change(transactional_id, after, lambda error: respond(_producer_result(after, error)))

    # AddPartitionsToTxn and EndTxn

    def check(self, transactional_id: str, producer_id: int, epoch: int) -> Transaction | ErrorCode:
        """Return the transaction if this is its current producer, or the error for another producer."""
        known = self.transactions.get(transactional_id)
        if known is None or known.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return known if known.epoch == epoch else ErrorCode.PRODUCER_FENCED

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: frozenset[TopicPartition],
        version: int,
        times: Times,
        respond: Callable[[ErrorCode], None],
    ) -> None:
        """Handle AddPartitionsToTxn and AddOffsetsToTxn: the first partition begins the transaction."""
        if self._is_pending(transactional_id):
            respond(ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        known = self.check(transactional_id, producer_id, epoch)
        if isinstance(known, ErrorCode):
            respond(known)
            return
        is_ongoing = known.state is TransactionState.ONGOING
        if is_ongoing and partitions <= known.partitions:
            self._respond_once_committed(respond)
            return
        after = known._replace(
            state=TransactionState.ONGOING,
            partitions=partitions | (known.partitions if is_ongoing else frozenset()),
            start_ms=known.start_ms if is_ongoing else times.wall_ms,
            update_ms=times.wall_ms,
            version=max(version, known.version) if is_ongoing else version,
        )
        self._change(transactional_id, after, respond)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: frozenset[TopicPartition],
        respond: Callable[[dict[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Respond with an error for each partition that is not in the ongoing transaction (KIP-890)."""
        known = self.check(transactional_id, producer_id, epoch)
        if isinstance(known, ErrorCode):
            respond(dict.fromkeys(partitions, known))
            return
        if self._is_pending(transactional_id):
            respond(dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        errors = {
            each: ErrorCode.NONE if each in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for each in partitions
        }

        def committed(error: ErrorCode) -> None:
            respond(errors if error is ErrorCode.NONE else dict.fromkeys(partitions, error))

        self._respond_once_committed(committed)

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        is_commit: bool,
        version: int,
        new_producer_id: int,
        times: Times,
        respond: ProducerResponder,
    ) -> None:
        """Handle EndTxn: respond once the decision is committed; the markers follow."""
        known = self.transactions.get(transactional_id)
        bumps_epoch = version >= TRANSACTION_V2
        if known is None:
            respond(ProducerResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
            return
        is_pending = self._is_pending(transactional_id)
        if is_pending and bumps_epoch:
            # The client may have the next producer id or epoch already, and may abort its next transaction.
            respond(ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        if producer_id not in (known.producer_id, known.previous_id if bumps_epoch else -1):
            respond(ProducerResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
            return
        is_repeated = (
            bumps_epoch and known.state in ENDED and _is_previous_producer(known, producer_id, epoch)
        )
        if not is_repeated and (known.epoch != epoch or known.producer_id != producer_id):
            respond(ProducerResult(ErrorCode.PRODUCER_FENCED))
            return
        if is_pending:
            respond(ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        if is_repeated or (known.state in ENDED and not bumps_epoch):
            complete = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
            respond(
                _producer_result(
                    known, ErrorCode.NONE if known.state is complete else ErrorCode.INVALID_TXN_STATE
                )
            )
        elif known.state is TransactionState.ONGOING or (bumps_epoch and not is_commit):
            # With transaction.version 2, a client may abort without an ongoing transaction, to bump its epoch.
            self._prepare(
                transactional_id, known, is_commit, bumps_epoch, version, new_producer_id, times, respond
            )
        else:
            respond(ProducerResult(ErrorCode.INVALID_TXN_STATE))

    def _is_pending(self, transactional_id: str) -> bool:
        """Whether a change of the transaction is not committed yet, or its markers are not written yet."""
        known = self.transactions.get(transactional_id)
        return transactional_id in self._changing or (known is not None and known.state in ENDING)

    def _fence(self, transactional_id: str, known: Transaction, times: Times) -> None:
        """Fence the producer with a new epoch, and abort its transaction."""
        if transactional_id in self._changing:
            return
        fenced = known._replace(epoch=min(known.epoch + 1, MAX_PRODUCER_EPOCH), last_epoch=NO_PRODUCER_EPOCH)
        self._prepare(transactional_id, fenced, False, False, known.version, -1, times, lambda result: None)

    def _prepare(
        self,
        transactional_id: str,
        known: Transaction,
        is_commit: bool,
        bumps_epoch: bool,
        version: int,
        new_producer_id: int,
        times: Times,
        respond: ProducerResponder,
    ) -> None:
        after = known._replace(
            state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            partitions=known.partitions if known.state is TransactionState.ONGOING else frozenset(),
            update_ms=times.wall_ms,
            start_ms=known.start_ms if known.start_ms >= 0 else times.wall_ms,
            version=version,
        )
        if bumps_epoch:
            after = after._replace(epoch=known.epoch + 1, last_epoch=known.epoch, next_id=new_producer_id)
        ended = _completed(after)

        def changed(error: ErrorCode) -> None:
            respond(_producer_result(ended, error))
            if error is ErrorCode.NONE:
                self._send_markers(transactional_id, after)

        self._change(transactional_id, after, changed)

    def markers_written(self, transactional_id: str, transaction: Transaction, times: Times) -> None:
        """Complete an ending transaction once every partition has its marker."""
        if self.transactions.get(transactional_id) == transaction and transaction.state in ENDING:
            after = _completed(transaction)._replace(update_ms=times.wall_ms)
            self._change(transactional_id, after, lambda error: None)

    # Writes

    def _respond_once_committed(self, respond: Callable[[ErrorCode], None]) -> None:
        """Respond to a request that changes nothing once the state is committed: the state may depend on a write that
        timed out, and that is lost if this leader fails."""
        self.outbox.add(Write([], completed=lambda error, times: respond(append_error(error))))

    def _change(
        self, transactional_id: str, after: Transaction, changed: Callable[[ErrorCode], None]
    ) -> None:
        self._write(transactional_id, transaction_record(transactional_id, after), after, changed)

    def _forget(self, transactional_id: str) -> None:
        if transactional_id not in self._changing:
            record = CoordinatorRecord(TransactionLogKey(transactional_id))
            self._write(transactional_id, record, None, lambda error: None)

    def _write(
        self,
        transactional_id: str,
        record: CoordinatorRecord,
        after: Transaction | None,
        changed: Callable[[ErrorCode], None],
    ) -> None:
        self._changing.add(transactional_id)

        def appended(end_offset: int) -> None:
            del end_offset
            if after is None:
                self.transactions.pop(transactional_id, None)
            else:
                self.transactions[transactional_id] = after

        def completed(error: ErrorCode, times: Times) -> None:
            del times
            self._changing.discard(transactional_id)
            changed(append_error(error))

        self.outbox.add(Write([record], appended, completed))


def _producer_result(transaction: Transaction, error: ErrorCode) -> ProducerResult:
    if error is not ErrorCode.NONE:
        return ProducerResult(error)
    return ProducerResult(error, transaction.producer_id, transaction.epoch)


def _is_expected(known: Transaction, expected: tuple[int, int]) -> bool:
    producer_id, epoch = expected
    return (producer_id == known.producer_id and epoch in (known.epoch, known.last_epoch)) or (
        producer_id == known.previous_id and known.epoch == 0
    )


def _is_previous_producer(known: Transaction, producer_id: int, epoch: int) -> bool:
    """Whether these are the producer id and epoch before the transaction ended."""
    if producer_id == known.previous_id and known.previous_id >= 0:
        return epoch >= MAX_PRODUCER_EPOCH - 1
    return producer_id == known.producer_id and epoch == known.epoch - 1


def _next_epoch(known: Transaction, expected: tuple[int, int], new_producer_id: int) -> Transaction:
    is_repeated = expected[0] >= 0 and expected != (known.producer_id, known.epoch)
    if is_repeated:
        return known
    if known.epoch >= MAX_PRODUCER_EPOCH - 1:
        return known._replace(
            producer_id=new_producer_id, epoch=0, previous_id=known.producer_id, last_epoch=NO_PRODUCER_EPOCH
        )
    last_epoch = known.epoch if expected[0] >= 0 else NO_PRODUCER_EPOCH
    return known._replace(epoch=known.epoch + 1, last_epoch=last_epoch, previous_id=-1)


def _completed(ending: Transaction) -> Transaction:
    """Return the completed transaction; a producer id with exhausted epochs is replaced."""
    is_commit = ending.state is TransactionState.PREPARE_COMMIT
    after = ending._replace(
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        next_id=-1,
    )
    if ending.next_id >= 0:
        return after._replace(producer_id=ending.next_id, epoch=0, previous_id=ending.producer_id)
    return after
