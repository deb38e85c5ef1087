"""Verification of partitions at the coordinator of their transaction, here or at another broker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quorumd.broker.api.transaction_verification import RETRY_MAX_MS, RETRY_MS, TransactionVerifier
from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from quorumd.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from quorumd.protocol.wire import Message
from tests.support.broker.channels import RespondingBrokers
from tests.support.node.virtual_time import VirtualTime

TARGET = TopicPartition("topic", 3)


class Coordinator:
    """`leader`: the broker with the coordinator, 1 is the own one. `response`: None if there is none."""

    def __init__(self) -> None:
        self.leader: int | None = 2
        self.response: AddPartitionsToTxnResponse | None = None
        self.brokers = RespondingBrokers(5, self._respond)
        self.time = VirtualTime()
        self.added: list[tuple[str, int]] = []
        topics = SimpleNamespace(leader_of=lambda topic, transactional_id: self.leader)
        self.verifier = TransactionVerifier(
            1,
            self.time.clock,
            cast("Any", topics),
            cast("Any", "__transaction_state"),
            cast("Any", self),
            self.brokers,
        )

    def add(self, one: Any, version: int, respond: Callable[[dict[TopicPartition, ErrorCode]], None]) -> None:
        """The part of `TransactionApis` that verification uses."""
        self.added.append((one.transactional_id, version))
        respond({TARGET: ErrorCode.INVALID_TXN_STATE})

    @property
    def requests(self) -> list[AddPartitionsToTxnRequest]:
        return [request for _, request in self.brokers.requests]

    def _respond(self, broker_id: int, request: Message) -> Message | None:
        assert broker_id == self.leader
        assert isinstance(request, AddPartitionsToTxnRequest)
        return self.response

    def verify(self, adds: bool = False) -> list[ErrorCode]:
        errors: list[ErrorCode] = []
        self.verifier.verify("t", (7, 2), TARGET, adds, errors.append)
        return errors


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_no_coordinator_is_known(coordinator: Coordinator) -> None:
    coordinator.leader = None
    assert coordinator.verify() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert coordinator.requests == []


@pytest.mark.parametrize(("adds", "version"), [(False, 0), (True, 2)])
def test_own_coordinator_is_called(coordinator: Coordinator, adds: bool, version: int) -> None:
    coordinator.leader = 1
    assert coordinator.verify(adds) == [ErrorCode.INVALID_TXN_STATE]
    assert (coordinator.added, coordinator.requests) == ([("t", version)], [])


def response_with(error: ErrorCode) -> AddPartitionsToTxnResponse:
    topic = AddPartitionsToTxnTopicResult("topic", [AddPartitionsToTxnPartitionResult(3, int(error))])
    return AddPartitionsToTxnResponse(0, 0, [AddPartitionsToTxnResult("t", [topic])])


def test_another_broker_is_requested(coordinator: Coordinator) -> None:
    coordinator.response = response_with(ErrorCode.TRANSACTION_ABORTABLE)
    assert coordinator.verify() == [ErrorCode.TRANSACTION_ABORTABLE]
    (one,) = coordinator.requests[0].transactions
    assert (one.transactional_id, one.producer_id, one.producer_epoch, one.verify_only) == ("t", 7, 2, True)
    assert [(topic.name, topic.partitions) for topic in one.topics] == [("topic", [3])]


def test_fenced_producer_has_an_invalid_epoch(coordinator: Coordinator) -> None:
    """As in the log: librdkafka would abort the transaction after PRODUCER_FENCED, and go on."""
    coordinator.response = response_with(ErrorCode.PRODUCER_FENCED)
    assert coordinator.verify() == [ErrorCode.INVALID_PRODUCER_EPOCH]


def test_refused_or_lost_request_is_an_error(coordinator: Coordinator) -> None:
    coordinator.response = AddPartitionsToTxnResponse(0, int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert coordinator.verify() == [ErrorCode.INVALID_TXN_STATE], "the rights of the broker"
    coordinator.response = None
    assert coordinator.verify() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_client_of_version_2_waits_while_its_previous_transaction_completes(coordinator: Coordinator) -> None:
    coordinator.response = response_with(ErrorCode.CONCURRENT_TRANSACTIONS)
    order: list[int] = []
    first, second = coordinator.verify(adds=True), coordinator.verify(adds=True)
    coordinator.verifier.verify("t", (7, 2), TARGET, True, lambda error: order.append(len(first)))
    coordinator.time.pass_ms(RETRY_MS)
    assert (first, second, len(coordinator.requests)) == ([], [], 2), "one request for all of them"
    coordinator.response = response_with(ErrorCode.NONE)
    coordinator.time.pass_ms(RETRY_MS)
    assert (first, second, order) == ([ErrorCode.NONE], [ErrorCode.NONE], [1])
    assert coordinator.verify(adds=True) == [ErrorCode.NONE], "nothing is left of them"


def test_transaction_that_does_not_complete_is_reported(coordinator: Coordinator) -> None:
    coordinator.response = response_with(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert coordinator.verify(adds=False) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    errors = coordinator.verify(adds=True)
    coordinator.time.pass_ms(RETRY_MAX_MS - 1)
    assert errors == []
    coordinator.time.pass_ms(RETRY_MS)
    assert errors == [ErrorCode.CONCURRENT_TRANSACTIONS]
