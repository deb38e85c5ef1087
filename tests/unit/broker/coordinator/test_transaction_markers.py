"""Markers of ending transactions: sent to the leader of every partition, again until each has its marker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.broker.coordinator.transaction import Transaction, TransactionState
from quorumd.broker.coordinator.transaction_markers import RETRY_MS, TransactionMarkers
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from quorumd.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from quorumd.protocol.wire import Message
from tests.support.broker.channels import RespondingBrokers
from tests.support.node.virtual_time import VirtualTime

TOPIC = KafkaUuid(b"the topic's id..")
LEADERS = (1, 2, 2, -1)
"""Of the partitions; broker 1 is this one."""


class Harness:
    """The coordinator and the other `brokers`; `local` is what this one writes itself."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.brokers = RespondingBrokers(1, self._respond)
        self.local: list[WriteTxnMarkersRequest] = []
        self.written: list[str] = []
        self.epoch: int | None = 5
        self.errors: dict[int, ErrorCode] = {}
        """Of partitions."""
        self.is_down = False
        self.metadata = BrokerMetadata()
        self.lead(*LEADERS)
        self.markers = TransactionMarkers(
            1,
            self.metadata,
            self.brokers,
            self.time.clock,
            self._write_locally,
            lambda transactional_id: self.epoch,
            lambda transactional_id, transaction: self.written.append(transactional_id),
        )

    def lead(self, *leaders: int) -> None:
        image = ClusterImage()
        image.apply(TopicRecord("topic", TOPIC), [])
        for number, leader in enumerate(leaders):
            image.apply(PartitionRecord(number, TOPIC, [1, 2], [1, 2], leader=leader), [])
        self.metadata.load(image, 1)

    def _write_locally(
        self, request: WriteTxnMarkersRequest, done: Callable[[WriteTxnMarkersResponse], None]
    ) -> None:
        self.local.append(request)
        done(self._response(request))

    def _respond(self, broker_id: int, request: Message) -> Message | None:
        assert isinstance(request, WriteTxnMarkersRequest)
        return None if self.is_down else self._response(request)

    def _response(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        (marker,) = request.markers
        topics = [
            WritableTxnMarkerTopicResult(
                topic.name,
                [
                    WritableTxnMarkerPartitionResult(number, self.errors.get(number, ErrorCode.NONE))
                    for number in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ]
        return WriteTxnMarkersResponse([WritableTxnMarkerResult(marker.producer_id, topics)])

    def send_markers(self, *numbers: int, topic: str = "topic") -> None:
        partitions = frozenset(TopicPartition(topic, number) for number in numbers)
        transaction = Transaction(7, 3, 1000, TransactionState.PREPARE_COMMIT, partitions)
        self.markers.send("t", transaction)
        self.markers.send("t", transaction)
        self.time.end_turn()

    def numbers(self) -> list[list[int]]:
        """The partitions of every request to another broker."""
        return [request.markers[0].topics[0].partition_indexes for _, request in self.brokers.requests]


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_each_leader_gets_the_markers_of_its_partitions_once(harness: Harness) -> None:
    harness.send_markers(0, 1, 2)
    assert [broker_id for broker_id, _ in harness.brokers.requests] == [2]
    assert harness.numbers() == [[1, 2]]
    (marker,) = harness.local[0].markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, True)
    assert (marker.topics[0].partition_indexes, marker.coordinator_epoch) == ([0], 5)
    assert harness.written == ["t"]


def test_partition_that_was_deleted_needs_no_marker(harness: Harness) -> None:
    harness.send_markers(9)
    harness.send_markers(0, topic="deleted")
    assert (harness.brokers.requests, harness.local) == ([], [])
    assert harness.written == ["t", "t"]


def test_partition_without_a_leader_is_waited_for(harness: Harness) -> None:
    harness.send_markers(3)
    assert harness.written == []
    harness.lead(1, 2, 2, 2)
    harness.time.pass_ms(RETRY_MS)
    assert harness.numbers() == [[3]]
    assert harness.written == ["t"]


@pytest.mark.parametrize("is_down", [True, False])
def test_marker_that_is_not_written_is_sent_again(harness: Harness, is_down: bool) -> None:
    harness.is_down = is_down
    harness.errors = {2: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    harness.send_markers(1, 2)
    assert harness.written == []
    harness.is_down, harness.errors = False, {}
    harness.time.pass_ms(RETRY_MS)
    assert harness.numbers() == [[1, 2], [1, 2] if is_down else [2]]
    assert harness.written == ["t"]


@pytest.mark.parametrize(
    "error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
)
def test_newer_producer_or_coordinator_ends_the_attempts(harness: Harness, error: ErrorCode) -> None:
    harness.errors = {1: error}
    harness.send_markers(1, 2)
    harness.time.pass_ms(10 * RETRY_MS)
    assert harness.numbers() == [[1, 2]]
    assert harness.written == []


def test_coordinator_that_resigned_sends_nothing_more(harness: Harness) -> None:
    harness.is_down = True
    harness.send_markers(1)
    harness.epoch = None
    harness.time.pass_ms(10 * RETRY_MS)
    assert harness.numbers() == [[1]]
    harness.epoch, harness.is_down = 6, False
    harness.send_markers(1)
    assert harness.written == ["t"]
