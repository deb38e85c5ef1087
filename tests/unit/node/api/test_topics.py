from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, partition_record
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.node.api.forwarding import decode_response
from quorumd.node.api.topic_listing import TopicListings
from quorumd.node.api.topic_messages import metadata_head, metadata_partitions
from quorumd.node.api.topics import MAX_PARTITIONS, TopicApis
from quorumd.protocol.connection import Request, encode_response
from quorumd.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.controller.topic_harness import a_broker, directory_of
from tests.support.node.api_harness import ApiHarness, ScriptedCommits, ScriptedImage
from tests.support.node.recording_session import request_of

SLICE_PARTITIONS = 10


class TopicApiHarness(ApiHarness):
    """Brokers 1 and 2 are registered, 3 is fenced, 4 is not registered. Nothing is committed before `commit`."""

    def __init__(self) -> None:
        self.commits = ScriptedCommits(is_behind=True)
        super().__init__(
            state_machine=ScriptedImage(), committed_image=self.commits, slice_partitions=SLICE_PARTITIONS
        )
        self.apis = TopicApis(self.context)
        self.listings = TopicListings(self.context)
        for broker in (a_broker(1), a_broker(2), a_broker(3, fenced=True)):
            self.image.brokers[broker.id] = broker

    def add(self, name: str, partitions: int) -> None:
        topic_id = KafkaUuid(name.encode().ljust(16))
        self.machine.image.apply(TopicRecord(name, topic_id), [])
        for number in range(partitions):
            self.put(name, number, Partition((1, 2), (1, 2), 1))

    def put(self, name: str, number: int, partition: Partition) -> None:
        where = PartitionId(self.machine.image.topic_ids[name], number)
        self.machine.image.apply(partition_record(where, partition), [])

    def ask(self, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
        message = DescribeTopicPartitionsRequest(
            [TopicRequest(name) for name in names], limit, Cursor(*cursor) if cursor is not None else None
        )
        self.apis.describe_topic_partitions(self.session, request_of(message, 0))
        self.finish()
        return self.session.answers[-1]

    def finish(self, is_committed: bool = True) -> None:
        """What was proposed so far is committed, or lost; turns pass."""
        while self.turns or self.commits.waiting:
            outcomes, self.commits.waiting[:] = list(self.commits.waiting), []
            for outcome in outcomes:
                outcome(is_committed)
            for turn in [self.turns.pop() for _ in range(len(self.turns))]:
                turn()

    def ask_metadata(self, version: int = 12) -> Request:
        request = request_of(MetadataRequest(None), version)
        self.listings.respond_with_topics(
            self.session,
            request,
            self.listings.all_topics,
            lambda topics: MetadataResponse(topics=topics),
        )
        return request

    def told(self, *names: str, **how: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
        """Partitions by topic, and the cursor."""
        answer = self.ask(*names, **how)
        topics = [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics]
        cursor = answer.next_cursor
        return topics, (cursor.topic_name, cursor.partition_index) if cursor is not None else None


@pytest.fixture
def world() -> TopicApiHarness:
    world = TopicApiHarness()
    for name, partitions in (("c", 1), ("a", 3), ("b", 2)):
        world.add(name, partitions)
    return world


def test_all_topics_in_the_order_of_their_names(world: TopicApiHarness) -> None:
    assert world.told() == ([("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])], None)


def test_topics_that_are_named_each_once(world: TopicApiHarness) -> None:
    assert world.told("b", "a", "b") == ([("a", [0, 1, 2]), ("b", [0, 1])], None)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_pages_together_are_all_and_none_is_larger_than_the_limit(world: TopicApiHarness, limit: int) -> None:
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


def test_a_page_that_ends_with_a_topic_goes_on_with_the_next(world: TopicApiHarness) -> None:
    assert world.told(limit=3) == ([("a", [0, 1, 2])], ("b", 0))
    assert world.told(limit=4) == ([("a", [0, 1, 2]), ("b", [0])], ("b", 1))


@pytest.mark.parametrize("limit", [0, -5])
def test_a_limit_is_at_least_one(world: TopicApiHarness, limit: int) -> None:
    assert world.told(limit=limit) == ([("a", [0])], ("a", 1))


def test_nobody_is_told_more_than_the_node_allows(world: TopicApiHarness) -> None:
    world.add("d", MAX_PARTITIONS + 5)
    _, cursor = world.told("d", limit=2**31 - 1)
    assert cursor == ("d", MAX_PARTITIONS)


def test_a_topic_that_went_since_is_where_the_next_one_begins(world: TopicApiHarness) -> None:
    assert world.told(cursor=("aa", 2)) == ([("b", [0, 1]), ("c", [0])], None)


def test_topics_that_are_not_there_are_told_so(world: TopicApiHarness) -> None:
    answer = world.ask("x", "a b", "a")
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("a", 0),
        ("a b", ErrorCode.INVALID_TOPIC),
        ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("cursor", [("a", -1), ("x", 0)])
def test_a_cursor_that_is_nowhere_in_what_is_asked_for(
    world: TopicApiHarness, cursor: tuple[str, int]
) -> None:
    answer = world.ask("a", "b", cursor=cursor)
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.INVALID_REQUEST),
    ]


def test_a_partition_is_told_with_its_elr_and_who_cannot_be_reached(world: TopicApiHarness) -> None:
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
def test_a_partition_whose_leader_cannot_be_reached_has_none_available(
    world: TopicApiHarness, leader: int
) -> None:
    world.put("c", 0, Partition((1, 4), (4,), leader))
    image = world.machine.image
    (partition,) = metadata_partitions(image, image.topics[image.topic_ids["c"]].partitions, [0], {})
    assert (partition.leader_id, partition.error_code) == (NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE)


def test_a_topic_of_kafkas_own_is_told_so(world: TopicApiHarness) -> None:
    world.add("__consumer_offsets", 1)
    (topic,) = world.ask("__consumer_offsets").topics
    assert topic.is_internal


def test_topics_are_told_when_the_image_is_readable(world: TopicApiHarness) -> None:
    """A follower applies a large batch in slices: half of a new topic is nobody's business."""
    world.machine.is_readable = False
    page = request_of(DescribeTopicPartitionsRequest([TopicRequest("d")]), 0)
    world.apis.describe_topic_partitions(world.session, page)
    world.ask_metadata()
    world.finish()
    assert world.session.answers == []
    world.add("d", 5)
    world.machine.is_readable = True
    for callback in world.machine.readers:
        callback()
    world.finish()
    described, _ = world.session.answers
    assert [len(topic.partitions) for topic in described.topics] == [5]


def test_what_is_told_waits_until_it_is_committed(world: TopicApiHarness) -> None:
    message = DescribeTopicPartitionsRequest([TopicRequest("new")])
    world.apis.describe_topic_partitions(world.session, request_of(message, 0))
    assert world.session.answers == []
    world.add("new", 1)
    world.commits.waiting.pop()(False)
    assert world.session.answers == [], "what is told instead must be committed, too"
    world.finish()
    assert [topic.error_code for topic in world.session.answers[0].topics] == [0]


def test_many_partitions_are_told_of_in_slices_one_a_turn(world: TopicApiHarness) -> None:
    for number in range(5):
        world.add(f"large {number}", SLICE_PARTITIONS // 2)
    request = world.ask_metadata()
    assert world.session.held == [request], "what else is asked there waits"
    turns = 0
    while world.turns:
        assert len(world.turns) == 1
        if turns == 0:
            world.machine.image.apply(RemoveTopicRecord(world.machine.image.topic_ids["large 4"]), [])
        world.turns.pop()()
        turns += 1
    assert turns >= 3
    assert world.session.answers == []
    world.finish()
    told: Any = decode_response(request, world.session.answers[0])
    assert [topic.name for topic in told.topics] == [
        *"abc",
        *(f"large {number}" for number in range(4)),
    ]


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("size", [SLICE_PARTITIONS - 1, SLICE_PARTITIONS, 3 * SLICE_PARTITIONS + 1])
def test_slices_of_one_topic_are_the_bytes_of_the_whole(
    world: TopicApiHarness, version: int, size: int
) -> None:
    world.add("large", size)
    world.put("large", 3, Partition((1, 3, 2), (2,), 2, 9))
    request = world.ask_metadata(version)
    turns = 0
    while world.turns:
        world.turns.pop()()
        turns += 1
    world.finish()
    image = world.machine.image
    whole = MetadataResponse()
    for name in "a", "b", "c", "large":
        topic = image.topics[image.topic_ids[name]]
        head = metadata_head(topic)
        head.partitions = metadata_partitions(image, topic.partitions, range(len(topic.partitions)), {})
        whole.topics.append(head)
    assert world.session.answers[0] == encode_response(request, whole)
    assert turns >= size // SLICE_PARTITIONS


def test_a_topic_is_told_as_it_was_when_its_turn_came(world: TopicApiHarness) -> None:
    world.add("large", 4 * SLICE_PARTITIONS)
    request = world.ask_metadata()
    world.turns.pop()()
    world.put("large", 4 * SLICE_PARTITIONS, Partition((1, 2), (1, 2), 1))
    world.put("large", 4 * SLICE_PARTITIONS - 1, Partition((2, 1), (2,), 2, 99))
    world.finish()
    told: Any = decode_response(request, world.session.answers[0])
    assert [p.partition_index for p in told.topics[-1].partitions] == list(range(4 * SLICE_PARTITIONS))
    assert told.topics[-1].partitions[-1].leader_epoch == 0


def test_what_an_earlier_slice_told_must_be_committed_too(world: TopicApiHarness) -> None:
    """A leader that is replaced between two slices has told of what may never be."""
    world.add("large", 3 * SLICE_PARTITIONS)
    request = world.ask_metadata()
    world.commits.waiting.pop()(False)
    world.put("large", 0, Partition((2, 1), (2,), 2, 99))
    world.finish()
    told: Any = decode_response(request, world.session.answers[0])
    assert told.topics[-1].partitions[0].leader_epoch == 99


def test_pages_that_are_asked_for_together_take_turns(world: TopicApiHarness) -> None:
    world.add("large", SLICE_PARTITIONS)
    for _ in range(3):
        message = DescribeTopicPartitionsRequest([TopicRequest("large")])
        world.apis.describe_topic_partitions(world.session, request_of(message, 0))
    assert len(world.commits.waiting) == 1, "the others wait for later turns"
    world.finish()
    assert len(world.session.answers) == 3
