"""An admin client with scripted results instead of a cluster, for tests of commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from quorumd.client.admin import TopicPartition
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from quorumd.protocol.messages.list_partition_reassignments_response import OngoingPartitionReassignment

TOPIC_ID = KafkaUuid(b"the id of topics")
SERVER = ("--bootstrap-server", "127.0.0.1:1")


def partition(
    number: int, replicas: Sequence[int], isr: Sequence[int] | None = None, leader: int | None = None
) -> DescribeTopicPartitionsResponsePartition:
    """Describe a partition; by default all replicas are in sync, and the first one leads."""
    isr = replicas if isr is None else isr
    leader = replicas[0] if leader is None else leader
    return DescribeTopicPartitionsResponsePartition(
        0, number, leader, 5, list(replicas), list(isr), [], [], []
    )


class FakeAdmin:
    """Describes scripted topics and reassignments, and records the requested changes."""

    def __init__(self) -> None:
        self.topics: dict[str, list[DescribeTopicPartitionsResponsePartition]] = {}
        """The partitions of each topic, by name."""
        self.moving: dict[TopicPartition, tuple[list[int], list[int]]] = {}
        """The adding and removing replicas of each partition under reassignment."""
        self.errors: dict[str, RequestFailed] = {}
        """The errors that calls raise, by the name of the call."""
        self.calls: list[tuple[Any, ...]] = []
        """The requested changes: the name of the call and its arguments."""
        self.refused: dict[TopicPartition, Any] = {}
        self.before_listing: Callable[[], None] = lambda: None

    def record_call(self, name: str, *arguments: Any) -> None:
        self.calls.append((name, *arguments))
        if name in self.errors:
            raise self.errors[name]

    async def describe_topics(
        self, names: Sequence[str] | None = None, *, skip_unknown: bool = False
    ) -> list[DescribeTopicPartitionsResponseTopic]:
        found = []
        for name in self.topics if names is None else names:
            if name in self.topics:
                found.append(
                    DescribeTopicPartitionsResponseTopic(0, name, TOPIC_ID, False, self.topics[name])
                )
            elif not skip_unknown:
                raise RequestFailed(f"topic {name!r}: unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    async def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[TopicPartition, OngoingPartitionReassignment]:
        self.before_listing()
        found = {}
        for where, (adding, removing) in self.moving.items():
            if partitions is None or where in partitions:
                replicas = self.topics[where.topic][where.partition].replica_nodes
                found[where] = OngoingPartitionReassignment(where.partition, replicas, adding, removing)
        return found

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Any], *, may_change_replication_factor: bool = True
    ) -> dict[TopicPartition, Any]:
        self.record_call("alter_reassignments", dict(targets), may_change_replication_factor)
        return self.refused

    def run(
        self,
        servers: object,
        call: Callable[[Any], Awaitable[Any]],
        patience_ms: float = 0,
        *,
        silent: bool = False,
    ) -> Any:
        """Run a command's call; replaces `quorumd.cli.admin_runner.run_admin`."""

        async def result() -> Any:
            return await call(self)

        return asyncio.run(result())
