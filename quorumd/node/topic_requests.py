"""Metadata's topics and DescribeTopicPartitions: what any node tells of topics, as far as it has applied the log.

A node that does not lead tells what is committed, a moment behind. The image of the leader is ahead of that: its
answers wait until what they tell is committed, or taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID
from quorumd.node.proposals import Outcome
from quorumd.node.request_router import Handler
from quorumd.node.server_session import Session
from quorumd.node.state_machine import StateMachine
from quorumd.node.topic_wire import INTERNAL_TOPICS, described_partitions, metadata_topic, missing
from quorumd.protocol.apis import ApiKey
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

MOST_PARTITIONS = 2000
"""In one answer to DescribeTopicPartitions (Kafka's max.request.partition.size.limit)."""


class TopicRequests:
    """`when_committed(outcome)` calls back once what is proposed now is committed, or lost (`Proposals.follow`)."""

    def __init__(self, state_machine: StateMachine, when_committed: Callable[[Outcome], None]) -> None:
        self._state_machine = state_machine
        self._when_committed = when_committed

    def handlers(self) -> Iterable[tuple[int, Handler]]:
        return ((ApiKey.DESCRIBE_TOPIC_PARTITIONS, self.describe_topic_partitions),)

    def answer_committed(self, session: Session, request: Request, make: Callable[[], Message]) -> None:
        """Answer with what `make` tells of the image, once that is committed; if it is taken back, with what is then
        left."""
        answer = make()
        self._when_committed(lambda committed: session.answer(request, answer if committed else make()))

    def described(self, asked: MetadataRequestTopic) -> MetadataResponseTopic:
        """What Metadata tells of one topic."""
        image = self._state_machine.image
        if asked.topic_id != ZERO_UUID:
            topic = image.topics.get(asked.topic_id)
            error = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic = image.topic_named(asked.name or "")
            error = missing(asked.name or "")
        if topic is None:
            return MetadataResponseTopic(int(error), asked.name or "", asked.topic_id)
        return metadata_topic(image, topic)

    def all_described(self) -> list[MetadataResponseTopic]:
        """What Metadata tells of all topics."""
        image = self._state_machine.image
        return [
            metadata_topic(image, image.topics[topic_id]) for _, topic_id in sorted(image.topic_ids.items())
        ]

    def describe_topic_partitions(self, session: Session, request: Request) -> None:
        """Topics by name, and as many partitions as the answer may have; a cursor says where to go on (KIP-966)."""
        message: Any = request.message
        if _is_wrong(message):
            session.answer(request, _refused(message))
        else:
            self.answer_committed(session, request, lambda: _page(self._state_machine.image, message))


def _is_wrong(message: DescribeTopicPartitionsRequest) -> bool:
    """Whether the cursor is nowhere in what is asked for."""
    cursor = message.cursor
    if cursor is None:
        return False
    is_outside = bool(message.topics) and all(topic.name != cursor.topic_name for topic in message.topics)
    return cursor.partition_index < 0 or is_outside


def _refused(message: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """The answer has no place for an error but its topics."""
    error = int(ErrorCode.INVALID_REQUEST)
    names = [topic.name for topic in message.topics] or [message.cursor.topic_name if message.cursor else ""]
    return DescribeTopicPartitionsResponse(
        0, [DescribeTopicPartitionsResponseTopic(error, name) for name in names]
    )


def _page(image: ClusterImage, message: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """One page of partitions, and where the next one begins."""
    asked = [topic.name for topic in message.topics]
    begin = message.cursor.topic_name if message.cursor is not None else ""
    left = max(1, min(message.response_partition_limit, MOST_PARTITIONS))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in sorted({name for name in asked or image.topic_ids if name >= begin}):
        if not left:
            return DescribeTopicPartitionsResponse(0, topics, Cursor(name, 0))
        topic = image.topic_named(name)
        if topic is None:
            topics.append(DescribeTopicPartitionsResponseTopic(int(missing(name)), name))
            continue
        first = message.cursor.partition_index if message.cursor is not None and name == begin else 0
        end = min(len(topic.partitions), first + left)
        told = described_partitions(image, topic, range(first, end))
        topics.append(DescribeTopicPartitionsResponseTopic(0, name, topic.id, name in INTERNAL_TOPICS, told))
        if end < len(topic.partitions):
            return DescribeTopicPartitionsResponse(0, topics, Cursor(name, end))
        left -= len(told)
    return DescribeTopicPartitionsResponse(0, topics)
