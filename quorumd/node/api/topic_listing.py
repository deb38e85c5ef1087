"""The topics of a node in responses to Metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from quorumd.broker.api.topic_listing import (
    Described,
    LargeTopics,
    TopicEntry,
    TopicListings,
    TopicSource,
    all_topics,
    requested_topics,
)
from quorumd.broker.api.topic_messages import SharedLists, metadata_partitions
from quorumd.node.api.context import ApiContext
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.state.state_machine import StateMachine
from quorumd.protocol.messages.metadata_request import MetadataRequestTopic
from quorumd.protocol.routes import SlicedTask


class NodeTopics:
    """Lists topics of the node's image in responses to Metadata."""

    def __init__(self, context: ApiContext) -> None:
        machine = self._state_machine = context.metadata.state_machine
        source = TopicSource(
            lambda topic_id: machine.image.topic_revision(topic_id),
            self._describe,
            context.execution.committed_image.when_committed,
            context.execution.scheduler.slice_size,
            LargeTopics(),
        )
        begin = partial(begin_when_readable, machine, context.execution.scheduler)
        listings = TopicListings(source, begin)
        self.respond: Final = listings.respond
        self.send: Final = listings.send

    def _describe(self, entry: TopicEntry, numbers: list[int], shared: SharedLists) -> Described:
        return Described(metadata_partitions(self._state_machine.image, entry.partitions, numbers, shared))

    def requested_topics(self, requested: Iterable[MetadataRequestTopic]) -> Iterator[TopicEntry | None]:
        """See `topic_listing.requested_topics`."""
        return requested_topics(lambda: self._state_machine.image, requested)

    def all_topics(self) -> Iterator[TopicEntry]:
        """All topics as Metadata describes them; one that is deleted meanwhile may be missing."""
        return all_topics(lambda: self._state_machine.image)


def begin_when_readable(state_machine: StateMachine, scheduler: SliceScheduler, task: SlicedTask) -> None:
    """Begin a task in this tick if the image is readable, else in the first tick in which it is."""
    if state_machine.is_readable:
        scheduler.begin(task)
    else:
        state_machine.when_readable(lambda: scheduler.begin(task))
