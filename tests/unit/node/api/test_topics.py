from __future__ import annotations

from typing import Any

import pytest

from quorumd.broker.api.rights import Extend
from quorumd.broker.api.topic_listing import MAX_SHARED_TOPICS, LargeTopics, TopicEntry
from quorumd.broker.api.topic_messages import MAX_PARTITIONS, metadata_head, metadata_partitions
from quorumd.controller.partition import NO_LEADER, Partition
from quorumd.errors import ErrorCode, UnsupportedVersion
from quorumd.ids import KafkaUuid
from quorumd.node.api import topic_listing
from quorumd.node.api.authorization import ExtendedSession
from quorumd.node.api.forwarding import decode_response
from quorumd.protocol.connection import Request, encode_response
from quorumd.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from quorumd.protocol.messages.metadata_request import MetadataRequestTopic
from quorumd.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.response_task import STEPS_PER_UNIT
from quorumd.security.acls import ResourceType
from tests.support.call_counter import CallCounter
from tests.support.controller.topic_harness import a_broker, directory_of
from tests.support.node.recording_session import RecordingSession, request_of
from tests.support.node.topic_api_harness import SLICE_PARTITIONS, TopicApiHarness

TOPIC = ResourceType.TOPIC
CALLS_PER_STEP = 40


@pytest.fixture
def harness() -> TopicApiHarness:
    harness = TopicApiHarness()
    for name, partitions in (("c", 1), ("a", 3), ("b", 2)):
        harness.add(name, partitions)
    return harness


def test_all_topics_are_sorted_by_name(harness: TopicApiHarness) -> None:
    assert harness.page() == ([("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])], None)


def test_requested_topics_are_sorted_without_duplicates(harness: TopicApiHarness) -> None:
    assert harness.page("b", "a", "b") == ([("a", [0, 1, 2]), ("b", [0, 1])], None)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_pages_within_the_limit_cover_all_partitions(harness: TopicApiHarness, limit: int) -> None:
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(10):
        topics, cursor = harness.page(limit=limit, cursor=cursor)
        page = [(name, number) for name, numbers in topics for number in numbers]
        assert len(page) <= limit
        seen += page
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


def test_cursor_after_the_last_partition_is_the_next_topic(harness: TopicApiHarness) -> None:
    assert harness.page(limit=3) == ([("a", [0, 1, 2])], ("b", 0))
    assert harness.page(limit=4) == ([("a", [0, 1, 2]), ("b", [0])], ("b", 1))


@pytest.mark.parametrize("limit", [0, -5])
def test_limit_is_at_least_one(harness: TopicApiHarness, limit: int) -> None:
    assert harness.page(limit=limit) == ([("a", [0])], ("a", 1))


def test_limit_is_capped_by_the_node(harness: TopicApiHarness) -> None:
    harness.add("d", MAX_PARTITIONS + 5)
    _, cursor = harness.page("d", limit=2**31 - 1)
    assert cursor == ("d", MAX_PARTITIONS)


def test_page_leaves_out_a_partition_that_does_not_exist(harness: TopicApiHarness) -> None:
    harness.add("d", 0)
    for number in (0, 1, 3, 4):
        harness.put("d", number, Partition((1, 2), (1, 2), 1))
    assert harness.page("d", cursor=("d", 1)) == ([("d", [1, 3])], None)


@pytest.mark.parametrize("names", [(), ("b", "c", "d")])
def test_page_continues_after_a_topic_with_fewer_partitions_than_the_cursor(
    harness: TopicApiHarness, names: tuple[str, ...]
) -> None:
    """The topic was deleted and created again between two pages. Later topics were not listed."""
    harness.add("d", 1)
    page = harness.page(*names, limit=1, cursor=("b", MAX_PARTITIONS))
    assert page == ([("b", []), ("c", [0])], ("d", 0))


def test_cursor_of_a_deleted_topic_continues_with_the_next(harness: TopicApiHarness) -> None:
    assert harness.page(cursor=("aa", 2)) == ([("b", [0, 1]), ("c", [0])], None)


def test_unknown_and_invalid_topics_have_an_error(harness: TopicApiHarness) -> None:
    response = harness.describe("x", "a b", "a")
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("a", 0),
        ("a b", ErrorCode.INVALID_TOPIC),
        ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("cursor", [("a", -1), ("x", 0)])
def test_cursor_outside_the_requested_topics_is_rejected(
    harness: TopicApiHarness, cursor: tuple[str, int]
) -> None:
    response = harness.describe("a", "b", cursor=cursor)
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.INVALID_REQUEST),
    ]


def test_partition_is_described_with_elr_and_offline_replicas(harness: TopicApiHarness) -> None:
    lost = KafkaUuid(b"a directory that went")
    directories = (lost, directory_of(2), directory_of(3), directory_of(4))
    harness.put("c", 0, Partition((1, 2, 3, 4), (), NO_LEADER, 5, 6, elr=(3,), directories=directories))
    (topic,) = harness.describe("c").topics
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.leader_epoch) == (NO_LEADER, 5)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1, 2, 3, 4], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([3], [])
    assert partition.offline_replicas == [1, 3, 4]


