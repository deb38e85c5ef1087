"""DescribeTopicPartitions, from the image of any node.

The image of a follower is committed but slightly old. That of the leader has uncommitted records: its responses wait
until their content is committed or rolled back.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import NamedTuple

from quorumd.broker.api.topic_messages import (
    INTERNAL_TOPICS,
    described_partition,
    missing_topic_error,
)
from quorumd.controller.broker import Broker
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from quorumd.node.api.context import ApiContext
from quorumd.node.api.sliced_responses import SlicedResponses
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from quorumd.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from quorumd.protocol.routes import Route, Session

MAX_PARTITIONS = 2000
"""The maximum per response to DescribeTopicPartitions (Kafka's max.request.partition.size.limit)."""


class TopicApis:
    """DescribeTopicPartitions."""

    def __init__(self, context: ApiContext) -> None:
        self._state_machine = context.metadata.state_machine
        self._responses = SlicedResponses(context)

    def routes(self) -> Iterable[Route]:
        return (Route(DescribeTopicPartitionsRequest, self.describe_topic_partitions),)

    def describe_topic_partitions(
        self, session: Session, request: Request[DescribeTopicPartitionsRequest]
    ) -> None:
        """Topics by name, up to a limit of partitions; a cursor marks the start of the next page (KIP-966)."""
        message = request.message
        if _is_invalid(message):
            session.respond(request, _invalid_cursor(message))
        else:
            self._responses.respond(session, request, lambda: _page(self._state_machine.image, message))


def _is_invalid(message: DescribeTopicPartitionsRequest) -> bool:
    """Whether the cursor is outside the requested topics."""
    cursor = message.cursor
    if cursor is None:
        return False
    is_outside = bool(message.topics) and all(topic.name != cursor.topic_name for topic in message.topics)
    return cursor.partition_index < 0 or is_outside


def _invalid_cursor(message: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Return an error for every topic, since the response has no top-level error."""
    error = int(ErrorCode.INVALID_REQUEST)
    names = [topic.name for topic in message.topics] or [message.cursor.topic_name if message.cursor else ""]
    return DescribeTopicPartitionsResponse(
        0, [DescribeTopicPartitionsResponseTopic(error, name) for name in names]
    )


class _PageTopic(NamedTuple):
    """A topic of a page without its partitions, and these by number."""

    head: DescribeTopicPartitionsResponseTopic
    partitions: list[tuple[int, Partition]]


def _page(
    image: ClusterImage, message: DescribeTopicPartitionsRequest
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    """Take one page of partitions from the image, with the cursor of the next page, and describe it in one step per
    partition."""
    topics: list[_PageTopic] = []
    cursor = _collect(image, message, topics)
    return _described(dict(image.brokers), topics, cursor)


def _collect(
    image: ClusterImage, message: DescribeTopicPartitionsRequest, topics: list[_PageTopic]
) -> Cursor | None:
    requested = [topic.name for topic in message.topics]
    first_name = message.cursor.topic_name if message.cursor is not None else ""
    remaining = max(1, min(message.response_partition_limit, MAX_PARTITIONS))
    for name in sorted({name for name in requested or image.topic_ids if name >= first_name}):
        if not remaining:
            return Cursor(name, 0)
        topic = image.topic_by_name(name)
        if topic is None:
            missing = DescribeTopicPartitionsResponseTopic(int(missing_topic_error(name)), name)
            topics.append(_PageTopic(missing, []))
            continue
        first = message.cursor.partition_index if message.cursor is not None and name == first_name else 0
        end = min(len(topic.partitions), first + remaining)
        head = DescribeTopicPartitionsResponseTopic(0, name, topic.id, name in INTERNAL_TOPICS)
        numbers = [number for number in range(first, end) if number in topic.partitions]
        topics.append(_PageTopic(head, [(number, topic.partitions[number]) for number in numbers]))
        if end < len(topic.partitions):
            return Cursor(name, end)
        remaining -= len(numbers)
    return None


def _described(
    brokers: Mapping[int, Broker], topics: Iterable[_PageTopic], cursor: Cursor | None
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    response = DescribeTopicPartitionsResponse(0, [], cursor)
    for head, partitions in topics:
        for number, partition in partitions:
            head.partitions.append(described_partition(brokers, number, partition))
            yield
        response.topics.append(head)
        yield
    return response
