"""AlterPartition requests of model brokers, and the misbehaviour of their leaders."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from quorumd.broker.channels.controller_channel import NoResponse
from quorumd.broker.controller_requests.alter_partition import build_request
from quorumd.broker.replication.isr_proposal import IsrProposal
from quorumd.ids import ZERO_UUID
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.alter_partition_request import AlterPartitionRequest
from quorumd.protocol.messages.alter_partition_response import AlterPartitionResponse, TopicData
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.broker import Broker
from quorumd.simulator.brokers.broker_disk import Disk
from quorumd.simulator.brokers.isr_channel import IsrChannel
from quorumd.simulator.brokers.options import BrokerOptions
from quorumd.simulator.brokers.request_channel import Address, Channel, ResponseCallback
from quorumd.simulator.environment.event_heap import EventHeap, Process
from tests.support.simulator.broker_views import NAME, TOPIC, WHERE, broker

CONTROLLER = ("10.0.0.1", 9093)
UNUSED: Any = None


class HeldChannel(Channel):
    """A channel whose responses the test sends."""

    def __init__(self, heap: EventHeap, process: Process) -> None:
        super().__init__("test", heap, UNUSED, process, 100.0)
        self.sent: list[tuple[Address, AlterPartitionRequest, int]] = []

    def send(self, address: Address, request: Message, version: int, done: ResponseCallback) -> None:
        assert isinstance(request, AlterPartitionRequest)
        self.sent.append((address, request, version))
        self.respond = done


class Sender:
    """A broker that sends one request in this version."""

    def __init__(self, version: int, controller: Address | None = CONTROLLER) -> None:
        self.heap, process = EventHeap(), Process("broker")
        self.held = HeldChannel(self.heap, process)
        self.responses: list[Message] = []
        self.failures: list[NoResponse] = []
        channel = IsrChannel(
            self.heap, process, self.held, lambda: controller, {TOPIC: NAME}.__getitem__, version
        )
        proposal = IsrProposal(WHERE, 3, 5, ((1, 10), (2, 20)))
        channel.send(
            ApiKey.ALTER_PARTITION,
            lambda version: build_request(1, 10, [proposal], version),
            self.responses.append,
            self.failures.append,
        )


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_versions_without_topic_ids_name_the_topics(version: int) -> None:
    sender = Sender(version)
    ((address, request, sent_version),) = sender.held.sent
    assert (address, sent_version) == (CONTROLLER, version)
    (topic,) = request.topics
    assert (topic.topic_name, topic.topic_id) == ((NAME, ZERO_UUID) if version < 2 else ("", TOPIC))
    sender.held.respond(AlterPartitionResponse(topics=[TopicData(topic.topic_name, topic.topic_id, [])]))
    (response,) = sender.responses
    assert isinstance(response, AlterPartitionResponse)
    assert response.topics[0].topic_id == TOPIC


def test_lost_response_and_unknown_controller_are_failures() -> None:
    sender = Sender(3)
    sender.held.respond(None)
    assert len(sender.failures) == 1
    sender = Sender(3, controller=None)
    assert (sender.held.sent, sender.failures) == ([], []), "the callback comes after the call"
    assert sender.heap.step(0.0)
    assert len(sender.failures) == 1


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_race_9_leaders_that_leave_checks_to_the_controller_propose_fenced_replicas(share: float) -> None:
    heap, process = EventHeap(), Process("broker")
    leader = Broker(
        1, ("10.0.3.1", 9092), Disk([TOPIC]), heap, UNUSED, UNUSED, process, Random(1),
        BrokerOptions(ineligible_proposals=share), [CONTROLLER], UNUSED,
    )  # fmt: skip
    leader.metadata.image.brokers[2] = broker(2)
    leader.metadata.image.brokers[3] = broker(3, is_fenced=True)
    assert [leader.is_eligible(broker_id) for broker_id in (2, 3)] == [True, share == 1.0]