@pytest.mark.parametrize("leader", [NO_LEADER, 4])
def test_partition_with_an_unreachable_leader_has_no_leader(harness: TopicApiHarness, leader: int) -> None:
    harness.put("c", 0, Partition((1, 4), (4,), leader))
    image = harness.machine.image
    (partition,) = metadata_partitions(image, image.topics[image.topic_ids["c"]].partitions, [0], {})
    assert (partition.leader_id, partition.error_code) == (NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE)


def test_internal_topic_is_marked_as_internal(harness: TopicApiHarness) -> None:
    harness.add("__consumer_offsets", 1)
    (topic,) = harness.describe("__consumer_offsets").topics
    assert topic.is_internal


def test_topics_wait_for_a_readable_image(harness: TopicApiHarness) -> None:
    """A follower applies a large batch in slices; a half-applied topic must not be visible."""
    harness.machine.is_readable = False
    page = request_of(DescribeTopicPartitionsRequest([TopicRequest("d")]), 0)
    harness.apis.describe_topic_partitions(harness.session, page)
    harness.request_metadata()
    harness.finish()
    assert harness.session.responses == []
    harness.add("d", 5)
    harness.machine.is_readable = True
    for callback in harness.machine.readers:
        callback()
    harness.finish()
    described: Any = decode_response(page, harness.session.responses[0])
    assert [len(topic.partitions) for topic in described.topics] == [5]
    assert len(harness.session.responses) == 2


def test_response_waits_for_the_commit(harness: TopicApiHarness) -> None:
    message = DescribeTopicPartitionsRequest([TopicRequest("new")])
    request = request_of(message, 0)
    harness.apis.describe_topic_partitions(harness.session, request)
    assert harness.session.responses == []
    harness.add("new", 1)
    harness.commits.waiting.pop()(False)
    assert harness.session.responses == [], "the new response must be committed, too"
    harness.finish()
    response: Any = decode_response(request, harness.session.responses[0])
    assert [topic.error_code for topic in response.topics] == [0]


