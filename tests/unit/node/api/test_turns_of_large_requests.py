"""The work of one turn of the event loop for topics of ten thousand partitions, counted in function calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from quorumd.controller.controller import ControllerSettings
from quorumd.controller.new_partitions import MAX_PARTITIONS_PER_REQUEST
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from quorumd.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from quorumd.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from quorumd.protocol.wire import Message
from tests.support.call_counter import CallCounter
from tests.support.node.nodes import Cluster

PARTITIONS = MAX_PARTITIONS_PER_REQUEST
CALLS_PER_TURN = 8 * PARTITIONS
"""Some 15 ms of an interpreted node."""
CALLS_PER_REMOVED_TOPIC = 4 * PARTITIONS
"""One topic per turn: its removal is one record."""
BROKERS = tuple(range(101, 107))
FEATURES = (
    "eligible.leader.replicas.version",
    "group.version",
    "kraft.version",
    "metadata.version",
    "share.version",
    "streams.version",
    "transaction.version",
)


class CountedNode:
    """A node that leads, and a client of it. `calls`: those of each turn of the node."""

    def __init__(self) -> None:
        settings = ControllerSettings(broker_session_timeout_ms=1e9)
        self._cluster = Cluster(controller=settings).start()
        leader = self._cluster.leader()
        self._client = self._cluster.client()
        for broker in BROKERS:
            self._register(broker, leader.cluster_id)
        self.calls = CallCounter()
        step = self._cluster.heap.step

        def counted_step(until_ms: float) -> bool:
            with self.calls.counted():
                return step(until_ms)

        self._counted_step = counted_step

    def _register(self, broker: int, cluster_id: str | None) -> None:
        listeners = [Listener("PLAINTEXT", f"broker-{broker}", 9092, 0)]
        features = [Feature(name, int(name != "kraft.version"), 99) for name in FEATURES]
        incarnation, directory = (KafkaUuid(bytes([kind] * 15 + [broker])) for kind in (1, 2))
        registered = self._client.request(
            BrokerRegistrationRequest(
                broker,
                cluster_id or "",
                incarnation,
                listeners,
                features,
                f"rack-{broker % 3}",
                False,
                [directory],
            ),
            4,
        )
        unfenced = self._client.request(BrokerHeartbeatRequest(broker, registered.broker_epoch, 1 << 30), 1)
        assert (registered.error_code, unfenced.error_code, unfenced.is_fenced) == (0, 0, False)

    def request(self, message: Message, version: int) -> Any:
        self._cluster.heap.step = self._counted_step  # type: ignore[method-assign]  # to count each turn
        return self._client.request(message, version)


@pytest.fixture(scope="module")
def node() -> CountedNode:
    return CountedNode()


def replicas_of(number: int) -> list[int]:
    return [BROKERS[(number + each) % len(BROKERS)] for each in range(3)]


def errors(results: Iterable[Any]) -> list[int]:
    return [result.error_code for result in results]


def create(node: CountedNode, topic: CreatableTopic) -> list[int]:
    return errors(node.request(CreateTopicsRequest([topic], 60_000), 7).topics)


def add_partitions(node: CountedNode, topic: CreatePartitionsTopic) -> list[int]:
    return errors(node.request(CreatePartitionsRequest([topic], 60_000), 3).results)


def test_turns_of_topics_of_ten_thousand_partitions_are_bounded(node: CountedNode) -> None:
    assignments = [CreatableReplicaAssignment(number, replicas_of(number)) for number in range(PARTITIONS)]
    assert create(node, CreatableTopic("placed", PARTITIONS, 3)) == [0]
    assert create(node, CreatableTopic("assigned", -1, -1, assignments)) == [0]
    assert 0 < node.calls.longest <= CALLS_PER_TURN
    node.calls.longest = 0
    deletion = DeleteTopicsRequest(
        [DeleteTopicState("placed"), DeleteTopicState("assigned")], timeout_ms=60_000
    )
    assert errors(node.request(deletion, 6).responses) == [0, 0]
    assert 0 < node.calls.longest <= CALLS_PER_REMOVED_TOPIC


def test_turns_of_ten_thousand_more_partitions_are_bounded(node: CountedNode) -> None:
    assignments = [CreatePartitionsAssignment(replicas_of(number)) for number in range(PARTITIONS)]
    for name, assigned in (("grows", None), ("grows-as-assigned", assignments)):
        assert create(node, CreatableTopic(name, 1, 3)) == [0]
        assert add_partitions(node, CreatePartitionsTopic(name, 1 + PARTITIONS, assigned)) == [0]
    assert 0 < node.calls.longest <= CALLS_PER_TURN


def test_turns_of_the_unregistration_of_a_broker_are_bounded() -> None:
    node = CountedNode()
    assignments = [CreatableReplicaAssignment(number, replicas_of(number)) for number in range(PARTITIONS)]
    assert create(node, CreatableTopic("assigned", -1, -1, assignments)) == [0]
    node.calls.longest = 0
    for error in (ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED):
        assert node.request(UnregisterBrokerRequest(BROKERS[0]), 0).error_code == error
    assert 0 < node.calls.longest <= CALLS_PER_TURN
