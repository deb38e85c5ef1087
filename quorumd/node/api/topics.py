"""DescribeTopicPartitions, from the image of any node.

The image of a follower is committed but slightly old. The image of the leader has uncommitted records: responses from
it wait until their content is committed or rolled back.

A topic that is missing or that the client may not describe counts as a partition. So of the names in a request, only
the first in order can be on the page; the others are dropped in steps before rights are checked.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

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
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.node.api.context import ApiContext
from quorumd.node.api.sliced_responses import SlicedResponses
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
from quorumd.protocol.stepped_task import SteppedTask
from quorumd.security.acls import OPERATIONS, Operation, ResourceType
from quorumd.security.authorizer import Access

NAMES_PER_STEP: Final = 8
"""Names of a request that are read in one step, which takes about as long as a step of other tasks."""


class TopicApis:
    """Handles DescribeTopicPartitions."""

    def __init__(self, context: ApiContext) -> None:
        self._state_machine = context.metadata.state_machine
        self._authorization = context.gates.authorization
        self._responses = SlicedResponses(context)
        self._scheduler = context.execution.scheduler

    def routes(self) -> Iterable[Route]:
        return (Route(DescribeTopicPartitionsRequest, self.describe_topic_partitions),)

    def describe_topic_partitions(
        self, session: Session, request: Request[DescribeTopicPartitionsRequest]
    ) -> None:
        """Describe topics by name, up to a limit of partitions; a cursor marks the next page (KIP-966).

        The client gets only topics that it may describe, and errors for others that it requests by name.
        """
        access = self._authorization.access(session, request.api_key)
        selection = SteppedTask(
            self._selected(request.message, access), partial(self._respond, session, request, access)
        )
        session.block(request, selection.cancel)
        self._scheduler.begin(selection)

    def _selected(
        self, message: DescribeTopicPartitionsRequest, access: Access | None
    ) -> Generator[int, None, list[_Selected]]:
        """Return the topics that the page may contain, and the next one. The first may have no partition on it: a
        topic created again since the previous page has fewer partitions than the cursor."""
        first, limit = _first_name(message), partition_limit(message)
        count = limit + 2
        is_named = bool(message.topics)
        if not (yield from _is_valid(message)):
            requested = (yield from _first_names(message.topics, "", limit)) if is_named else [first]
            return [_Selected(name, ErrorCode.INVALID_REQUEST) for name in requested]
        names: Iterable[str] = self._all_names(first)
        if is_named:
            names = yield from _first_names(message.topics, first, count)
        selected: list[_Selected] = []
        for name in names:
            if access is None or access.allows(
                Operation.DESCRIBE, ResourceType.TOPIC, name, logs_denied=is_named
            ):
                selected.append(_Selected(name))
            elif is_named:
                selected.append(_Selected(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            if len(selected) == count:
                break
            yield 1
        return selected

    def _all_names(self, first: str) -> Iterator[str]:
        """Yield the names of all topics from `first` on; topics may be created and deleted meanwhile."""
        while (name := next(self._state_machine.image.topic_ids.names_from(first), None)) is not None:
            yield name
            first = f"{name}\0"

    def _respond(
        self,
        session: Session,
        request: Request[DescribeTopicPartitionsRequest],
        access: Access | None,
        selected: list[_Selected],
    ) -> None:
        """Describe a page of the selected topics."""
        self._responses.respond(
            session, request, lambda: _page(self._state_machine.image, request.message, selected, access)
        )


class _Selected(NamedTuple):
    """A topic that a page may contain, and the error if the client may not describe it."""

    name: str
    error: ErrorCode = ErrorCode.NONE


def _is_valid(message: DescribeTopicPartitionsRequest) -> Generator[int, None, bool]:
    """Whether the cursor is one of the requested topics, found in steps."""
    cursor = message.cursor
    if cursor is None or cursor.partition_index < 0:
        return cursor is None
    for position, topic in enumerate(message.topics):
        if topic.name == cursor.topic_name:
            return True
        if position % NAMES_PER_STEP == 0:
            yield 1
    return not message.topics


def _first_names(topics: list[TopicRequest], first: str, count: int) -> Generator[int, None, list[str]]:
    """Return the first `count` names from `first` on, in order. Topics are removed in steps: to free 200,000 at once
    takes 40 ms."""
    names: set[str] = set()
    while topics:
        names.update(topic.name for topic in topics[-NAMES_PER_STEP:] if topic.name >= first)
        del topics[-NAMES_PER_STEP:]
        if len(names) >= 2 * count:
            names = set(sorted(names)[:count])
        yield 1
    return sorted(names)[:count]


def _first_name(message: DescribeTopicPartitionsRequest) -> str:
    return message.cursor.topic_name if message.cursor is not None else ""


class _PageTopic(NamedTuple):
    """A topic of a page, with its partitions on the page from number `first` on; None for one that does not exist."""

    name: str
    is_visible: bool
    id: KafkaUuid = ZERO_UUID
    error: ErrorCode = ErrorCode.NONE
    first: int = 0
    partitions: Sequence[Partition | None] = ()


def _page(
    image: ClusterImage,
    message: DescribeTopicPartitionsRequest,
    selected: Iterable[_Selected],
    access: Access | None,
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    """Take one page of partitions from the image, with the cursor of the next page, and describe it in one step per
    partition."""
    topics: list[_PageTopic] = []
    cursor = _collect(image, message, selected, topics)
    return _described(dict(image.brokers), topics, cursor, access)


def _collect(
    image: ClusterImage,
    message: DescribeTopicPartitionsRequest,
    selected: Iterable[_Selected],
    topics: list[_PageTopic],
) -> Cursor | None:
    """Add topics until the page is full, and return the cursor of the next page."""
    first_name = _first_name(message)
    remaining = partition_limit(message)
    for name, error in selected:
        if not remaining:
            return Cursor(name, 0)
        topic = image.topic_by_name(name)
        if error or topic is None:
            topics.append(_PageTopic(name, not error, error=error or missing_topic_error(name)))
            remaining -= 1
            continue
        first = message.cursor.partition_index if message.cursor is not None and name == first_name else 0
        partitions = topic.partitions
        end = min(len(partitions), first + remaining)
        taken = [partitions.get(number) for number in range(first, end)]
        topics.append(_PageTopic(name, True, topic.id, first=first, partitions=taken))
        if end < len(partitions):
            return Cursor(name, end)
        remaining -= len(taken)
    return None


def _described(
    brokers: Mapping[int, Broker],
    topics: Iterable[_PageTopic],
    cursor: Cursor | None,
    access: Access | None,
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    response = DescribeTopicPartitionsResponse(0, [], cursor)
    for name, is_visible, topic_id, error, first, partitions in topics:
        head = DescribeTopicPartitionsResponseTopic(int(error), name, topic_id, name in INTERNAL_TOPICS)
        for number, partition in enumerate(partitions, first):
            if partition is not None:
                head.partitions.append(described_partition(brokers, number, partition))
            yield
        if access is not None and is_visible:
            head.topic_authorized_operations = access.operations(ResourceType.TOPIC, name)
            yield from (None for _ in OPERATIONS[ResourceType.TOPIC])
        response.topics.append(head)
        yield
    return response
