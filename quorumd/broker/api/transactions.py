"""The APIs of transactional producers, except TxnOffsetCommit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from quorumd.broker.api.coordinator_lookup import TransactionLookup
from quorumd.broker.api.topic_messages import INTERNAL_TOPICS
from quorumd.broker.api.topic_names import has_partition
from quorumd.broker.controller_requests.producer_ids import NO_ID, ProducerIds
from quorumd.broker.coordinator.effects import Times
from quorumd.broker.coordinator.internal_topics import InternalTopic, InternalTopics
from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.broker.coordinator.transactions import ProducerResult, TransactionCoordinator
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.errors import ErrorCode
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from quorumd.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from quorumd.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from quorumd.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from quorumd.protocol.messages.end_txn_request import EndTxnRequest
from quorumd.protocol.messages.end_txn_response import EndTxnResponse
from quorumd.protocol.messages.init_producer_id_request import InitProducerIdRequest
from quorumd.protocol.messages.init_producer_id_response import InitProducerIdResponse
from quorumd.protocol.routes import Route, Session
from quorumd.protocol.wire import Message

BATCHES_SINCE: Final = 4
"""The first version of AddPartitionsToTxn with several transactions, which only brokers send."""
FENCED_SINCE: Final = 2
"""The first version with PRODUCER_FENCED; earlier versions have INVALID_PRODUCER_EPOCH."""
END_BUMPS_SINCE: Final = 5
BROKER_ADDS_SINCE: Final = 5
"""The first version of AddPartitionsToTxn that brokers send for clients of transaction.version 2."""

MAX_PARTITIONS_ADDED: Final = 10_000
"""Partitions that one AddPartitionsToTxn request may name: all of them are added at once, or none."""

Errors = dict[TopicPartition, ErrorCode]


class TransactionApis:
    """Handles the requests of transactional producers."""

    def __init__(
        self,
        transactions: TransactionLookup,
        internal_topics: InternalTopics,
        offsets_topic: InternalTopic,
        metadata: BrokerMetadata,
        producer_ids: ProducerIds,
    ) -> None:
        self._transactions = transactions
        self._internal_topics = internal_topics
        self._offsets_topic = offsets_topic
        self._metadata = metadata
        self._producer_ids = producer_ids

    def routes(self) -> Iterable[Route]:
        """Return the routes of these APIs, except InitProducerId, which idempotent producers use too."""
        return (
            Route(AddPartitionsToTxnRequest, self.add_partitions),
            Route(AddOffsetsToTxnRequest, self.add_offsets),
            Route(EndTxnRequest, self.end),
        )

    def _with_producer_id(
        self,
        transactional_id: str,
        operation: Callable[[TransactionCoordinator, Times, int], None],
        on_error: Callable[[ErrorCode], None],
    ) -> None:
        """Run an operation with a new producer id, or with -1 if it does not need one."""

        def run(new_id: int) -> None:
            self._transactions.run(
                transactional_id, lambda machine, times: operation(machine, times, new_id), on_error
            )

        def taken(new_id: int) -> None:
            if new_id == NO_ID:
                on_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            else:
                run(new_id)

        shard = self._transactions.shard_of(transactional_id)
        if not isinstance(shard, ErrorCode) and shard.machine.needs_producer_id(transactional_id):
            self._producer_ids.take(taken)
        else:
            run(-1)

    def init_producer_id(self, session: Session, request: Request[InitProducerIdRequest]) -> None:
        """Return the producer id and a new epoch of a transactional producer."""
        message, version = request.message, request.api_version
        transactional_id = message.transactional_id or ""
        expected = (message.producer_id, message.producer_epoch)

        def respond(result: ProducerResult) -> None:
            error = _for_version(result.error, version >= 4)
            session.respond(request, InitProducerIdResponse(0, error, result.producer_id, result.epoch))

        self._with_producer_id(
            transactional_id,
            lambda machine, times, new_id: machine.init(
                transactional_id, message.transaction_timeout_ms, expected, new_id, times, respond
            ),
            lambda error: respond(ProducerResult(error)),
        )

    # AddPartitionsToTxn and AddOffsetsToTxn

    def add_partitions(self, session: Session, request: Request[AddPartitionsToTxnRequest]) -> None:
        """Add partitions to transactions, or verify that the transactions include them."""
        version = request.api_version
        if version >= BATCHES_SINCE:
            self._add_batches(session, request)
            return
        one = _transaction_of(request.message)

        def respond(errors: Errors) -> None:
            known = {each: _for_version(error, version >= FENCED_SINCE) for each, error in errors.items()}
            session.respond(
                request, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(one, known))
            )

        internal = [topic for topic in one.topics if topic.name in INTERNAL_TOPICS]
        if internal:
            # As in Kafka, whatever the client may write to.
            errors = dict.fromkeys(_partitions(one.topics), ErrorCode.OPERATION_NOT_ATTEMPTED)
            respond(errors | dict.fromkeys(_partitions(internal), ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            self.add(one, 0, respond)

    def _add_batches(self, session: Session, request: Request[AddPartitionsToTxnRequest]) -> None:
        transactions = request.message.transactions
        client_version = 2 if request.api_version >= BROKER_ADDS_SINCE else 0
        results: dict[int, AddPartitionsToTxnResult] = {}

        def collect(index: int, errors: Errors) -> None:
            one = transactions[index]
            results[index] = AddPartitionsToTxnResult(one.transactional_id, _topic_results(one, errors))
            if len(results) == len(transactions):
                ordered = [results[each] for each in range(len(transactions))]
                session.respond(request, AddPartitionsToTxnResponse(results_by_transaction=ordered))

        for index, one in enumerate(transactions):
            self.add(one, client_version, lambda errors, index=index: collect(index, errors))  # type: ignore[misc]  # the default binds it
        if not transactions:
            session.respond(request, AddPartitionsToTxnResponse())

    def add(
        self, one: AddPartitionsToTxnTransaction, version: int, respond: Callable[[Errors], None]
    ) -> None:
        """Add partitions to a transaction, or verify that it includes them.

        `version` is the transaction.version of the client.
        """
        partitions = frozenset(_partitions(one.topics))
        unknown = [each for each in partitions if not has_partition(self._metadata.image, *each)]
        if unknown:
            errors = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
            errors.update(dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            respond(errors)
            return

        def all_failed(error: ErrorCode) -> None:
            respond(dict.fromkeys(partitions, error))

        def run(machine: TransactionCoordinator, times: Times) -> None:
            key = (one.transactional_id, one.producer_id, one.producer_epoch)
            if one.verify_only:
                machine.verify(*key, partitions, respond)
            else:
                machine.add_partitions(*key, partitions, version, times, all_failed)

        self._transactions.run(one.transactional_id, run, all_failed)

    def add_offsets(self, session: Session, request: Request[AddOffsetsToTxnRequest]) -> None:
        """Add the partition with the offsets of a group to a transaction."""
        message, version = request.message, request.api_version
        number = self._internal_topics.partition_of(self._offsets_topic, message.group_id)
        partitions = frozenset({TopicPartition(self._offsets_topic.name, number)})

        def respond(error: ErrorCode) -> None:
            known = _for_version(error, version >= FENCED_SINCE)
            session.respond(request, AddOffsetsToTxnResponse(0, known))

        self._transactions.run(
            message.transactional_id,
            lambda machine, times: machine.add_partitions(
                message.transactional_id,
                message.producer_id,
                message.producer_epoch,
                partitions,
                0,
                times,
                respond,
            ),
            respond,
        )

    def end(self, session: Session, request: Request[EndTxnRequest]) -> None:
        """Commit or abort a transaction."""
        message, version = request.message, request.api_version

        def respond(result: ProducerResult) -> None:
            error = _for_version(result.error, version >= FENCED_SINCE)
            session.respond(request, EndTxnResponse(0, error, result.producer_id, result.epoch))

        def run(machine: TransactionCoordinator, times: Times, new_id: int) -> None:
            machine.end(
                message.transactional_id,
                message.producer_id,
                message.producer_epoch,
                message.committed,
                2 if version >= END_BUMPS_SINCE else 0,
                new_id,
                times,
                respond,
            )

        if version >= END_BUMPS_SINCE:
            self._with_producer_id(
                message.transactional_id, run, lambda error: respond(ProducerResult(error))
            )
        else:
            self._transactions.run(
                message.transactional_id,
                lambda machine, times: run(machine, times, -1),
                lambda error: respond(ProducerResult(error)),
            )


def refuse_partitions(session: Session, request: Request[Message]) -> None:
    """Refuse AddPartitionsToTxn with more than MAX_PARTITIONS_ADDED partitions, or a part of it."""
    message, error = request.message, ErrorCode.INVALID_REQUEST
    assert isinstance(message, AddPartitionsToTxnRequest)
    if request.api_version >= BATCHES_SINCE:
        session.respond(request, AddPartitionsToTxnResponse(0, int(error)))
        return
    one = _transaction_of(message)
    results = _topic_results(one, defaultdict(lambda: error))
    session.respond(request, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))


def _transaction_of(message: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    """Return the only transaction of a request before BATCHES_SINCE."""
    return AddPartitionsToTxnTransaction(
        message.v3_and_below_transactional_id,
        message.v3_and_below_producer_id,
        message.v3_and_below_producer_epoch,
        False,
        message.v3_and_below_topics,
    )


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _for_version(error: ErrorCode, knows_fenced: bool) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _topic_results(one: AddPartitionsToTxnTransaction, errors: Errors) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(number, errors[TopicPartition(topic.name, number)])
                for number in topic.partitions
            ],
        )
        for topic in one.topics
    ]
