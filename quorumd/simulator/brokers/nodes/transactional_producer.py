"""A producer that writes to several partitions in one transaction, with transactions of version 1 or 2."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from quorumd.protocol.messages.end_txn_request import EndTxnRequest
from quorumd.protocol.messages.init_producer_id_request import InitProducerIdRequest
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.nodes.clients import BACKOFF_MS, TRANSACTION, BrokerClient, KnownPartition
from quorumd.simulator.brokers.nodes.producers import (
    ALL,
    LATE_MS,
    MAX_ATTEMPTS,
    MAX_RECORDS,
    RETRIABLE,
    Batch,
    ProducerId,
    encode_batch,
    produce_error,
    produce_request,
    send_late,
)
from quorumd.simulator.brokers.nodes.record import Recorder
from quorumd.simulator.brokers.options import BrokerOptions
from quorumd.simulator.brokers.produced import Transaction, TransactionState

MAX_PARTITIONS: Final = 3
MAX_RETRIES: Final = 25
ADD_VERSION: Final = 3
PRODUCE_VERSIONS: Final = (11, 12)
INIT_VERSIONS: Final = (4, 5)
END_VERSIONS: Final = (4, 5)
"""Versions of EndTxn, indexed by whether the leaders add partitions to the transaction (KIP-890)."""
ABORTS: Final = 0.25
CRASHES: Final = 0.1
"""Shares of transactions that the producer aborts, and in which it restarts without ending it."""


class TransactionalProducer:
    """Runs one transaction after another until `running` is False."""

    def __init__(
        self, client: BrokerClient, options: BrokerOptions, recorder: Recorder, is_version_2: bool
    ) -> None:
        self.client = client
        self.running = True
        self._options = options
        self._recorder = recorder
        self._random = client.random
        self._is_version_2 = is_version_2
        self._coordinator = -1
        self._id = ProducerId()
        self._sequences: dict[PartitionId, int] = {}
        self._order = 0
        self._transaction = Transaction("", client.name)
        self._batches: list[Batch] = []

    def start(self) -> None:
        """Begin a transaction after a random pause."""
        if self.running:
            self.client.later(self._random.random() * 2 * self._options.write_ms, self._next)

    def _next(self) -> None:
        if self._id.id < 0:
            self._request_id()
            return
        partitions = self.client.led_partitions()
        if not partitions or self._random.random() < 0.05:
            self.client.refresh(self.start)
            return
        count = 1 + self._random.randrange(min(MAX_PARTITIONS, len(partitions)))
        self._begin(self._random.sample(partitions, count))

    # Requests to the coordinator

    def _call(
        self, request: Message, version: int, done: Callable[[Any, ErrorCode], None], retry: int = 0
    ) -> None:
        """Send a request to the coordinator until it has a final response; without one, call back with None."""

        def again() -> None:
            self.client.later(BACKOFF_MS, partial(self._call, request, version, done, retry + 1))

        def responded(response: Any) -> None:
            codes = [ErrorCode(code) for code, _ in errors_in(response)] if response is not None else []
            error = codes[0] if codes else ErrorCode.NONE
            is_retriable = response is None or error in RETRIABLE
            if is_retriable and retry < MAX_RETRIES:
                if error is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    self._coordinator = -1
                again()
            else:
                done(None if is_retriable else response, error)

        def found(coordinator: int) -> None:
            self._coordinator = coordinator
            again()

        if self._coordinator >= 0:
            self.client.call(self._coordinator, request, version, responded, 1500.0, "coordinator")
        elif retry < 2 * MAX_RETRIES:
            self.client.find_coordinator(self.client.name, TRANSACTION, found)
        else:
            done(None, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _request_id(self) -> None:
        def responded(response: Any, error: ErrorCode) -> None:
            if response is not None and error is ErrorCode.NONE:
                self._use(ProducerId(response.producer_id, response.producer_epoch))
            self.start()

        timeout_ms = self._random.choice((300, 1000, 3000))
        request = InitProducerIdRequest(self.client.name, timeout_ms)
        self._call(request, INIT_VERSIONS[self._is_version_2], responded)

    def _use(self, producer: ProducerId) -> None:
        if producer != self._id:
            self._id = producer
            self._sequences.clear()

    # A transaction

    def _begin(self, partitions: list[KnownPartition]) -> None:
        self._recorder.counts["transactions begun"] += 1
        name = f"{self.client.name} {self._id.id}/{self._id.epoch}"
        self._transaction = Transaction(f"{name} from {self._order}", self.client.name)
        self._batches = [self._make_batch(each, name) for each in partitions]
        if self._is_version_2:
            self._produce(0, 1)
            return
        topics: dict[str, list[int]] = {}
        for each in partitions:
            topics.setdefault(each.topic, []).append(each.id.number)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.client.name,
            v3_and_below_producer_id=self._id.id,
            v3_and_below_producer_epoch=self._id.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name, numbers) for name, numbers in topics.items()],
        )

        def added(response: Any, error: ErrorCode) -> None:
            if response is None or error is not ErrorCode.NONE:
                self._forget(0)
                self._abandon(TransactionState.ABORTED)
            else:
                self._produce(0, 1)

        self._call(request, ADD_VERSION, added)

    def _make_batch(self, to: KnownPartition, session: str) -> Batch:
        values = []
        for _ in range(1 + self._random.randrange(MAX_RECORDS)):
            values.append(self._recorder.produce(to.id, session, self._order, self._transaction))
            self._order += 1
        sequence = self._sequences.get(to.id, 0)
        self._sequences[to.id] = sequence + len(values)
        data = encode_batch(
            tuple(values), self._id, sequence, self._recorder.wall_ms(), transactional=True
        )  # fmt: skip
        return Batch(to, tuple(values), data)

    def _produce(self, index: int, attempt: int) -> None:
        """Send the batches from `index` on, one after the other."""
        if index == len(self._batches):
            self._end()
            return
        batch, version = self._batches[index], PRODUCE_VERSIONS[self._is_version_2]
        timeout_ms = int(self._options.write_timeout_ms)
        request = produce_request(batch, version, ALL, timeout_ms, self.client.name)
        if attempt == 1 and self._random.random() < CRASHES:
            # The producer crashes, and another with the same transactional id takes over. A request of the
            # crashed producer may arrive after that.
            send_late(self.client, batch, request, version, self._random.random() * 2 * LATE_MS)
            self._forget(index)
            self._abandon(TransactionState.ABORTED)
            return
        known = self.client.partitions.get(batch.to.id)
        if known is None or known.leader < 0:
            self._retry(index, attempt, None)
            return

        def responded(response: Any) -> None:
            error = produce_error(response)
            if error is ErrorCode.NONE:
                self._recorder.acknowledged(batch.to, batch.values)
                self._transaction.acknowledged += batch.values
                self._produce(index + 1, 1)
            else:
                self._retry(index, attempt, error)

        self.client.call(known.leader, request, version, responded, timeout_ms + 300.0, "produce")

    def _retry(self, index: int, attempt: int, error: ErrorCode | None) -> None:
        if attempt < MAX_ATTEMPTS and (error is None or error in RETRIABLE):
            again = partial(self._produce, index, attempt + 1)
            self.client.refresh(lambda: self.client.later(BACKOFF_MS, again))
            return
        self._forget(index)
        self._end(is_failed=True)

    def _forget(self, index: int) -> None:
        """Leave the outcomes of this batch and all later ones unknown."""
        for batch in self._batches[index:]:
            self._recorder.unknown(batch.to.id, batch.values)

    def _end(self, *, is_failed: bool = False) -> None:
        is_commit = not is_failed and self._random.random() >= ABORTS
        if is_commit:
            self._transaction.state = TransactionState.ENDING
        request = EndTxnRequest(self.client.name, self._id.id, self._id.epoch, is_commit)

        def ended(response: Any, error: ErrorCode) -> None:
            if response is None or error is not ErrorCode.NONE:
                self._abandon(TransactionState.UNKNOWN if is_commit else TransactionState.ABORTED)
                return
            self._transaction.state = TransactionState.COMMITTED if is_commit else TransactionState.ABORTED
            self._recorder.counts["transactions committed" if is_commit else "transactions aborted"] += 1
            if is_failed:
                # The sequence numbers of this producer id have a gap now.
                self._id = ProducerId()
            elif self._is_version_2:
                self._use(ProducerId(response.producer_id, response.producer_epoch))
            self.start()

        self._call(request, END_VERSIONS[self._is_version_2], ended)

    def _abandon(self, state: TransactionState) -> None:
        """Continue with a new epoch, which aborts this transaction."""
        self._transaction.state = state
        self._recorder.counts["transactions abandoned"] += 1
        self._id = ProducerId()
        self.start()
