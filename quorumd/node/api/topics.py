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
    partition_limit,
)
from quorumd.controller.broker import Broker
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
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
    """A topic of a page, with its partitions of the page by number. `id`: None if it does not exist."""

    name: str
    id: KafkaUuid | None
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
    remaining = partition_limit(message)
    for name in _names_from(first_name, requested) if requested else image.topic_ids.names_from(first_name):
        if not remaining:
            return Cursor(name, 0)
        topic = image.topic_by_name(name)
        if topic is None:
            topics.append(_PageTopic(name, None, []))
            continue
        first = message.cursor.partition_index if message.cursor is not None and name == first_name else 0
        partitions = topic.partitions
        end = min(len(partitions), first + remaining)
        taken = [(number, partitions[number]) for number in range(first, end) if number in partitions]
        topics.append(_PageTopic(name, topic.id, taken))
        if end < len(partitions):
            return Cursor(name, end)
        remaining -= len(taken)
    return None


def _names_from(first: str, names: Iterable[str]) -> Iterable[str]:
    return sorted({name for name in names if name >= first})


def _described(
    brokers: Mapping[int, Broker], topics: Iterable[_PageTopic], cursor: Cursor | None
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    response = DescribeTopicPartitionsResponse(0, [], cursor)
    for name, topic_id, partitions in topics:
        head = _described_topic(name, topic_id)
        for number, partition in partitions:
            head.partitions.append(described_partition(brokers, number, partition))
            yield
        response.topics.append(head)
        yield
    return response


def _described_topic(name: str, topic_id: KafkaUuid | None) -> DescribeTopicPartitionsResponseTopic:
    if topic_id is None:
        return DescribeTopicPartitionsResponseTopic(int(missing_topic_error(name)), name)
    return DescribeTopicPartitionsResponseTopic(0, name, topic_id, name in INTERNAL_TOPICS)
