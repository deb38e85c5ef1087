"""Transactions that their coordinators have lost: the operator that ends them, and what checkers still require."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from quorumd.broker.coordinator.internal_topics import partition_of
from quorumd.controller.cluster_image import Topic
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.describe_producers_request import DescribeProducersRequest
from quorumd.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from quorumd.protocol.messages.list_transactions_request import ListTransactionsRequest
from quorumd.protocol.messages.list_transactions_response import ListTransactionsResponse, TransactionState
from quorumd.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from quorumd.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers import produced
from quorumd.simulator.brokers.checkers.histories import TRANSACTIONS_TOPIC, require_atomic
from quorumd.simulator.brokers.cluster_view import ClusterView
from quorumd.simulator.brokers.nodes.clients import KnownPartition
from quorumd.simulator.brokers.nodes.hanging_transactions import HangingTransactions
from quorumd.simulator.brokers.produced import Produced
from tests.support.simulator.broker_views import WHERE, breaks, row, view_with

STATE_TOPIC = KafkaUuid(bytes(15) + b"\x08")
LOST, ONGOING, CLOSED = 1000, 2000, 3000


class ScriptedClient:
    """A client whose brokers 1 and 2 respond at once; broker 1 leads the only partition."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Message]] = []
        self.delayed: list[Callable[[], object]] = []
        self.list_error = ErrorCode.NONE

    def later(self, delay_ms: float, callback: Callable[[], object]) -> None:
        self.delayed.append(callback)

    def refresh(self, done: Callable[[], object]) -> None:
        done()

    def led_partitions(self) -> list[KnownPartition]:
        return [KnownPartition(WHERE, "orders", 1, 0)]

    def call(self, broker_id: int, request: Message, version: int, done: Callable[[Any], None]) -> None:
        self.sent.append((broker_id, request))
        if isinstance(request, DescribeProducersRequest):
            starts = {LOST: 3, ONGOING: 9, CLOSED: -1}
            producers = [ProducerState(id, 5, 0, 0, -1, start) for id, start in starts.items()]
            done(
                DescribeProducersResponse(
                    0, [TopicResponse("orders", [PartitionResponse(0, 0, None, producers)])]
                )
            )
        elif isinstance(request, ListTransactionsRequest):
            known = [TransactionState("id", ONGOING, "Ongoing")] if broker_id == 2 else []
            done(ListTransactionsResponse(0, self.list_error, [], known))
        else:
            done(WriteTxnMarkersResponse())

    def markers(self) -> list[tuple[int, int, int, bool, int]]:
        """Broker, producer id, epoch, result and coordinator epoch of every marker sent."""
        return [
            (
                broker_id,
                each.producer_id,
                each.producer_epoch,
                each.transaction_result,
                each.coordinator_epoch,
            )
            for broker_id, request in self.sent
            if isinstance(request, WriteTxnMarkersRequest)
            for each in request.markers
        ]


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()


def operator(client: Any) -> HangingTransactions:
    recorder: Any = SimpleNamespace(counts=Counter())
    hanging = HangingTransactions(client, (1, 2), recorder)
    hanging.start()
    return hanging


def test_transactions_that_no_coordinator_knows_are_aborted(client: ScriptedClient) -> None:
    operator(client)
    assert client.sent == [], "coordinators end what they know after its timeout"
    client.delayed.pop()()
    assert client.markers() == [(1, LOST, 5, False, 0)]
    assert len(client.delayed) == 1, "it looks again"


def test_nothing_is_aborted_while_a_coordinator_loads(client: ScriptedClient) -> None:
    operator(client)
    client.list_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    client.delayed.pop()()
    assert client.markers() == []
    client.list_error = ErrorCode.NONE
    client.delayed.pop()()
    assert client.markers() == [(1, LOST, 5, False, 0)]


def test_operator_stops(client: ScriptedClient) -> None:
    operator(client).running = False
    client.delayed.pop()()
    assert client.sent == []


def view_of_commit() -> tuple[ClusterView, PartitionId]:
    """A committed transaction with values 1 and 2, and the partition that coordinates it."""
    view = view_with(row())
    topic = Topic(TRANSACTIONS_TOPIC, STATE_TOPIC)
    topic.partitions |= {0: row(), 1: row()}
    view.image.topics[STATE_TOPIC] = topic
    view.image.topic_ids[TRANSACTIONS_TOPIC] = STATE_TOPIC
    transaction = produced.Transaction("first", "id")
    transaction.state = produced.TransactionState.COMMITTED
    transaction.acknowledged = [1, 2]
    view.produced |= {value: Produced("session", value, transaction) for value in (1, 2)}
    view.history(WHERE).acknowledged |= {1: None, 2: None}
    return view, PartitionId(STATE_TOPIC, partition_of("id", 2))


def test_committed_transactions_are_read_whole() -> None:
    view, _ = view_of_commit()
    assert not breaks(require_atomic, view, (1, 2))
    for visible in ((), (1,)):
        assert breaks(require_atomic, view, visible)


def test_transactions_may_be_torn_only_if_their_own_coordinator_lost_records() -> None:
    view, coordinator = view_of_commit()
    view.history(PartitionId(STATE_TOPIC, 1 - coordinator.number)).break_guarantee("unclean election")
    assert breaks(require_atomic, view, (1,))
    view.history(coordinator).break_guarantee("unclean election")
    assert not breaks(require_atomic, view, (1,))
