"""DescribeTopicPartitions, from the image of any node.

The image of a follower is committed but slightly old. That of the leader has uncommitted records: its responses wait
until their content is committed or rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorumd.broker.api.topic_messages import (
    INTERNAL_TOPICS,
    described_partitions,
    missing_topic_error,
)
from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode
from quorumd.node.api.context import ApiContext
from quorumd.node.api.topic_listing import begin_when_readable
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
        self._committed_image = context.execution.committed_image
        self._scheduler = context.execution.scheduler

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
            begin_when_readable(self._state_machine, self._scheduler, _PageTask(self, session, request))

    def respond_with_page(self, session: Session, request: Request[DescribeTopicPartitionsRequest]) -> int:
        """Respond once the page is committed; returns the number of partitions in it."""
        message = request.message
        response = _page(self._state_machine.image, message)

        def on_commit(committed: bool) -> None:
            if committed:
                session.respond(request, response)
            else:
                self.describe_topic_partitions(session, request)

        self._committed_image.when_committed(on_commit)
        return sum(len(topic.partitions) for topic in response.topics)


class _PageTask:
    """Builds one page of DescribeTopicPartitions as a single slice, since many may be requested at once."""

    def __init__(
        self, requests: TopicApis, session: Session, request: Request[DescribeTopicPartitionsRequest]
    ) -> None:
        self.is_done = False
        self._requests = requests
        self._session = session
        self._request = request

    def advance(self, budget: int) -> int:
        self.is_done = True
        return self._requests.respond_with_page(self._session, self._request)


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


def _page(image: ClusterImage, message: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Build one page of partitions, with the cursor of the next page."""
    requested = [topic.name for topic in message.topics]
    first_name = message.cursor.topic_name if message.cursor is not None else ""
    remaining = max(1, min(message.response_partition_limit, MAX_PARTITIONS))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in sorted({name for name in requested or image.topic_ids if name >= first_name}):
        if not remaining:
            return DescribeTopicPartitionsResponse(0, topics, Cursor(name, 0))
        topic = image.topic_by_name(name)
        if topic is None:
            topics.append(DescribeTopicPartitionsResponseTopic(int(missing_topic_error(name)), name))
            continue
        first = message.cursor.partition_index if message.cursor is not None and name == first_name else 0
        end = min(len(topic.partitions), first + remaining)
        described = described_partitions(image, topic, range(first, end))
        topics.append(
            DescribeTopicPartitionsResponseTopic(0, name, topic.id, name in INTERNAL_TOPICS, described)
        )
        if end < len(topic.partitions):
            return DescribeTopicPartitionsResponse(0, topics, Cursor(name, end))
        remaining -= len(described)
    return DescribeTopicPartitionsResponse(0, topics)
