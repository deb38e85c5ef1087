"""Mistakes about partitions name what exists, and a response without their error is a violation."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import ErrorCode
from quorumd.protocol.messages.create_partitions_request import CreatePartitionsRequest
from quorumd.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from quorumd.protocol.messages.elect_leaders_request import ElectLeadersRequest
from quorumd.simulator.brokers.observation import Observation
from quorumd.simulator.brokers.operators.mistakes import PartitionMistakes
from quorumd.simulator.brokers.operators.operator import AdminRequest, Operator
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.environment.event_heap import EventHeap
from quorumd.simulator.environment.network import SimulatedNetwork
from tests.support.simulator.broker_views import NAME, row, view_with

DRAWS = 300


def drawn() -> list[AdminRequest]:
    source = PartitionMistakes(Random(1), lambda: view_with(row()).image, (1, 2, 3))
    found = [source.next() for _ in range(DRAWS)]
    return [request for request in found if request is not None]


def respond(sent: AdminRequest, error: ErrorCode) -> None:
    heap = EventHeap()
    network = SimulatedNetwork(heap, Random(1))
    operator = Operator(
        "partition mistakes",
        PartitionMistakes(Random(1), lambda: view_with(row()).image, (1, 2, 3)),
        1.0,
        heap,
        lambda process: network.host("10.0.6.6", process),
        Random(1),
        Observation([], lambda: 0.0, 1.0, 1.0),
        [("10.0.0.1", 9)],
    )
    result = CreatePartitionsTopicResult(NAME, int(error), None)
    operator._on_response(sent, CreatePartitionsResponse(0, [result]))


def test_every_kind_of_mistake_is_drawn() -> None:
    requests = drawn()
    assert len(requests) == DRAWS
    errors = {code for request in requests for code in request.expected or ()}
    assert {
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.ELECTION_NOT_NEEDED,
    } <= errors
    elections = [each.message for each in requests if isinstance(each.message, ElectLeadersRequest)]
    assert any(each.topic_partitions is None for each in elections)


def test_mistake_without_its_error_is_a_violation() -> None:
    growths = [each for each in drawn() if isinstance(each.message, CreatePartitionsRequest)]
    excessive = next(each for each in growths if ErrorCode.POLICY_VIOLATION in (each.expected or ()))
    for allowed in (
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_CONTROLLER,
    ):
        respond(excessive, allowed)
    for wrong in (ErrorCode.NONE, ErrorCode.INVALID_REQUEST):
        with pytest.raises(InvariantViolation, match="mistakes about partitions"):
            respond(excessive, wrong)
