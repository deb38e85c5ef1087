"""Responses to Metadata in slices: a topic may have more partitions than one slice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from quorumd.broker.api.encoded_topics import EncodedTopics
from quorumd.broker.api.topic_messages import (
    SharedLists,
    metadata_head,
    metadata_partitions,
    missing_topic_error,
)
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID
from quorumd.node.api.context import ApiContext
from quorumd.node.sessions.slice_scheduler import SlicedTask, SliceScheduler
from quorumd.node.state.proposals import CommitCallback
from quorumd.node.state.state_machine import StateMachine
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.metadata_request import MetadataRequestTopic
from quorumd.protocol.messages.metadata_response import MetadataResponseTopic
from quorumd.protocol.routes import Session
from quorumd.protocol.wire import Message


class TopicEntry(NamedTuple):
    """A topic without its partitions, and these."""

    head: MetadataResponseTopic
    partitions: Mapping[int, Partition]


class TopicListingTask:
    """Satisfies `SlicedTask`; a unit is a topic or a partition.

    A topic is described as of its turn, whatever changes while its partitions are encoded. `image()` returns the
    current image, `when_committed` is that of `CommittedImage`. `build(topics)` builds the response after the last
    slice: with all topics if it is the only slice, else with none, since they are in `encoded`. `on_complete`
    gets the response once all of it is committed; `on_lost()` is called if it may never be.
    """

    def __init__(
        self,
        topics: Iterator[TopicEntry],
        image: Callable[[], ClusterImage],
        encoded: EncodedTopics,
        build: Callable[[list[MetadataResponseTopic]], Message],
        when_committed: Callable[[CommitCallback], None],
        on_complete: Callable[[Message], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.is_done = False
        self._topics = topics
        self._image = image
        self._encoded = encoded
        self._build = build
        self._when_committed = when_committed
        self._on_complete = on_complete
        self._on_lost = on_lost
        self._shared: SharedLists = {}
        self._described: list[MetadataResponseTopic] = []
        self._partitions: Mapping[int, Partition] = {}
        """The partitions of a topic that is too large for one slice."""
        self._numbers: list[int] = []
        self._next = 0
        self._uncommitted_slices = 0
        self._is_lost = False
        self._is_cancelled = False
        self._response: Message | None = None

    def cancel(self) -> None:
        """End the task without a response: its client is gone."""
        self._is_cancelled = self.is_done = True

    def advance(self, budget: int) -> int:
        if self._is_cancelled:
            return 0
        left = budget
        while left > 0 and not self.is_done:
            left -= self._large_slice(left) if self._next < len(self._numbers) else self._next_topic(left)
        if not self.is_done or len(self._encoded):
            self._encode_described()
        if self.is_done:
            self._response = self._build(self._described)
        # Each slice shows the image of its own moment, so each must be committed, not only the last.
        self._uncommitted_slices += 1
        self._when_committed(self._on_slice_committed)
        return budget - left

    def _next_topic(self, budget: int) -> int:
        topic = None if self._is_lost else next(self._topics, None)
        if topic is None:
            self.is_done = True
            return 0
        head, partitions = topic
        if len(partitions) < budget:
            head.partitions += metadata_partitions(
                self._image(), partitions, sorted(partitions), self._shared
            )
            self._described.append(head)
            return 1 + len(partitions)
        self._encode_described()
        self._encoded.begin_topic(head, len(partitions))
        self._partitions, self._numbers, self._next = dict(partitions), sorted(partitions), 0
        return 1

    def _large_slice(self, budget: int) -> int:
        numbers = self._numbers[self._next : self._next + budget]
        self._encoded.add_partitions(
            metadata_partitions(self._image(), self._partitions, numbers, self._shared)
        )
        self._next += len(numbers)
        return len(numbers)

    def _encode_described(self) -> None:
        if self._described:
            self._encoded.add(self._described)
            self._described = []

    def _on_slice_committed(self, committed: bool) -> None:
        self._uncommitted_slices -= 1
        self._is_lost = self._is_lost or not committed
        if self._response is None or self._uncommitted_slices or self._is_cancelled:
            return
        if self._is_lost:
            self._on_lost()
        else:
            self._on_complete(self._response)


class TopicListings:
    """Lists topics in responses to Metadata."""

    def __init__(self, context: ApiContext) -> None:
        self._state_machine = context.state_machine
        self._committed_image = context.committed_image
        self._scheduler = context.scheduler

    def respond_with_topics(
        self,
        session: Session,
        request: Request[Message],
        topics: Callable[[], Iterator[TopicEntry]],
        build: Callable[[list[MetadataResponseTopic]], Message],
    ) -> None:
        """Collect the topics in slices and send the response that `build` returns. Several block the session."""
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
            topics(),
            lambda: machine.image,
            encoded,
            build,
            self._committed_image.when_committed,
            on_complete,
            retry,
        )
        begin_when_readable(machine, self._scheduler, work)
        if not work.is_done:
            session.block(request, work.cancel)

    def requested_topics(self, requested: Iterable[MetadataRequestTopic]) -> Iterator[TopicEntry]:
        """The requested topics as Metadata describes them."""
        return map(self._topic_entry, requested)

    def all_topics(self) -> Iterator[TopicEntry]:
        """All topics as Metadata describes them; one that is deleted meanwhile may be missing."""
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


def begin_when_readable(state_machine: StateMachine, scheduler: SliceScheduler, task: SlicedTask) -> None:
    """Begin a task in this tick if the image is readable, else in the first tick in which it is."""
    if state_machine.is_readable:
        scheduler.begin(task)
    else:
        state_machine.when_readable(lambda: scheduler.begin(task))
