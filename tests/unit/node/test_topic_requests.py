from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, record_of
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.node.forwarding import read_answer
from quorumd.node.state_machine import StateMachine
from quorumd.node.topic_requests import MOST_PARTITIONS, SLICE_PARTITIONS, TopicRequests
from quorumd.node.topic_wire import metadata_topic
from quorumd.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.recording_session import RecordingSession, request_of
from tests.support.topic_world import a_broker, directory_of


@dataclass
class Machine:
    image: ClusterImage = field(default_factory=ClusterImage)


class World:
    """Brokers 1 and 2 are there, 3 is fenced, 4 is not registered."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.session = RecordingSession()
        self.turns: list[Callable[[], None]] = []
        self.waiting: list[Callable[[bool], None]] = []
        self.requests = TopicRequests(
            cast(StateMachine, self.machine), self.waiting.append, self.turns.append
        )
        for broker in (a_broker(1), a_broker(2), a_broker(3, fenced=True)):
            self.machine.image.brokers[broker.id] = broker

    def add(self, name: str, partitions: int) -> None:
        topic_id = KafkaUuid(name.encode().ljust(16))
        self.machine.image.apply(TopicRecord(name, topic_id), [])
        for number in range(partitions):
            self.put(name, number, Partition((1, 2), (1, 2), 1))

    def put(self, name: str, number: int, partition: Partition) -> None:
        where = PartitionId(self.machine.image.topic_ids[name], number)
        self.machine.image.apply(record_of(where, partition), [])

    def ask(self, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
        message = DescribeTopicPartitionsRequest(
            [TopicRequest(name) for name in names], limit, Cursor(*cursor) if cursor is not None else None
        )
        self.requests.describe_topic_partitions(self.session, request_of(message, 0))
        for outcome in self.waiting:
            outcome(True)
        self.waiting.clear()
        return self.session.answers[-1]

    def told(self, *names: str, **how: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
        """Partitions by topic, and the cursor."""
        answer = self.ask(*names, **how)
        topics = [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics]
        cursor = answer.next_cursor
        return topics, (cursor.topic_name, cursor.partition_index) if cursor is not None else None


@pytest.fixture
def world() -> World:
    world = World()
    for name, partitions in (("c", 1), ("a", 3), ("b", 2)):
        world.add(name, partitions)
    return world


def test_all_topics_in_the_order_of_their_names(world: World) -> None:
    assert world.told() == ([("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])], None)


def test_topics_that_are_named_each_once(world: World) -> None:
    assert world.told("b", "a", "b") == ([("a", [0, 1, 2]), ("b", [0, 1])], None)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_pages_together_are_all_and_none_is_larger_than_the_limit(world: World, limit: int) -> None:
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(10):
        topics, cursor = world.told(limit=limit, cursor=cursor)
        page = [(name, number) for name, numbers in topics for number in numbers]
        assert len(page) <= limit
        seen += page
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


def test_a_page_that_ends_with_a_topic_goes_on_with_the_next(world: World) -> None:
    assert world.told(limit=3) == ([("a", [0, 1, 2])], ("b", 0))
    assert world.told(limit=4) == ([("a", [0, 1, 2]), ("b", [0])], ("b", 1))


@pytest.mark.parametrize("limit", [0, -5])
def test_a_limit_is_at_least_one(world: World, limit: int) -> None:
    assert world.told(limit=limit) == ([("a", [0])], ("a", 1))


def test_nobody_is_told_more_than_the_node_allows(world: World) -> None:
    world.add("d", MOST_PARTITIONS + 5)
    _, cursor = world.told("d", limit=2**31 - 1)
    assert cursor == ("d", MOST_PARTITIONS)


def test_a_topic_that_went_since_is_where_the_next_one_begins(world: World) -> None:
    assert world.told(cursor=("aa", 2)) == ([("b", [0, 1]), ("c", [0])], None)


def test_topics_that_are_not_there_are_told_so(world: World) -> None:
    answer = world.ask("x", "a b", "a")
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("a", 0),
        ("a b", ErrorCode.INVALID_TOPIC),
        ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("cursor", [("a", -1), ("x", 0)])
def test_a_cursor_that_is_nowhere_in_what_is_asked_for(world: World, cursor: tuple[str, int]) -> None:
    answer = world.ask("a", "b", cursor=cursor)
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.INVALID_REQUEST),
    ]


def test_a_partition_is_told_with_its_elr_and_who_cannot_be_reached(world: World) -> None:
    lost = KafkaUuid(b"a folder that went")
    directories = (lost, directory_of(2), directory_of(3), directory_of(4))
    world.put("c", 0, Partition((1, 2, 3, 4), (), NO_LEADER, 5, 6, elr=(3,), directories=directories))
    (topic,) = world.ask("c").topics
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.leader_epoch) == (NO_LEADER, 5)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1, 2, 3, 4], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([3], [])
    assert partition.offline_replicas == [1, 3, 4]


@pytest.mark.parametrize("leader", [NO_LEADER, 4])
def test_a_partition_whose_leader_cannot_be_reached_has_none_available(world: World, leader: int) -> None:
    world.put("c", 0, Partition((1, 4), (4,), leader))
    image = world.machine.image
    (partition,) = metadata_topic(image, image.topics[image.topic_ids["c"]], {}).partitions
    assert (partition.leader_id, partition.error_code) == (NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE)


def test_a_topic_of_kafkas_own_is_told_so(world: World) -> None:
    world.add("__consumer_offsets", 1)
    (topic,) = world.ask("__consumer_offsets").topics
    assert topic.is_internal


def test_what_is_told_waits_until_it_is_committed(world: World) -> None:
    message = DescribeTopicPartitionsRequest([TopicRequest("new")])
    world.requests.describe_topic_partitions(world.session, request_of(message, 0))
    assert world.session.answers == []
    world.add("new", 1)
    world.waiting[0](False)
    assert [topic.error_code for topic in world.session.answers[0].topics] == [0]


def test_many_partitions_are_told_of_in_slices_one_a_turn(world: World) -> None:
    for number in range(5):
        world.add(f"large {number}", SLICE_PARTITIONS // 2)
    request = request_of(MetadataRequest(None), 12)
    world.requests.answer_with_topics(
        world.session,
        request,
        world.requests.all_there_are,
        lambda topics: MetadataResponse(topics=topics),
    )
    turns = 0
    while world.turns:
        assert world.waiting == []
        assert len(world.turns) == 1
        if turns == 0:
            world.machine.image.apply(RemoveTopicRecord(world.machine.image.topic_ids["large 4"]), [])
        world.turns.pop()()
        turns += 1
    assert turns == 2
    world.waiting[0](True)
    told: Any = read_answer(request, world.session.answers[0])
    assert [topic.name for topic in told.topics] == [
        *"abc",
        *(f"large {number}" for number in range(4)),
    ]
