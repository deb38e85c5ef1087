"""DescribeTopicPartitions, from the image of any node.

The image of a follower is committed but slightly old. The image of the leader has uncommitted records: responses from
it wait until their content is committed or rolled back.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import partial
from heapq import heappop, heappush
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
from quorumd.node.sessions.stepped_task import SteppedTask
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from quorumd.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from quorumd.protocol.routes import Route, Session

NAMES_PER_STEP = 8
"""Names that are sorted in one step, which takes about as long as a step of other tasks."""


class TopicApis:
    """Handles DescribeTopicPartitions."""

    def __init__(self, context: ApiContext) -> None:
        self._state_machine = context.metadata.state_machine
        self._responses = SlicedResponses(context)
        self._scheduler = context.execution.scheduler

    def routes(self) -> Iterable[Route]:
        return (Route(DescribeTopicPartitionsRequest, self.describe_topic_partitions),)

    def describe_topic_partitions(
        self, session: Session, request: Request[DescribeTopicPartitionsRequest]
    ) -> None:
        """Describe topics by name, up to a limit of partitions; a cursor marks the next page (KIP-966)."""
        message = request.message
        if _is_invalid(message):
            self._responses.respond(session, request, lambda: _invalid_cursor(message))
        elif message.topics:
            sorting = SteppedTask(_sorted_names(message), partial(self._respond, session, request))
            session.block(request, sorting.cancel)
            self._scheduler.begin(sorting)
        else:
            self._respond(session, request, None)

    def _respond(
        self, session: Session, request: Request[DescribeTopicPartitionsRequest], names: list[str] | None
    ) -> None:
        """Describe a page of the topics in the heap `names`, None for all topics."""
        self._responses.respond(
            session, request, lambda: _page(self._state_machine.image, request.message, names)
        )


def _is_invalid(message: DescribeTopicPartitionsRequest) -> bool:
    """Whether the cursor is outside the requested topics."""
    cursor = message.cursor
    if cursor is None:
        return False
    is_outside = bool(message.topics) and all(topic.name != cursor.topic_name for topic in message.topics)
    return cursor.partition_index < 0 or is_outside


def _invalid_cursor(
    message: DescribeTopicPartitionsRequest,
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    """Describe an error for every topic, in one step each, since the response has no top-level error."""
    response = DescribeTopicPartitionsResponse()
    for topic in message.topics or [TopicRequest(message.cursor.topic_name if message.cursor else "")]:
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(int(ErrorCode.INVALID_REQUEST), topic.name)
        )
        yield
    return response


def _sorted_names(message: DescribeTopicPartitionsRequest) -> Generator[None, None, list[str]]:
    """Put the names from the cursor on into a heap, each once, in steps."""
    first = _first_name(message)
    seen: set[str] = set()
    heap: list[str] = []
    for position, topic in enumerate(message.topics, 1):
        if topic.name >= first and topic.name not in seen:
            seen.add(topic.name)
            heappush(heap, topic.name)
        if position % NAMES_PER_STEP == 0:
            yield
    return heap


def _first_name(message: DescribeTopicPartitionsRequest) -> str:
    return message.cursor.topic_name if message.cursor is not None else ""


class _PageTopic(NamedTuple):
    """A topic of a page, with its partitions on the page by number."""

    name: str
    id: KafkaUuid | None
    """None if the topic does not exist."""
    partitions: list[tuple[int, Partition]]


def _page(
    image: ClusterImage, message: DescribeTopicPartitionsRequest, names: list[str] | None
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    """Take one page of partitions from the image, with the cursor of the next page, and describe it in one step per
    partition."""
    topics: list[_PageTopic] = []
    found = image.topic_ids.names_from(_first_name(message)) if names is None else _popped(names.copy())
    cursor = _collect(image, message, found, topics)
    return _described(dict(image.brokers), topics, cursor)


def _collect(
    image: ClusterImage,
    message: DescribeTopicPartitionsRequest,
    names: Iterable[str],
    topics: list[_PageTopic],
) -> Cursor | None:
    """Add topics by name until the page is full, and return the cursor of the next page. A missing topic counts as a
    partition."""
    first_name = _first_name(message)
    remaining = partition_limit(message)
    for name in names:
        if not remaining:
            return Cursor(name, 0)
        topic = image.topic_by_name(name)
        if topic is None:
            topics.append(_PageTopic(name, None, []))
            remaining -= 1
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


def _popped(heap: list[str]) -> Iterator[str]:
    while heap:
        yield heappop(heap)


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
