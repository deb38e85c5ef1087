"""Looks up the shard that coordinates a group or a transactional id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from quorumd.broker.coordinator.effects import Times
from quorumd.broker.coordinator.groups import GroupCoordinator
from quorumd.broker.coordinator.internal_topics import InternalTopic, InternalTopics
from quorumd.broker.coordinator.shards import Shard, Shards, StateMachine
from quorumd.broker.coordinator.transactions import TransactionCoordinator
from quorumd.errors import ErrorCode

C = TypeVar("C", bound=StateMachine)
T = TypeVar("T")


class CoordinatorLookup(Generic[C]):
    """The coordinators of this broker, by group or by transactional id."""

    def __init__(self, shards: Shards[C], internal_topics: InternalTopics, topic: InternalTopic) -> None:
        self._shards = shards
        self._internal_topics = internal_topics
        self._topic = topic

    def shard_of(self, key: str) -> Shard[C] | ErrorCode:
        """Return the active shard of a key, or the error for a request if this broker has none."""
        return self._shards.active(self._internal_topics.partition_of(self._topic, key))

    def run(
        self, key: str, operation: Callable[[C, Times], None], on_error: Callable[[ErrorCode], None]
    ) -> None:
        """Run an operation of the coordinator of a key; call `on_error` if this broker is not its coordinator."""
        shard = self.shard_of(key)
        if isinstance(shard, ErrorCode):
            on_error(shard)
        else:
            shard.run(operation)

    def get(self, key: str, read: Callable[[C, Times], T]) -> T | ErrorCode:
        """Return the result of a synchronous operation, or the error if this broker is not the coordinator of the
        key."""
        results: list[T | ErrorCode] = []
        self.run(key, lambda machine, times: results.append(read(machine, times)), results.append)
        return results[0]

    def all(self) -> list[Shard[C]]:
        """Return every shard, including those that are loading."""
        return self._shards.all()

    def times(self) -> Times:
        """Return the current time."""
        return self._shards.times()


GroupLookup = CoordinatorLookup[GroupCoordinator]
TransactionLookup = CoordinatorLookup[TransactionCoordinator]
