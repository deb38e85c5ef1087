"""CreatePartitions (KIP-195): more partitions for topics that are there."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.controller.cluster_image import Topic
from quorumd.controller.controller import Controller
from quorumd.controller.new_partitions import (
    MOST_PARTITIONS,
    TopicRefused,
    checked_assignment,
    placed,
    records_for,
    room_for,
    too_large,
    too_many,
)
from quorumd.controller.partition import Replicas
from quorumd.controller.plan import Plan
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from quorumd.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from quorumd.protocol.messages.partition_record import PartitionRecord


class _Growth(NamedTuple):
    """What a topic is to get. `assigned` is empty where the controller is to choose."""

    topic: Topic
    numbers: range
    replication_factor: int
    assigned: list[Replicas]

    @property
    def room(self) -> int:
        """Bytes that its records have at most."""
        return room_for(len(self.numbers), self.replication_factor)


def plan_create_partitions(controller: Controller, message: CreatePartitionsRequest, version: int) -> Plan:
    """Each topic by itself, all that can grow in one atomic batch."""
    del version
    outcomes: dict[str, _Growth | TopicRefused] = {}
    for asked in message.topics:
        try:
            if asked.name in outcomes:
                raise TopicRefused(ErrorCode.INVALID_REQUEST, "The topic is named twice in one request.")
            outcomes[asked.name] = _growth(controller, asked)
        except TopicRefused as refused:
            outcomes[asked.name] = refused
    room = sum(outcome.room for outcome in outcomes.values() if isinstance(outcome, _Growth))
    count = sum(len(outcome.numbers) for outcome in outcomes.values() if isinstance(outcome, _Growth))
    limit = controller.settings.max_batch_bytes
    records: list[PartitionRecord] = []
    results: list[CreatePartitionsTopicResult] = []
    for name, outcome in outcomes.items():
        try:
            if isinstance(outcome, TopicRefused):
                raise outcome
            if count > MOST_PARTITIONS:
                raise too_many(count)
            if room > limit:
                raise too_large(room, limit)
            records += _records(controller, outcome)
            results.append(CreatePartitionsTopicResult(name, 0, None))
        except TopicRefused as refused:
            results.append(CreatePartitionsTopicResult(name, int(refused.error), str(refused)))
    return Plan(() if message.validate_only else records, CreatePartitionsResponse(0, results))


def _growth(controller: Controller, asked: CreatePartitionsTopic) -> _Growth:
    topic = controller.image.topic_named(asked.name)
    if topic is None:
        raise TopicRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no topic of this name.")
    present = len(topic.partitions)
    if asked.count <= present:
        raise TopicRefused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic has {present} partitions, and {asked.count} would not be more: ask for the number that it "
            "is to have.",
        )
    numbers = range(present, asked.count)
    replication_factor = len(topic.partitions[0].target)
    assigned: list[Replicas] = []
    if asked.assignments is not None:
        if len(asked.assignments) != len(numbers):
            raise TopicRefused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{len(asked.assignments)} assignments are given for {len(numbers)} new partitions.",
            )
        assigned = [
            checked_assignment(controller, number, assignment.broker_ids, replication_factor)
            for number, assignment in zip(numbers, asked.assignments, strict=True)
        ]
    return _Growth(topic, numbers, replication_factor, assigned)


def _records(controller: Controller, growth: _Growth) -> list[PartitionRecord]:
    topic_id, numbers = growth.topic.id, growth.numbers
    replicas = growth.assigned or placed(controller, topic_id, numbers, growth.replication_factor)
    return records_for(controller, topic_id, zip(numbers, replicas, strict=True))
