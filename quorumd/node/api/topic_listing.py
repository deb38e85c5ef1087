"""The topics of a node in responses to Metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from quorumd.broker.api.topic_listing import Described, LargeTopics, TopicEntry, TopicListings, TopicSource
from quorumd.broker.api.topic_messages import (
    SharedLists,
    metadata_head,
    metadata_partitions,
    missing_topic_error,
)
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID
from quorumd.node.api.context import ApiContext
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.state.state_machine import StateMachine
from quorumd.protocol.messages.metadata_request import MetadataRequestTopic
from quorumd.protocol.messages.metadata_response import MetadataResponseTopic
from quorumd.protocol.routes import SlicedTask


class NodeTopics:
    """Lists topics of the node's image in responses to Metadata."""

    def __init__(self, context: ApiContext) -> None:
        machine = self._state_machine = context.state_machine
        source = TopicSource(
            lambda topic_id: machine.image.topic_revision(topic_id),
            self._describe,
            context.committed_image.when_committed,
            context.scheduler.slice_size,
            LargeTopics(),
        )
        begin = partial(begin_when_readable, machine, context.scheduler)
        self.respond: Final = TopicListings(source, begin).respond

    def _describe(self, entry: TopicEntry, numbers: list[int], shared: SharedLists) -> Described:
        return Described(metadata_partitions(self._state_machine.image, entry.partitions, numbers, shared))

    def requested_topics(self, requested: Iterable[MetadataRequestTopic]) -> Iterator[TopicEntry]:
        """The requested topics as Metadata describes them, each once."""
        named = {(each.topic_id, each.name): each for each in requested}
        return map(self._topic_entry, named.values())

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
