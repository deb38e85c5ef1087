"""Lookup of the shard that coordinates a group, for the families of groups and offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from quorumd.broker.coordinator.effects import Times
from quorumd.broker.coordinator.groups import GroupCoordinator
from quorumd.broker.coordinator.internal_topics import InternalTopic, InternalTopics
from quorumd.broker.coordinator.shards import Shard, Shards
from quorumd.errors import ErrorCode

T = TypeVar("T")


class GroupShards:
    """The group coordinators of this broker, by group."""

    def __init__(
        self, shards: Shards[GroupCoordinator], internal_topics: InternalTopics, topic: InternalTopic
    ) -> None:
        self._shards = shards
        self._internal_topics = internal_topics
        self._topic = topic

    def run(
        self,
        group: str,
        operation: Callable[[GroupCoordinator, Times], None],
        on_error: Callable[[ErrorCode], None],
    ) -> None:
        """Run an operation of the coordinator of a group, or report why it is not here."""
        shard = self._shards.active(self._internal_topics.partition_of(self._topic, group))
        if isinstance(shard, ErrorCode):
            on_error(shard)
        else:
            shard.run(operation)

    def get(self, group: str, read: Callable[[GroupCoordinator, Times], T]) -> T | ErrorCode:
        """Return the result of an operation that is complete at once, or why the coordinator is not here."""
        results: list[T | ErrorCode] = []
        self.run(group, lambda machine, times: results.append(read(machine, times)), results.append)
        return results[0]

    def all(self) -> list[Shard[GroupCoordinator]]:
        """Return every shard, also those that are loading."""
        return self._shards.all()
