"""Race R25 of the replication description: a late copy of a proposal that its sender has withdrawn."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from quorumd.node.controller.alter_partition_order import AlterPartitionOrder, ConnectionOrder
from quorumd.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from tests.support.controller.broker_harness import registration
from tests.support.node.controller_harness import TOPIC_ID, ControllerHarness
from tests.support.node.recording_session import RecordingSession


class RejoiningBrokers(ControllerHarness):
    """Brokers 1, 2 and 3 of R25: 1 leads [1, 2] at partition epoch 5, and 3 has caught up."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: dict[int, int] = {}
        for broker_id in (1, 2, 3):
            self.start(broker_id)
        self.begin_with(Partition((1, 3, 2), (1, 2), 1, 1, 5))

    def start(self, broker_id: int, start: int = 0) -> None:
        self.epochs[broker_id] = self.response_to(registration(broker_id, start)).broker_epoch
        self.heartbeat(broker_id, want_fence=False)

    def heartbeat(self, broker_id: int, *, want_fence: bool) -> None:
        epoch = self.epochs[broker_id]
        response = self.response_to(BrokerHeartbeatRequest(broker_id, epoch, self.log_end, want_fence))
        assert (response.error_code, response.is_fenced) == (0, want_fence)

    def proposal(self, *isr: int) -> AlterPartitionRequest:
        """A proposal of the partition leader, which knows the current incarnations, at partition epoch 5."""
        members = [BrokerState(member, self.epochs[member]) for member in isr]
        data = PartitionData(0, 1, [], members, 0, 5)
        return AlterPartitionRequest(1, self.epochs[1], [TopicData("", TOPIC_ID, [data])])


@pytest.fixture
def brokers() -> RejoiningBrokers:
    return RejoiningBrokers()


def error_of(response: Any) -> int:
    return int(response.error_code or response.topics[0].partitions[0].error_code)


def test_late_copy_of_a_withdrawn_proposal_is_never_applied(brokers: RejoiningBrokers) -> None:
    abandoned, newer = RecordingSession(number=10), RecordingSession(number=11)
    first = brokers.proposal(1, 2, 3)
    # The first copy is in flight; the partition leader abandons the connection and reconnects.
    brokers.heartbeat(3, want_fence=True)
    assert brokers.partition().partition_epoch == 5, "3 was not in the ISR"
    assert error_of(brokers.response_to(first, newer)) == ErrorCode.INELIGIBLE_REPLICA
    # The partition leader withdraws it and acknowledges records that 3 lacks. Then 3 is unfenced.
    brokers.heartbeat(3, want_fence=False)
    before = brokers.log_end
    brokers.request(first, abandoned)
    assert abandoned.is_closed
    assert abandoned.responses == []
    assert brokers.log_end == before
    assert brokers.partition().isr == (1, 2)


def test_same_request_is_accepted_on_the_newer_connection(brokers: RejoiningBrokers) -> None:
    """Only the connection makes the difference to the test above."""
    newer = RecordingSession(number=11)
    brokers.heartbeat(3, want_fence=True)
    brokers.response_to(brokers.proposal(1, 2, 3), newer)
    brokers.heartbeat(3, want_fence=False)
    assert error_of(brokers.response_to(brokers.proposal(1, 2, 3), newer)) == 0
    assert brokers.partition().isr == (1, 2, 3)


def test_requests_in_connection_order_are_current(brokers: RejoiningBrokers) -> None:
    """A first copy that arrives first is applied; the second has an old partition epoch."""
    assert error_of(brokers.response_to(brokers.proposal(1, 2, 3), RecordingSession(number=10))) == 0
    retried = brokers.response_to(brokers.proposal(1, 2, 3), RecordingSession(number=11))
    assert error_of(retried) == ErrorCode.INVALID_UPDATE_VERSION


def test_connection_from_before_the_leadership_must_be_replaced(brokers: RejoiningBrokers) -> None:
    """The partition leader may have been refused by another controller since."""
    old = RecordingSession(number=10)
    brokers.order.begin(12)
    assert brokers.response_to(brokers.proposal(1, 2, 3), old).error_code == ErrorCode.NOT_CONTROLLER
    assert old.refusals == 1
    assert brokers.partition().isr == (1, 2)
    assert error_of(brokers.response_to(brokers.proposal(1, 2, 3), RecordingSession(number=12))) == 0


def test_previous_incarnation_does_not_block_the_next(brokers: RejoiningBrokers) -> None:
    """Connection numbers of another process are not compared."""
    brokers.response_to(brokers.proposal(1, 2), RecordingSession(number=20))
    brokers.time.pass_ms(9000)
    brokers.start(1, start=1)
    response = brokers.response_to(brokers.proposal(1, 2), RecordingSession(number=15))
    assert error_of(response) not in (ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH)


def test_unregistered_incarnation_does_not_supersede_a_connection(brokers: RejoiningBrokers) -> None:
    """A request with another broker epoch does not supersede the broker's connections."""
    stranger = brokers.proposal(1, 2, 3)
    stranger.broker_epoch += 1
    response = brokers.response_to(stranger, RecordingSession(number=99))
    assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert error_of(brokers.response_to(brokers.proposal(1, 2, 3), RecordingSession(number=10))) == 0


def test_brokers_are_ordered_independently() -> None:
    order = AlterPartitionOrder()
    assert order.check(7, 1, 100) is ConnectionOrder.CURRENT
    assert order.check(5, 2, 101) is ConnectionOrder.CURRENT
    assert order.check(5, 1, 100) is ConnectionOrder.SUPERSEDED
    assert order.check(8, 1, 100) is ConnectionOrder.CURRENT
    assert order.check(7, 1, 100) is ConnectionOrder.SUPERSEDED
    order.begin(8)
    assert order.check(7, 2, 101) is ConnectionOrder.BEFORE_LEADERSHIP
    assert order.check(8, 1, 100) is ConnectionOrder.CURRENT
