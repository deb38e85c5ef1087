"""Metadata's topics and DescribeTopicPartitions: what any node tells of topics, as far as it has applied the log.

A node that does not lead tells what is committed, a moment behind. The image of the leader is ahead of that: its
answers wait until what they tell is committed, or taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID
from quorumd.node.api.encoded_topics import EncodedTopics
from quorumd.node.api.topic_listing import TopicEntry, TopicListingTask
from quorumd.node.api.topic_messages import (
    INTERNAL_TOPICS,
    described_partitions,
    metadata_head,
    missing_topic_error,
)
from quorumd.node.sessions.router import Route
from quorumd.node.sessions.server_session import Session
from quorumd.node.sessions.slice_scheduler import SlicedTask, SliceScheduler
from quorumd.node.state.proposals import CommitCallback
from quorumd.node.state.state_machine import StateMachine
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from quorumd.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from quorumd.protocol.messages.metadata_request import MetadataRequestTopic
from quorumd.protocol.messages.metadata_response import MetadataResponseTopic
from quorumd.protocol.wire import Message

MAX_PARTITIONS = 2000
"""In one answer to DescribeTopicPartitions (Kafka's max.request.partition.size.limit)."""


class TopicApis:
    """`when_committed(outcome)`: that of `CommittedImage`.
    `sliced`: what does long work, of all requests together, in turns in which the image is readable."""

    def __init__(
        self,
        state_machine: StateMachine,
        when_committed: Callable[[CommitCallback], None],
        scheduler: SliceScheduler,
    ) -> None:
        self._state_machine = state_machine
        self._when_committed = when_committed
        self._scheduler = scheduler

    def routes(self) -> Iterable[Route]:
        return (Route(DescribeTopicPartitionsRequest, self.describe_topic_partitions),)

    def respond_with_topics(
        self,
        session: Session,
        request: Request[Message],
        topics: Callable[[], Iterator[TopicEntry]],
        build: Callable[[list[MetadataResponseTopic]], Message],
    ) -> None:
        """Gather what `topics()` yields, in slices, and answer with what `make` makes of it. What else this session
        asks waits for an answer that takes several."""
        encoded = EncodedTopics(request.api_version)

        def on_complete(response: Message) -> None:
            if len(encoded):
                session.respond_encoded(request, encoded.encode_response(request, response))
            else:
                session.respond(request, response)

        def retry() -> None:
            self.respond_with_topics(session, request, topics, build)

        machine = self._state_machine
        work = TopicListingTask(
            topics(), lambda: machine.image, encoded, build, self._when_committed, on_complete, retry
        )
        self._begin(work)
        if not work.is_done:
            session.block(request)

    def requested_topics(self, requested: Iterable[MetadataRequestTopic]) -> Iterator[TopicEntry]:
        """What Metadata tells of these topics."""
        return map(self._topic_entry, requested)

    def all_topics(self) -> Iterator[TopicEntry]:
        """What Metadata tells of all topics. One that goes meanwhile may or may not be among them."""
        for name in sorted(self._state_machine.image.topic_ids):
            topic = self._state_machine.image.topic_by_name(name)
            if topic is not None:
                yield TopicEntry(metadata_head(topic), topic.partitions)

    def _topic_entry(self, requested: MetadataRequestTopic) -> TopicEntry:
        image = self._state_machine.image
        if requested.topic_id != ZERO_UUID:
            topic = image.topics.get(requested.topic_id)
            error = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic = image.topic_by_name(requested.name or "")
            error = missing_topic_error(requested.name or "")
        if topic is None:
            return TopicEntry(MetadataResponseTopic(int(error), requested.name or "", requested.topic_id), {})
        return TopicEntry(metadata_head(topic), topic.partitions)

    def describe_topic_partitions(
        self, session: Session, request: Request[DescribeTopicPartitionsRequest]
    ) -> None:
        """Topics by name, and as many partitions as the answer may have; a cursor says where to go on (KIP-966)."""
        message = request.message
        if _is_invalid(message):
            session.respond(request, _invalid_cursor(message))
        else:
            self._begin(_PageTask(self, session, request))

    def _begin(self, work: SlicedTask) -> None:
        if self._state_machine.is_readable:
            self._scheduler.begin(work)
        else:
            self._state_machine.when_readable(lambda: self._scheduler.begin(work))

    def respond_with_page(self, session: Session, request: Request[DescribeTopicPartitionsRequest]) -> int:
        """Returns how many partitions there are in the page."""
        message = request.message
        response = _page(self._state_machine.image, message)

        def on_commit(committed: bool) -> None:
            if committed:
                session.respond(request, response)
            else:
                self.describe_topic_partitions(session, request)

        self._when_committed(on_commit)
        return sum(len(topic.partitions) for topic in response.topics)


class _PageTask:
    """A page of DescribeTopicPartitions as work: one slice, but many may be asked for at once."""

    def __init__(
        self, requests: TopicApis, session: Session, request: Request[DescribeTopicPartitionsRequest]
    ) -> None:
        self.is_done = False
        self._requests = requests
        self._session = session
        self._request = request

    def advance(self, room: int) -> int:
        self.is_done = True
        return self._requests.respond_with_page(self._session, self._request)


def _is_invalid(message: DescribeTopicPartitionsRequest) -> bool:
    """Whether the cursor is nowhere in what is asked for."""
    cursor = message.cursor
    if cursor is None:
        return False
    is_outside = bool(message.topics) and all(topic.name != cursor.topic_name for topic in message.topics)
    return cursor.partition_index < 0 or is_outside


def _invalid_cursor(message: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """The answer has no place for an error but its topics."""
    error = int(ErrorCode.INVALID_REQUEST)
    names = [topic.name for topic in message.topics] or [message.cursor.topic_name if message.cursor else ""]
    return DescribeTopicPartitionsResponse(
        0, [DescribeTopicPartitionsResponseTopic(error, name) for name in names]
    )


def _page(image: ClusterImage, message: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """One page of partitions, and where the next one begins."""
    requested = [topic.name for topic in message.topics]
    begin = message.cursor.topic_name if message.cursor is not None else ""
    left = max(1, min(message.response_partition_limit, MAX_PARTITIONS))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in sorted({name for name in requested or image.topic_ids if name >= begin}):
        if not left:
            return DescribeTopicPartitionsResponse(0, topics, Cursor(name, 0))
        topic = image.topic_by_name(name)
        if topic is None:
            topics.append(DescribeTopicPartitionsResponseTopic(int(missing_topic_error(name)), name))
            continue
        first = message.cursor.partition_index if message.cursor is not None and name == begin else 0
        end = min(len(topic.partitions), first + left)
        described = described_partitions(image, topic, range(first, end))
        topics.append(
            DescribeTopicPartitionsResponseTopic(0, name, topic.id, name in INTERNAL_TOPICS, described)
        )
        if end < len(topic.partitions):
            return DescribeTopicPartitionsResponse(0, topics, Cursor(name, end))
        left -= len(described)
    return DescribeTopicPartitionsResponse(0, topics)