def test_many_partitions_are_listed_in_slices(harness: TopicApiHarness) -> None:
    for number in range(5):
        harness.add(f"large {number}", SLICE_PARTITIONS // 2)
    request = harness.request_metadata()
    assert harness.session.held == [request], "later requests of the connection wait"
    turns = 0
    while harness.turns:
        assert len(harness.turns) == 1
        if turns == 0:
            harness.machine.image.apply(RemoveTopicRecord(harness.machine.image.topic_ids["large 4"]), [])
        harness.turns.pop()()
        turns += 1
    assert turns >= 3
    assert harness.session.responses == []
    harness.finish()
    reported: Any = decode_response(request, harness.session.responses[0])
    assert [topic.name for topic in reported.topics] == [
        *"abc",
        *(f"large {number}" for number in range(4)),
    ]


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("size", [SLICE_PARTITIONS - 1, SLICE_PARTITIONS, 3 * SLICE_PARTITIONS + 1])
def test_slices_of_one_topic_have_the_bytes_of_the_whole_response(
    harness: TopicApiHarness, version: int, size: int
) -> None:
    harness.add("large", size)
    harness.put("large", 3, Partition((1, 3, 2), (2,), 2, 9))
    request = harness.request_metadata(version)
    turns = 0
    while harness.turns:
        harness.turns.pop()()
        turns += 1
    harness.finish()
    image = harness.machine.image
    whole = MetadataResponse()
    for name in "a", "b", "c", "large":
        topic = image.topics[image.topic_ids[name]]
        head = metadata_head(topic)
        head.partitions = metadata_partitions(image, topic.partitions, range(len(topic.partitions)), {})
        whole.topics.append(head)
    assert harness.session.responses[0] == encode_response(request, whole)
    assert turns >= size // (2 * SLICE_PARTITIONS)


def test_topic_is_listed_as_of_its_first_slice(harness: TopicApiHarness) -> None:
    harness.add("large", 4 * SLICE_PARTITIONS)
    request = harness.request_metadata()
    harness.turns.pop()()
    harness.put("large", 4 * SLICE_PARTITIONS, Partition((1, 2), (1, 2), 1))
    harness.put("large", 4 * SLICE_PARTITIONS - 1, Partition((2, 1), (2,), 2, 99))
    harness.finish()
    reported: Any = decode_response(request, harness.session.responses[0])
    assert [p.partition_index for p in reported.topics[-1].partitions] == list(range(4 * SLICE_PARTITIONS))
    assert reported.topics[-1].partitions[-1].leader_epoch == 0


@pytest.fixture
def counted(harness: TopicApiHarness, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of partitions of each slice that was described, of a topic of four slices."""
    harness.add("large", 4 * SLICE_PARTITIONS)
    described: list[int] = []

    def count(image: Any, partitions: Any, numbers: Any, shared: Any) -> Any:
        described.append(len(list(numbers)))
        return metadata_partitions(image, partitions, numbers, shared)

    monkeypatch.setattr(topic_listing, "metadata_partitions", count)
    return described


def reported(harness: TopicApiHarness, request: Request) -> Any:
    harness.finish()
    response: Any = decode_response(request, harness.session.responses[-1])
    return response.topics[-1].partitions


@pytest.mark.stand_in
def test_encoded_partitions_are_shared(harness: TopicApiHarness, counted: list[int]) -> None:
    """Many clients that request a large topic at once cost little more than one."""
    requests = [harness.request_metadata() for _ in range(20)]
    harness.finish()
    assert len(harness.session.responses) == 20
    assert len(set(harness.session.responses)) == 1
    assert len(reported(harness, requests[0])) == 4 * SLICE_PARTITIONS
    assert counted.count(SLICE_PARTITIONS) == 4
    other_version = harness.request_metadata(8)
    assert len(reported(harness, other_version)) == 4 * SLICE_PARTITIONS
    assert counted.count(SLICE_PARTITIONS) == 8


@pytest.mark.stand_in
@pytest.mark.parametrize("change", ["partition", "broker"])
def test_shared_partitions_are_those_of_the_moment(
    harness: TopicApiHarness, counted: list[int], change: str
) -> None:
    before = reported(harness, harness.request_metadata())
    if change == "partition":
        harness.put("large", 5, Partition((2, 1), (2,), 2, 9))
    else:
        harness.image.brokers[2] = a_broker(2, fenced=True)
    after = reported(harness, harness.request_metadata())
    assert before[5] != after[5]
    assert after == reported(harness, harness.request_metadata())
    assert counted.count(SLICE_PARTITIONS) == 8


def test_least_recent_encoded_partitions_are_dropped(harness: TopicApiHarness) -> None:
    shared = LargeTopics(max_bytes=100)
    entries = [
        TopicEntry(MetadataResponseTopic(0, name, KafkaUuid(name.encode().ljust(16))), {}) for name in "ab"
    ]
    first, second = (shared.get(entry, 0) for entry in entries)
    shared.keep(first, (0, 0), bytes(60))
    shared.keep(second, (0, 0), bytes(60))
    assert (first.encoded, len(second.encoded)) == ({}, 1)
    shared.keep(second, (0, 1), bytes(101))
    assert len(second.encoded) == 1, "it is too large to keep"
    shared.keep(first, (0, 0), bytes(10))
    assert first.encoded == {}, "it is not current"
    assert shared.get(entries[0], 1) is not first
    topics = [
        shared.get(TopicEntry(MetadataResponseTopic(0, "", KafkaUuid(bytes([n]) * 16)), {}), 0)
        for n in range(MAX_SHARED_TOPICS)
    ]
    assert shared.get(entries[1], 0) is not second
    assert len(topics) == MAX_SHARED_TOPICS


def test_responses_to_one_commit_are_sent_in_turns(harness: TopicApiHarness) -> None:
    """A hundred of them would take the event loop a tenth of a second."""
    harness.add("large", 4 * SLICE_PARTITIONS)
    for _ in range(SLICE_PARTITIONS + 2):
        harness.request_metadata()
    while harness.turns:
        harness.turns.pop()()
    outcomes, harness.commits.waiting[:] = list(harness.commits.waiting), []
    for outcome in outcomes:
        outcome(True)
    sent = [len(harness.session.responses)]
    while harness.turns:
        harness.turns.pop()()
        sent.append(len(harness.session.responses))
    assert sent[-1] == SLICE_PARTITIONS + 2
    assert len(set(sent)) > 1


def test_response_to_a_client_that_left_before_the_commit_is_not_sent(harness: TopicApiHarness) -> None:
    harness.add("large", 4 * SLICE_PARTITIONS)
    harness.request_metadata()
    while harness.turns:
        harness.turns.pop()()
    harness.session.on_unblocked[0]()
    harness.finish()
    assert harness.session.responses == []


def test_topic_named_twice_is_listed_once(harness: TopicApiHarness) -> None:
    names = [MetadataRequestTopic(name=name) for name in ("a", "b", "a")]
    entries = list(harness.listings.requested_topics(names))
    assert [entry.head.name if entry is not None else None for entry in entries] == ["a", "b", None]


def test_response_waits_for_the_commit_of_every_slice(harness: TopicApiHarness) -> None:
    """A leader that is deposed between two slices has listed uncommitted partitions."""
    harness.add("large", 3 * SLICE_PARTITIONS)
    request = harness.request_metadata()
    harness.commits.waiting.pop()(False)
    harness.put("large", 0, Partition((2, 1), (2,), 2, 99))
    harness.finish()
    reported: Any = decode_response(request, harness.session.responses[0])
    assert reported.topics[-1].partitions[0].leader_epoch == 99


def test_pages_are_described_in_slices(harness: TopicApiHarness) -> None:
    """A hundred clients that request the same page do not hold the event loop for longer than one."""
    partitions = 40 * SLICE_PARTITIONS
    harness.add("large", partitions)
    sessions = [RecordingSession() for _ in range(3)]
    for session in sessions:
        request = request_of(DescribeTopicPartitionsRequest([TopicRequest("large")]), 0)
        harness.apis.describe_topic_partitions(session, request)
        assert set(session.held) == {request}, "later requests of the connection wait"
    calls = CallCounter()
    outcomes, harness.commits.waiting[:] = list(harness.commits.waiting), []
    for outcome in outcomes:
        with calls.counted():
            outcome(True)
    turns = 0
    while harness.turns:
        turns += 1
        with calls.counted():
            harness.turns.pop()()
    assert turns >= 2 * len(sessions) * partitions // (STEPS_PER_UNIT * SLICE_PARTITIONS)
    assert calls.longest <= CALLS_PER_STEP * STEPS_PER_UNIT * SLICE_PARTITIONS
    for session in sessions:
        response: Any = decode_response(request, session.responses[0])
        assert [p.partition_index for p in response.topics[0].partitions] == list(range(partitions))


def test_page_shows_one_moment(harness: TopicApiHarness) -> None:
    harness.add("large", 40 * SLICE_PARTITIONS)
    request = request_of(DescribeTopicPartitionsRequest([TopicRequest("large")]), 0)
    harness.apis.describe_topic_partitions(harness.session, request)
    harness.commits.waiting.pop()(True)
    last = 40 * SLICE_PARTITIONS - 1
    harness.put("large", last, Partition((2, 1), (2,), 2, 99))
    harness.image.brokers[1] = a_broker(1, fenced=True)
    harness.finish()
    response: Any = decode_response(request, harness.session.responses[0])
    shown = response.topics[0].partitions[last]
    assert (shown.leader_epoch, shown.offline_replicas) == (0, [])


def test_listing_for_a_closed_connection_ends(harness: TopicApiHarness) -> None:
    """Its turns would delay those of others."""
    harness.add("large", 10 * SLICE_PARTITIONS)
    harness.request_metadata()
    (cancel,) = harness.session.on_unblocked
    cancel()
    while harness.turns:
        harness.turns.pop()()
    assert len(harness.commits.waiting) == 1, "only the first slice was described"
    harness.finish()
    assert harness.session.responses == []


def extend_part(part: MetadataResponse) -> None:
    for topic in part.topics:
        topic.topic_authorized_operations = 8


def extend_rest(rest: MetadataResponse) -> None:
    extend_part(rest)
    rest.topics.append(MetadataResponseTopic(int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), "refused"))


@pytest.mark.parametrize("size", [1, SLICE_PARTITIONS - 1, SLICE_PARTITIONS, 40 * SLICE_PARTITIONS])
def test_topics_are_extended_by_rights_in_slices(harness: TopicApiHarness, size: int) -> None:
    """To decode and extend the whole response of a large topic held the event loop for 57 ms."""
    harness.add("large", size)
    calls = CallCounter()
    with calls.counted():
        session = ExtendedSession(harness.session, Extend(extend_rest, extend_part=extend_part))
        request = harness.request_metadata(session=session)
    while harness.turns or harness.commits.waiting:
        with calls.counted():
            harness.turns.pop()() if harness.turns else harness.commits.waiting.pop()(True)
    (response,) = harness.session.responses
    reported: Any = decode_response(request, response) if isinstance(response, bytes) else response
    assert [topic.name for topic in reported.topics] == [*"abc", "large", "refused"]
    assert [topic.topic_authorized_operations for topic in reported.topics[:-1]] == [8] * 4
    assert len(reported.topics[3].partitions) == size
    assert calls.longest <= CALLS_PER_STEP * 2 * SLICE_PARTITIONS


@pytest.mark.parametrize("size", [1, 4 * SLICE_PARTITIONS])
def test_rights_hide_topics_in_slices(harness: TopicApiHarness, size: int) -> None:
    harness.add("large", size)
    hidden = Extend[MetadataResponse](
        lambda rest: rest.topics.clear(), extend_part=lambda part: part.topics.clear()
    )
    harness.request_metadata(session=ExtendedSession(harness.session, hidden))
    harness.finish()
    (response,) = harness.session.responses
    assert response.topics == []


def test_extension_that_cannot_be_encoded_is_left_to_the_session(harness: TopicApiHarness) -> None:
    """The session closes the connection; names may be null since version 12."""
    harness.add("large", 4 * SLICE_PARTITIONS)
    refused = Extend[MetadataResponse](lambda rest: rest.topics.append(MetadataResponseTopic(0, None)))
    harness.request_metadata(11, ExtendedSession(harness.session, refused))
    with pytest.raises(UnsupportedVersion):
        harness.finish()
