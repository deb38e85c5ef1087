"""Sends the markers of ending transactions to the partition leaders, until every partition has its marker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from quorumd.broker.channels.broker_client import BrokerClient
from quorumd.broker.channels.controller_channel import NoResponse
from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.broker.coordinator.transaction import Transaction, TransactionState
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.controller.partition import NO_LEADER
from quorumd.errors import ErrorCode
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from quorumd.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from quorumd.protocol.wire import Message

logger = logging.getLogger("quorumd.broker")

RETRY_MS: Final = 100.0
TIMEOUT_MS: Final = 30_000.0
_FENCING_ERRORS: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
"""Errors that are not retried: a newer coordinator or producer has taken over."""

WriteLocally = Callable[[WriteTxnMarkersRequest, Callable[[WriteTxnMarkersResponse], None]], None]


class TransactionMarkers:
    """Writes the markers of ending transactions.

    `coordinator_epoch(id)` returns the leader epoch of the partition that coordinates the transactional id, None if
    this broker no longer leads it. `written(id, transaction)` is called once every partition has its marker.
    """

    def __init__(
        self,
        broker_id: int,
        metadata: BrokerMetadata,
        client: BrokerClient,
        clock: Clock,
        write_locally: WriteLocally,
        coordinator_epoch: Callable[[str], int | None],
        written: Callable[[str, Transaction], None],
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._client = client
        self._clock = clock
        self._write_locally = write_locally
        self._coordinator_epoch = coordinator_epoch
        self._written = written
        self._missing: dict[tuple[str, Transaction], set[TopicPartition]] = {}

    def send(self, transactional_id: str, transaction: Transaction) -> None:
        """Write the markers of an ending transaction, unless they are being written already."""
        key = (transactional_id, transaction)
        if key not in self._missing:
            self._missing[key] = set(transaction.partitions)
            self._clock.call_soon(lambda: self._send_missing(key))

    def _send_missing(self, key: tuple[str, Transaction]) -> None:
        missing = self._missing.get(key)
        if missing is None:
            return
        epoch = self._coordinator_epoch(key[0])
        if epoch is None:
            del self._missing[key]
            return
        by_leader: dict[int, list[TopicPartition]] = {}
        for each in sorted(missing):
            leader = self._leader(each)
            if leader is None:
                missing.discard(each)
            else:
                by_leader.setdefault(leader, []).append(each)
        if not missing:
            del self._missing[key]
            self._written(*key)
            return
        pending_requests = [len(by_leader)]

        def complete() -> None:
            pending_requests[0] -= 1
            if not pending_requests[0]:
                delay_ms = RETRY_MS if missing else 0.0
                self._clock.call_at(self._clock.now_ms() + delay_ms, lambda: self._send_missing(key))

        for leader, partitions in by_leader.items():
            self._send(leader, _request(key[1], partitions, epoch), key, complete)

    def _leader(self, target: TopicPartition) -> int | None:
        """Return the leader, NO_LEADER if the partition has none, None if the partition no longer exists."""
        image = self._metadata.image
        topic_id = image.topic_ids.get(target.topic)
        partition = None if topic_id is None else image.topics[topic_id].partitions.get(target.partition)
        return None if partition is None else partition.leader

    def _send(
        self,
        leader: int,
        request: WriteTxnMarkersRequest,
        key: tuple[str, Transaction],
        complete: Callable[[], None],
    ) -> None:
        def on_response(response: Message) -> None:
            assert isinstance(response, WriteTxnMarkersResponse)
            self._handle_response(response, key)
            complete()

        def on_failure(failure: NoResponse) -> None:
            logger.debug("transactional id %s: no response to WriteTxnMarkers: %s", key[0], failure.reason)
            complete()

        def build(version: int) -> Message:
            del version
            return request

        if leader == NO_LEADER:
            complete()
        elif leader == self._broker_id:
            self._write_locally(request, on_response)
        else:
            self._client.send(leader, ApiKey.WRITE_TXN_MARKERS, build, on_response, on_failure, TIMEOUT_MS)

    def _handle_response(self, response: WriteTxnMarkersResponse, key: tuple[str, Transaction]) -> None:
        missing = self._missing.get(key, set())
        for marker in response.markers:
            for topic in marker.topics:
                for each in topic.partitions:
                    if each.error_code == ErrorCode.NONE:
                        missing.discard(TopicPartition(topic.name, each.partition_index))
                    elif each.error_code in _FENCING_ERRORS:
                        error = ErrorCode.describe(each.error_code)
                        logger.info("transactional id %s: markers were rejected: %s", key[0], error)
                        self._missing.pop(key, None)


def _request(
    transaction: Transaction, partitions: list[TopicPartition], coordinator_epoch: int
) -> WriteTxnMarkersRequest:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    marker = WritableTxnMarker(
        transaction.producer_id,
        transaction.epoch,
        transaction.state is TransactionState.PREPARE_COMMIT,
        [WritableTxnMarkerTopic(*each) for each in topics.items()],
        coordinator_epoch,
        transaction.version,
    )
    return WriteTxnMarkersRequest([marker])
