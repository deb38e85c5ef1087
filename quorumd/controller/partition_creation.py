"""CreatePartitions (KIP-195): more partitions for topics that are there."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.controller.cluster_image import Topic
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.new_partitions import (
    MAX_PARTITIONS_PER_REQUEST,
    TopicError,
    free_space_for,
    partition_records,
    place_replicas,
    too_large,
    too_many_partitions,
    validate_assignment,
)
from quorumd.controller.partition import Replicas
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from quorumd.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from quorumd.protocol.messages.partition_record import PartitionRecord


class _TopicExpansion(NamedTuple):
    """What a topic is to get. `assigned` is empty where the controller is to choose."""

    topic: Topic
    numbers: range
    replication_factor: int
    manual_replicas: list[Replicas]

    @property
    def estimated_bytes(self) -> int:
        """Bytes that its records have at most."""
        return free_space_for(len(self.numbers), self.replication_factor)


def plan_create_partitions(
    controller: Controller, message: CreatePartitionsRequest, version: int
) -> ControllerResult:
    """Each topic by itself, all that can grow in one atomic batch."""
    del version
    outcomes: dict[str, _TopicExpansion | TopicError] = {}
    for requested in message.topics:
        try:
            if requested.name in outcomes:
                raise TopicError(ErrorCode.INVALID_REQUEST, "The topic is named twice in one request.")
            outcomes[requested.name] = _plan_expansion(controller, requested)
        except TopicError as error:
            outcomes[requested.name] = error
    estimated_bytes = sum(
        outcome.estimated_bytes for outcome in outcomes.values() if isinstance(outcome, _TopicExpansion)
    )
    count = sum(len(outcome.numbers) for outcome in outcomes.values() if isinstance(outcome, _TopicExpansion))
    limit = controller.settings.max_batch_bytes
    records: list[PartitionRecord] = []
    results: list[CreatePartitionsTopicResult] = []
    for name, outcome in outcomes.items():
        try:
            if isinstance(outcome, TopicError):
                raise outcome
            if count > MAX_PARTITIONS_PER_REQUEST:
                raise too_many_partitions(count)
            if estimated_bytes > limit:
                raise too_large(estimated_bytes, limit)
            records += _records(controller, outcome)
            results.append(CreatePartitionsTopicResult(name, 0, None))
        except TopicError as error:
            results.append(CreatePartitionsTopicResult(name, int(error.error), str(error)))
    return ControllerResult(() if message.validate_only else records, CreatePartitionsResponse(0, results))


def _plan_expansion(controller: Controller, requested: CreatePartitionsTopic) -> _TopicExpansion:
    topic = controller.image.topic_by_name(requested.name)
    if topic is None:
        raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no topic of this name.")
    partition_count = len(topic.partitions)
    if requested.count <= partition_count:
        raise TopicError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic has {partition_count} partitions, and {requested.count} would not be more: ask for the "
            "number that it "
            "is to have.",
        )
    numbers = range(partition_count, requested.count)
    replication_factor = len(topic.partitions[0].target)
    manual_replicas: list[Replicas] = []
    if requested.assignments is not None:
        if len(requested.assignments) != len(numbers):
            raise TopicError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{len(requested.assignments)} assignments are given for {len(numbers)} new partitions.",
            )
        manual_replicas = [
            validate_assignment(controller, number, assignment.broker_ids, replication_factor)
            for number, assignment in zip(numbers, requested.assignments, strict=True)
        ]
    return _TopicExpansion(topic, numbers, replication_factor, manual_replicas)


def _records(controller: Controller, expansion: _TopicExpansion) -> list[PartitionRecord]:
    topic_id, numbers = expansion.topic.id, expansion.numbers
    replicas = expansion.manual_replicas or place_replicas(
        controller, topic_id, numbers, expansion.replication_factor
    )
    return partition_records(controller, topic_id, zip(numbers, replicas, strict=True))
