"""Proposals to the controller: batched, one request at a time, repeated until there is a final response."""

from __future__ import annotations

from typing import cast

import pytest

from quorumd.broker.controller_requests.alter_partition import RETRY_MS, AlterPartitionChannel
from quorumd.broker.replication.isr_proposal import CommittedIsr, IsrProposal
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages.alter_partition_request import AlterPartitionRequest
from quorumd.protocol.messages.alter_partition_response import (
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)
from tests.support.broker.channels import HeldChannel
from tests.support.node.virtual_time import VirtualTime

TOPIC = KafkaUuid(b"the topic's id..")


def proposal(number: int = 0, *members: int) -> IsrProposal:
    return IsrProposal(
        PartitionId(TOPIC, number), 4, 9, tuple((each, 10 * each) for each in members or (1, 2))
    )


class Controller:
    """The channel's other end, with a version of the API."""

    def __init__(self, version: int = 3) -> None:
        self.held = HeldChannel(version)
        self.finals: list[tuple[IsrProposal, ErrorCode, CommittedIsr | None]] = []
        self.time = VirtualTime()
        self.channel = AlterPartitionChannel(
            self.time.clock, self.held, 1, lambda: 17, lambda *final: self.finals.append(final)
        )

    @property
    def requests(self) -> list[AlterPartitionRequest]:
        """As the controller reads them."""
        version = self.held.version
        return [decode(AlterPartitionRequest, version, encode(each, version)) for each in self.held.requests]

    def respond(self, *errors: ErrorCode, top_level: ErrorCode = ErrorCode.NONE) -> None:
        """Respond to the partitions of the open request, in their order."""
        results = [
            PartitionData(number, int(error), 1, 4, [1, 2], 0, 10)
            for number, error in zip(self.numbers[-1], errors, strict=False)
        ]
        self.held.respond(AlterPartitionResponse(0, int(top_level), [TopicData("", TOPIC, results)]))

    @property
    def numbers(self) -> list[list[int]]:
        """The partitions of every request."""
        return [
            [partition.partition_index for topic in request.topics for partition in topic.partitions]
            for request in self.requests
        ]


def test_proposals_of_one_turn_share_a_request() -> None:
    controller = Controller()
    assert controller.channel.propose(proposal(0))
    assert controller.channel.propose(proposal(1))
    controller.time.pass_ms(0)
    assert controller.numbers == [[0, 1]]
    request = controller.requests[0]
    members = request.topics[0].partitions[0].new_isr_with_epochs
    assert (request.broker_id, request.broker_epoch) == (1, 17)
    assert [(each.broker_id, each.broker_epoch) for each in members] == [(1, 10), (2, 20)]


def test_old_controllers_get_members_without_epochs() -> None:
    controller = Controller(version=2)
    controller.channel.propose(proposal(0, 3, 1))
    controller.time.pass_ms(0)
    assert controller.requests[0].topics[0].partitions[0].new_isr == [3, 1]


def test_later_proposals_wait_for_the_response() -> None:
    controller = Controller()
    controller.channel.propose(proposal(0))
    controller.time.pass_ms(0)
    controller.channel.propose(proposal(1))
    controller.time.pass_ms(1000)
    assert controller.numbers == [[0]]
    controller.respond(ErrorCode.NONE)
    assert controller.finals == [(proposal(0), ErrorCode.NONE, CommittedIsr(1, 4, (1, 2), 10))]
    controller.time.pass_ms(0)
    assert controller.numbers == [[0], [1]]


def test_second_proposal_of_a_partition_is_refused_while_the_first_waits() -> None:
    controller = Controller()
    controller.channel.propose(proposal(0))
    assert not controller.channel.propose(proposal(0, 1, 2, 3))
    controller.time.pass_ms(0)
    controller.respond(ErrorCode.INVALID_UPDATE_VERSION)
    assert controller.finals == [(proposal(0), ErrorCode.INVALID_UPDATE_VERSION, None)]
    assert controller.channel.propose(proposal(0, 1, 2, 3))


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_other_errors_are_retried_unchanged(error: ErrorCode) -> None:
    controller = Controller()
    controller.channel.propose(proposal(0))
    controller.channel.propose(proposal(1))
    controller.time.pass_ms(0)
    controller.respond(error, ErrorCode.INELIGIBLE_REPLICA)
    assert [final[:2] for final in controller.finals] == [(proposal(1), ErrorCode.INELIGIBLE_REPLICA)]
    controller.time.pass_ms(RETRY_MS / 2)
    assert len(controller.requests) == 1
    controller.time.pass_ms(RETRY_MS)
    assert controller.numbers == [[0, 1], [0]]


def test_request_without_response_is_retried() -> None:
    controller = Controller()
    controller.channel.propose(proposal(0))
    controller.time.pass_ms(0)
    controller.held.fail()
    controller.time.pass_ms(RETRY_MS)
    controller.respond(top_level=ErrorCode.STALE_BROKER_EPOCH)
    controller.time.pass_ms(RETRY_MS)
    controller.respond(ErrorCode.NONE)
    assert (controller.numbers, len(controller.finals)) == ([[0]] * 3, 1)


def test_stopped_channel_sends_nothing() -> None:
    controller = Controller()
    controller.channel.propose(proposal(0))
    controller.channel.stop()
    controller.time.pass_ms(1000)
    assert controller.requests == []
    assert not controller.channel.propose(proposal(1))


def test_unknown_error_and_a_missing_result_are_not_final() -> None:
    controller = Controller()
    for number in range(2):
        controller.channel.propose(proposal(number))
    controller.time.pass_ms(0)
    controller.respond(cast("ErrorCode", 9_999))
    controller.time.pass_ms(RETRY_MS)
    assert (controller.finals, controller.numbers) == ([], [[0, 1], [0, 1]])


def test_stopped_channel_ignores_late_responses() -> None:
    controller = Controller()
    controller.channel.propose(proposal(0))
    controller.time.pass_ms(0)
    controller.channel.propose(proposal(1))
    controller.channel.stop()
    controller.respond(ErrorCode.NONE)
    controller.time.pass_ms(10 * RETRY_MS)
    assert (controller.finals, controller.numbers) == ([], [[0]])
    assert not controller.channel.propose(proposal(2))
