"""The checker of AlterPartition requests reports wrong responses to invalid ones."""

from __future__ import annotations

import pytest

from quorumd.broker.replication.isr_proposal import IsrProposal
from quorumd.controller.broker import Broker
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID
from quorumd.protocol.messages import alter_partition_request as wire
from quorumd.protocol.messages import alter_partition_response as response_wire
from quorumd.simulator.brokers.checkers.proposals import InvalidProposalsAreRefused
from tests.support.simulator.broker_views import NAME, TOPIC, WHERE, breaks, broker, row, view_with

LEADER_EPOCH, PARTITION_EPOCH = 3, 5
MEMBERS = ((1, 10), (2, 20))


def proposal(
    *members: tuple[int, int],
    leader_epoch: int = LEADER_EPOCH,
    partition_epoch: int = PARTITION_EPOCH,
    recovery: int = 0,
) -> wire.PartitionData:
    states = [wire.BrokerState(*member) for member in members]
    return wire.PartitionData(0, leader_epoch, [], states, recovery, partition_epoch)


def is_reported(
    *errors: ErrorCode,
    partitions: list[wire.PartitionData],
    sender: tuple[int, int] = (1, 10),
    brokers: tuple[Broker, ...] = (),
    by_name: bool = False,
) -> bool:
    """Whether these responses violate the invariant, in a state that does not change."""
    partition = row((1, 2), leader_epoch=LEADER_EPOCH, partition_epoch=PARTITION_EPOCH)
    checker, view = InvalidProposalsAreRefused(), view_with(partition, *brokers)
    topic = wire.TopicData(NAME if by_name else "", ZERO_UUID if by_name else TOPIC, partitions)
    request = wire.AlterPartitionRequest(*sender, [topic])
    results = [response_wire.PartitionData(0, int(error)) for error in errors]
    response = response_wire.AlterPartitionResponse(0, 0, [response_wire.TopicData("", TOPIC, results)])
    checker.admin_request_sent(view, request)
    return breaks(checker.admin_request_completed, view, request, response)


@pytest.mark.parametrize(
    ("partition", "error"),
    [
        (proposal(*MEMBERS), ErrorCode.NONE),
        (proposal(*MEMBERS, (1, 10)), ErrorCode.INVALID_REQUEST),
        (proposal(*MEMBERS, (9, 90)), ErrorCode.INVALID_REQUEST),
        (proposal((2, 20)), ErrorCode.INVALID_REQUEST),
        (proposal(*MEMBERS, recovery=1), ErrorCode.INVALID_REQUEST),
        (proposal(*MEMBERS, leader_epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal(*MEMBERS, leader_epoch=4), ErrorCode.NOT_CONTROLLER),
        (proposal(*MEMBERS, partition_epoch=4), ErrorCode.INVALID_UPDATE_VERSION),
        (proposal(*MEMBERS, partition_epoch=6), ErrorCode.NOT_CONTROLLER),
        (proposal((1, 10), (2, 21)), ErrorCode.INELIGIBLE_REPLICA),
        (proposal((1, 10), (2, 21), partition_epoch=4), ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_responses_have_the_error_of_the_first_failing_check(
    partition: wire.PartitionData, error: ErrorCode
) -> None:
    assert not is_reported(error, partitions=[partition])
    for wrong in (ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INELIGIBLE_REPLICA):
        if wrong is not error:
            assert is_reported(wrong, partitions=[partition])


def test_only_the_registered_leader_proposes() -> None:
    assert is_reported(ErrorCode.NONE, partitions=[proposal(*MEMBERS)], sender=(2, 20))
    assert not is_reported(ErrorCode.INVALID_REQUEST, partitions=[proposal(*MEMBERS)], sender=(2, 20))
    assert is_reported(ErrorCode.NONE, partitions=[proposal(*MEMBERS)], sender=(1, 11))
    assert not is_reported(ErrorCode.STALE_BROKER_EPOCH, partitions=[proposal(*MEMBERS)], sender=(1, 11))


def test_inactive_members_are_ineligible_with_and_without_epochs() -> None:
    brokers = (broker(1), broker(2), broker(3, is_fenced=True))
    for epoch in (30, -1):
        partition = proposal(*MEMBERS, (3, epoch))
        assert is_reported(ErrorCode.NONE, partitions=[partition], brokers=brokers)
        assert not is_reported(ErrorCode.INELIGIBLE_REPLICA, partitions=[partition], brokers=brokers)


def test_old_versions_have_their_own_errors() -> None:
    partition = proposal((1, 10), (2, 21))
    assert is_reported(ErrorCode.INELIGIBLE_REPLICA, partitions=[partition], by_name=True)
    assert not is_reported(ErrorCode.OPERATION_NOT_ATTEMPTED, partitions=[partition], by_name=True)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_proposals_get_errors_of_their_version(version: int) -> None:
    checker, view = InvalidProposalsAreRefused(), view_with(row())
    sent = IsrProposal(WHERE, LEADER_EPOCH, PARTITION_EPOCH, MEMBERS)
    view.brokers[1].alter_partition_version = version
    for error, is_newer in ((ErrorCode.INELIGIBLE_REPLICA, True), (ErrorCode.OPERATION_NOT_ATTEMPTED, False)):
        is_violated = breaks(checker.proposal_completed, view, view.brokers[1], sent, error, None)
        assert is_violated is (is_newer and version < 2)


def test_partition_changes_once_per_request() -> None:
    twice = [proposal((1, 10)), proposal((1, 10))]
    assert is_reported(ErrorCode.NONE, ErrorCode.NONE, partitions=twice)
    assert not is_reported(ErrorCode.NONE, ErrorCode.INVALID_REQUEST, partitions=twice)
