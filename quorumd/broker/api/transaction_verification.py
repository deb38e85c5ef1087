"""Verifies that a partition is part of a producer's open transaction before a leader appends to it (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from quorumd.broker.api.transactions import TransactionApis
from quorumd.broker.channels.broker_client import BrokerClient
from quorumd.broker.channels.controller_channel import NoResponse
from quorumd.broker.coordinator.internal_topics import InternalTopic, InternalTopics
from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.errors import ErrorCode
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from quorumd.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from quorumd.protocol.wire import Message

TIMEOUT_MS: Final = 30_000.0
CLIENT_VERSION: Final = 2
"""The transaction.version of clients for which the leader adds partitions to the transaction."""
RETRY_MS: Final = 20.0
RETRY_MAX_MS: Final = 100.0
"""Kafka's add.partitions.to.txn.retry.backoff.ms and .max.ms: the leader waits for the previous transaction to
complete, which takes less than the backoff of a producer."""
_CLIENT_ERRORS: Final = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.INVALID_TXN_STATE,
}
"""As in Kafka, the errors that clients get for errors of the coordinator. A producer that may not write expects the
error of the log, and the rights of this broker do not concern it."""


class _Verification(NamedTuple):
    transactional_id: str
    producer: tuple[int, int]
    target: TopicPartition
    adds: bool


class TransactionVerifier:
    """Verifies transactions with their coordinators, on this broker or others.

    Writes that wait for the same verification share it, so that they are appended in order.
    """

    def __init__(
        self,
        broker_id: int,
        clock: Clock,
        internal_topics: InternalTopics,
        topic: InternalTopic,
        apis: TransactionApis,
        client: BrokerClient,
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._internal_topics = internal_topics
        self._topic = topic
        self._apis = apis
        self._client = client
        self._waiting: dict[_Verification, list[Callable[[ErrorCode], None]]] = {}

    def verify(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        target: TopicPartition,
        adds: bool,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Call `done` once, with NONE if the partition is part of the transaction of this producer id and epoch.

        With `adds`, the partition is added to the transaction, as clients of transaction.version 2 expect.
        """
        verification = _Verification(transactional_id, producer, target, adds)
        if verification in self._waiting:
            self._waiting[verification].append(done)
            return
        self._waiting[verification] = [done]
        self._request(verification, self._clock.now_ms() + RETRY_MAX_MS)

    def _request(self, verification: _Verification, last_retry_ms: float) -> None:
        def verified(error: ErrorCode) -> None:
            now_ms = self._clock.now_ms()
            completes_soon = error is ErrorCode.CONCURRENT_TRANSACTIONS and verification.adds
            if completes_soon and now_ms < last_retry_ms:
                self._clock.call_at(now_ms + RETRY_MS, lambda: self._request(verification, last_retry_ms))
                return
            for done in self._waiting.pop(verification):
                done(_CLIENT_ERRORS.get(error, error))

        transactional_id, producer, target, adds = verification
        leader = self._internal_topics.leader_of(self._topic, transactional_id)
        if leader is None:
            verified(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        topics = [AddPartitionsToTxnTopic(target.topic, [target.partition])]
        one = AddPartitionsToTxnTransaction(transactional_id, *producer, not adds, topics)
        if leader == self._broker_id:
            self._apis.add(one, CLIENT_VERSION if adds else 0, lambda errors: verified(errors[target]))
        else:
            self._send(leader, one, verified)

    def _send(
        self, leader: int, one: AddPartitionsToTxnTransaction, done: Callable[[ErrorCode], None]
    ) -> None:
        def build(version: int) -> Message:
            del version
            return AddPartitionsToTxnRequest([one])

        def on_response(response: Message) -> None:
            assert isinstance(response, AddPartitionsToTxnResponse)
            if response.error_code:
                done(ErrorCode(response.error_code))
                return
            result = response.results_by_transaction[0].topic_results[0].results_by_partition[0]
            done(ErrorCode(result.partition_error_code))

        def on_failure(failure: NoResponse) -> None:
            del failure
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE)

        self._client.send(leader, ApiKey.ADD_PARTITIONS_TO_TXN, build, on_response, on_failure, TIMEOUT_MS)
