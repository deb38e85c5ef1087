"""DescribeTopicPartitions of topics that are missing or that the client may not describe, and of many names."""

from __future__ import annotations

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID
from quorumd.node.api.forwarding import decode_response
from quorumd.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from quorumd.security.acls import Operation, ResourceType
from quorumd.security.authorizer import Authorizer
from tests.support.call_counter import CallCounter
from tests.support.node.recording_session import request_of
from tests.support.node.topic_api_harness import SLICE_PARTITIONS, TopicApiHarness
from tests.support.security.rights import allow, authorizer_of

TOPIC = ResourceType.TOPIC


@pytest.fixture
def harness() -> TopicApiHarness:
    return with_topics(TopicApiHarness())


def with_topics(harness: TopicApiHarness) -> TopicApiHarness:
    """Add topics a (3 partitions), b (2) and c (1)."""
    for name, partitions in (("a", 3), ("b", 2), ("c", 1)):
        harness.add(name, partitions)
    return harness


def names_of(count: int) -> list[str]:
    """Missing topics, a third of them named twice."""
    return [f"{number % (count - count // 3):04}" for number in range(count)]


@pytest.mark.parametrize("cursor", [None, Cursor("0007", 0), Cursor("none", 0)], ids=str)
@pytest.mark.parametrize("authorizer", [None, authorizer_of()], ids=["open", "without rights"])
def test_turns_of_many_names_are_bounded(authorizer: Authorizer | None, cursor: Cursor | None) -> None:
    """A page of 200,000 names took 170 ms in one turn, and to check the client's rights on them as long."""
    harness = TopicApiHarness(authorizer)
    longest = []
    for count in (2000, 10_000):
        calls = CallCounter()
        message = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names_of(count)], 20, cursor)
        with calls.counted():
            harness.apis.describe_topic_partitions(harness.session, request_of(message, 0))
        while harness.turns or harness.commits.waiting:
            for outcome in [harness.commits.waiting.pop() for _ in range(len(harness.commits.waiting))]:
                with calls.counted():
                    outcome(True)
            for turn in [harness.turns.pop() for _ in range(len(harness.turns))]:
                with calls.counted():
                    turn()
        longest.append(calls.longest)
    assert len(harness.session.responses) == 2
    assert longest[1] <= 1.2 * longest[0]


def restricted(*names: str) -> TopicApiHarness:
    """Let alice describe only topics with these names."""
    rights = authorizer_of([allow(Operation.DESCRIBE, TOPIC, name) for name in names])
    return with_topics(TopicApiHarness(rights))


def test_pages_of_all_topics_hide_those_without_describe() -> None:
    harness = restricted("a", "c")
    assert harness.page() == ([("a", [0, 1, 2]), ("c", [0])], None)
    assert harness.page(cursor=("b", 1)) == ([("c", [0])], None)
    assert harness.page(limit=3) == ([("a", [0, 1, 2])], ("c", 0))
    assert restricted().page() == ([], None)


def test_topics_without_describe_have_an_error_if_named() -> None:
    harness = restricted("a", "x")
    response = harness.describe("x", "c", "b", "a", limit=5)
    errors = [(topic.name, topic.error_code) for topic in response.topics]
    assert errors == [("a", 0), ("b", ErrorCode.TOPIC_AUTHORIZATION_FAILED), ("c", 29)]
    assert not any(topic.topic_id != ZERO_UUID or topic.partitions for topic in response.topics[1:])
    assert response.next_cursor.topic_name == "x", "an error counts as a partition"
    assert harness.page("c", "x", cursor=("c", 0)) == ([("c", []), ("x", [])], None)


def test_names_beyond_the_page_are_not_checked() -> None:
    harness = restricted()
    harness.describe(*names_of(500), limit=20)
    assert harness.authorizer is not None
    # The first may have no partition on the page, and the last is in the cursor.
    assert harness.authorizer.counters.denied_total == 22


def test_all_topics_beyond_the_page_are_not_checked() -> None:
    harness = restricted("a", "b", "c")
    assert harness.page(limit=3) == ([("a", [0, 1, 2])], ("b", 0))
    assert harness.authorizer is not None
    before = harness.authorizer.counters.allowed_total
    harness.describe(limit=1)
    assert harness.authorizer.counters.allowed_total == before + 3


def test_described_topics_have_the_operations_of_the_client() -> None:
    (topic,) = restricted("a").describe("a").topics
    assert topic.topic_authorized_operations == 1 << Operation.DESCRIBE
    harness = TopicApiHarness()
    harness.add("a", 1)
    (topic,) = harness.describe("a").topics
    assert topic.topic_authorized_operations == -(1 << 31)


def test_topics_created_between_two_steps_are_described() -> None:
    harness = restricted("0", "b", "bb")
    for number in range(3 * SLICE_PARTITIONS):
        harness.add(f"a{number}", 1)
    harness.apis.describe_topic_partitions(
        harness.session, request_of(DescribeTopicPartitionsRequest([], 2000), 0)
    )
    assert harness.turns, "not all topics have been checked"
    harness.add("0", 1)
    harness.add("bb", 1)
    harness.finish()
    (response,) = harness.session.responses
    described = decode_response(request_of(DescribeTopicPartitionsRequest(), 0), response)
    assert [topic.name for topic in described.topics] == ["b", "bb"]


def test_missing_topics_fill_a_page(harness: TopicApiHarness) -> None:
    assert harness.page("x", "a", "y", "z", limit=4) == ([("a", [0, 1, 2]), ("x", [])], ("y", 0))
    assert harness.page("x", "a", "y", "z", limit=4, cursor=("y", 0)) == ([("y", []), ("z", [])], None)
