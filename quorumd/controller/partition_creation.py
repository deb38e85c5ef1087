"""CreatePartitions (KIP-195): new partitions for existing topics.

All new partitions of a topic are added to the image in one step; the slow part is prepared before, in slices
(`preparation`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from quorumd.controller.cluster_image import Topic
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.new_partitions import (
    MAX_PARTITIONS_PER_REQUEST,
    ManualAssignments,
    free_space_for,
    partition_records,
    placement_of,
    take_quota,
    too_large,
    too_many_partitions,
)
from quorumd.controller.partition import Replicas
from quorumd.controller.preparation import PartitionsToPrepare, Preparation
from quorumd.controller.prepared_partitions import PreparedPartitions
from quorumd.controller.request_context import NO_CONTEXT, RequestContext
from quorumd.errors import ErrorCode, RequestError
from quorumd.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from quorumd.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from quorumd.protocol.messages.partition_record import PartitionRecord


class _TopicExpansion(NamedTuple):
    """New partitions of a topic. `manual_replicas` is empty if the controller places the replicas."""

    topic: Topic
    numbers: range
    replication_factor: int
    manual_replicas: list[Replicas]

    @property
    def estimated_bytes(self) -> int:
        """Upper bound of the size of the records."""
        return free_space_for(len(self.numbers), self.replication_factor)


def _replicas_of(expansion: _TopicExpansion, controller: Controller) -> Callable[[int], Replicas]:
    """Return the function that returns the replicas of a partition number. Raises RequestError.

    This is a module function because mypyc does not compile closures in methods of a NamedTuple.
    """
    if expansion.manual_replicas:
        return lambda number: expansion.manual_replicas[number - expansion.numbers.start]
    return placement_of(controller, expansion.topic.id, expansion.replication_factor).replicas_of


def requested_growth(controller: Controller, requested: CreatePartitionsTopic) -> int:
    """Return the number of partitions that would be added to a topic, 0 if it does not exist."""
    topic = controller.image.topic_by_name(requested.name)
    return max(0, requested.count - len(topic.partitions)) if topic is not None else 0


def total_requested_growth(controller: Controller, message: CreatePartitionsRequest) -> int:
    """Return the number of partitions that the request would create; topics named twice are rejected."""
    times = Counter(topic.name for topic in message.topics)
    return sum(requested_growth(controller, topic) for topic in message.topics if times[topic.name] == 1)


def prepare_growth(controller: Controller, message: CreatePartitionsRequest) -> Preparation:
    """Return the preparation of the new partitions of a request with one topic."""

    def to_prepare() -> PartitionsToPrepare | None:
        try:
            expansion = _plan_expansion(controller, message.topics[0])
            replicas_of = _replicas_of(expansion, controller)
        except RequestError:
            return None
        is_too_large = expansion.estimated_bytes > controller.settings.max_batch_bytes
        if message.validate_only or is_too_large or len(expansion.numbers) > MAX_PARTITIONS_PER_REQUEST:
            return None
        return PartitionsToPrepare(expansion.topic.id, expansion.numbers, replicas_of)

    return Preparation(controller, to_prepare)


def plan_create_partitions(
    controller: Controller,
    message: CreatePartitionsRequest,
    version: int,
    context: RequestContext = NO_CONTEXT,
) -> ControllerResult:
    """Plan each topic separately; all valid ones form one atomic batch."""
    del version
    total, prepared = context.part.total, context.part.prepared
    outcomes: dict[str, _TopicExpansion | RequestError] = {}
    for requested in message.topics:
        try:
            if requested.name in outcomes:
                raise RequestError(ErrorCode.INVALID_REQUEST, "Duplicate topic in the request.")
            outcomes[requested.name] = _plan_expansion(controller, requested)
        except RequestError as error:
            outcomes[requested.name] = error.with_traceback(None)
    estimated_bytes = sum(
        outcome.estimated_bytes for outcome in outcomes.values() if isinstance(outcome, _TopicExpansion)
    )
    count = total_requested_growth(controller, message) if total is None else total
    limit = controller.settings.max_batch_bytes
    records: list[PartitionRecord] = []
    used: PreparedPartitions | None = None
    results: list[CreatePartitionsTopicResult] = []
    for name, outcome in outcomes.items():
        try:
            if isinstance(outcome, RequestError):
                raise outcome
            if count > MAX_PARTITIONS_PER_REQUEST:
                raise too_many_partitions(count)
            if estimated_bytes > limit:
                raise too_large(estimated_bytes, limit)
            replicas_of = _replicas_of(outcome, controller)
            take_quota(context.quota, len(outcome.numbers))
            if prepared is not None and _is_of(prepared, outcome):
                used = prepared
            elif not message.validate_only:
                pairs = ((number, replicas_of(number)) for number in outcome.numbers)
                records += partition_records(controller, outcome.topic.id, pairs)
            results.append(CreatePartitionsTopicResult(name, 0, None))
        except RequestError as error:
            results.append(
                CreatePartitionsTopicResult(name, int(error.error), str(error.with_traceback(None)))
            )
    return ControllerResult(records, CreatePartitionsResponse(0, results), used)


def _is_of(prepared: PreparedPartitions, expansion: _TopicExpansion) -> bool:
    """Whether these partitions were prepared for this expansion, with the same numbers and replication factor."""
    partitions, numbers = prepared.partitions, expansion.numbers
    if prepared.topic_id != expansion.topic.id or len(partitions) != len(numbers):
        return False
    first = partitions.get(numbers.start)
    return first is not None and len(first.replicas) == expansion.replication_factor


def _plan_expansion(controller: Controller, requested: CreatePartitionsTopic) -> _TopicExpansion:
    topic = controller.image.topic_by_name(requested.name)
    if topic is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic does not exist.")
    partition_count = len(topic.partitions)
    if requested.count <= partition_count:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic already has {partition_count} partitions, so {requested.count} would not be an increase; "
            "give the new total.",
        )
    numbers = range(partition_count, requested.count)
    replication_factor = len(topic.partitions[0].target)
    manual_replicas: list[Replicas] = []
    if requested.assignments is not None:
        if len(requested.assignments) != len(numbers):
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The request has {len(requested.assignments)} assignments for {len(numbers)} new partitions.",
            )
        assignments = ManualAssignments(controller)
        manual_replicas = [
            assignments.replicas(number, assignment.broker_ids, replication_factor)
            for number, assignment in zip(numbers, requested.assignments, strict=True)
        ]
    return _TopicExpansion(topic, numbers, replication_factor, manual_replicas)
