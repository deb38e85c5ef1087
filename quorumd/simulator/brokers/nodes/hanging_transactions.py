"""An operator that aborts transactions which their coordinator has lost (KIP-664, `kafka-transactions abort`).

An unclean election in a partition of __transaction_state may lose the record of an open transaction. Then no
coordinator ends the transaction, and consumers with read_committed stop at its first record until an operator aborts
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from quorumd.errors import ErrorCode
from quorumd.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from quorumd.protocol.messages.describe_producers_response import DescribeProducersResponse
from quorumd.protocol.messages.list_transactions_request import ListTransactionsRequest
from quorumd.protocol.messages.list_transactions_response import ListTransactionsResponse
from quorumd.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.nodes.clients import BrokerClient
from quorumd.simulator.brokers.nodes.record import Recorder

UNFINISHED: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""The states in which a coordinator still ends a transaction."""
PATIENCE_MS: Final = 4000.0
"""Longer than the timeouts of transactions: by then the coordinators have ended all transactions that they know."""
INTERVAL_MS: Final = 500.0

Responses = dict[int, Message | None]
"""Responses by broker, None for no response."""


class OpenTransaction(NamedTuple):
    """A transaction that is open in one partition, as its leader `broker_id` describes it."""

    broker_id: int
    topic: str
    number: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class HangingTransactions:
    """Aborts transactions that are open in a partition and unknown to all coordinators, until `running` is False."""

    def __init__(self, client: BrokerClient, broker_ids: Sequence[int], recorder: Recorder) -> None:
        self.running = True
        self._client = client
        self._broker_ids = broker_ids
        self._recorder = recorder

    def start(self) -> None:
        """Look for hanging transactions after the longest timeout of transactions."""
        self._client.later(PATIENCE_MS, self._next)

    def _next(self) -> None:
        if self.running:
            self._client.refresh(self._describe)

    def _again(self) -> None:
        self._client.later(INTERVAL_MS, self._next)

    def _describe(self) -> None:
        numbers: dict[int, dict[str, list[int]]] = {}
        for each in self._client.led_partitions():
            numbers.setdefault(each.leader, {}).setdefault(each.topic, []).append(each.id.number)
        requests: dict[int, Message] = {
            broker_id: DescribeProducersRequest([TopicRequest(*topic) for topic in topics.items()])
            for broker_id, topics in numbers.items()
        }
        self._send(requests, 0, self._list)

    def _list(self, described: Responses) -> None:
        found = open_transactions(described)
        if not found:
            self._again()
            return
        ids = sorted({each.producer_id for each in found})
        requests = {each: ListTransactionsRequest(list(UNFINISHED), ids) for each in self._broker_ids}
        self._send(requests, 0, partial(self._abort, found))

    def _abort(self, found: Sequence[OpenTransaction], listed: Responses) -> None:
        hanging = without_coordinator(found, listed)
        self._recorder.counts["hanging transactions aborted"] += len(hanging)
        self._send(abort_requests(hanging), 1, lambda responses: self._again())

    def _send(
        self,
        requests: Mapping[int, Message],
        version: int,
        done: Callable[[Responses], object],
    ) -> None:
        """Send requests by broker, and call back with all responses."""
        responses: Responses = {}

        def responded(broker_id: int, response: Message | None) -> None:
            responses[broker_id] = response
            if len(responses) == len(requests):
                done(responses)

        if not requests:
            done(responses)
        for broker_id, request in requests.items():
            self._client.call(broker_id, request, version, partial(responded, broker_id))


def open_transactions(described: Responses) -> list[OpenTransaction]:
    """Return the open transactions in responses to DescribeProducers."""
    return [
        OpenTransaction(
            broker_id,
            topic.name,
            each.partition_index,
            producer.producer_id,
            producer.producer_epoch,
            max(producer.coordinator_epoch, 0),
        )
        for broker_id, response in described.items()
        if isinstance(response, DescribeProducersResponse)
        for topic in response.topics
        for each in topic.partitions
        for producer in each.active_producers
        if producer.current_txn_start_offset >= 0
    ]


def without_coordinator(found: Iterable[OpenTransaction], listed: Responses) -> list[OpenTransaction]:
    """Return the transactions whose producer has no unfinished transaction in responses to ListTransactions; none if
    a response is missing."""
    known: dict[int, None] = {}
    for response in listed.values():
        if not isinstance(response, ListTransactionsResponse) or response.error_code != ErrorCode.NONE:
            return []
        known |= {each.producer_id: None for each in response.transaction_states}
    return [each for each in found if each.producer_id not in known]


def abort_requests(hanging: Iterable[OpenTransaction]) -> dict[int, Message]:
    """Build the requests that abort the transactions, by broker."""
    markers: dict[int, list[WritableTxnMarker]] = {}
    for each in hanging:
        topic = WritableTxnMarkerTopic(each.topic, [each.number])
        marker = WritableTxnMarker(
            each.producer_id, each.producer_epoch, False, [topic], each.coordinator_epoch
        )
        markers.setdefault(each.broker_id, []).append(marker)
    return {broker_id: WriteTxnMarkersRequest(each) for broker_id, each in markers.items()}
