"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455, KIP-860)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from quorumd.controller.cluster_image import Topic
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.new_partitions import cordoned_brokers
from quorumd.controller.partition import Partition, PartitionId, Replicas
from quorumd.controller.partition_change import PartitionChange, build_partition_change
from quorumd.controller.partition_rules import PartitionRules
from quorumd.controller.partitions_by_topic import by_topic
from quorumd.controller.reassignment import cancel, original_replicas_of, start
from quorumd.errors import ErrorCode, RequestError
from quorumd.protocol.messages import alter_partition_reassignments_response as altered
from quorumd.protocol.messages import list_partition_reassignments_response as listed
from quorumd.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from quorumd.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord


def plan_alter_partition_reassignments(
    controller: Controller, message: AlterPartitionReassignmentsRequest, version: int
) -> ControllerResult:
    """Plan each partition separately; all accepted changes form one atomic batch. Null replicas cancel the
    reassignment in progress."""
    del version
    records: dict[PartitionId, PartitionChangeRecord | None] = {}
    responses: list[altered.ReassignableTopicResponse] = []
    for requested_topic in message.topics:
        topic = controller.image.topic_by_name(requested_topic.name)
        partition_responses: list[altered.ReassignablePartitionResponse] = []
        for requested in requested_topic.partitions:
            number = requested.partition_index
            try:
                if topic is None or number not in topic.partitions:
                    raise RequestError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        f"Partition {number} of topic {requested_topic.name!r} does not exist.",
                    )
                tp = PartitionId(topic.id, number)
                if tp in records:
                    raise RequestError(
                        ErrorCode.INVALID_REQUEST,
                        f"Duplicate partition {number} of topic {requested_topic.name!r} in the request.",
                    )
                records[tp] = _plan_reassignment(
                    controller, topic, tp, requested, message.allow_replication_factor_change
                )
                partition_responses.append(altered.ReassignablePartitionResponse(number, 0, None))
            except RequestError as error:
                partition_responses.append(
                    altered.ReassignablePartitionResponse(number, int(error.error), str(error))
                )
        responses.append(altered.ReassignableTopicResponse(requested_topic.name, partition_responses))
    allowed = message.allow_replication_factor_change
    response = altered.AlterPartitionReassignmentsResponse(0, allowed, 0, None, responses)
    return ControllerResult([record for record in records.values() if record is not None], response)


def reassigning_partitions(
    controller: Controller, message: ListPartitionReassignmentsRequest, chunk_size: int
) -> Iterator[dict[str, list[int]] | None] | None:
    """Expand a request for all reassignments: iterate over chunks of at most `chunk_size` partitions, as numbers by
    topic name. Returns None if one chunk is enough."""
    del message
    ongoing = controller.image.index.reassigning
    return by_topic(controller.image, ongoing, chunk_size) if len(ongoing) > chunk_size else None


def plan_list_partition_reassignments(
    controller: Controller,
    message: ListPartitionReassignmentsRequest,
    version: int,
) -> ControllerResult:
    """List the reassignments in progress: of the requested partitions, or of all if these are null."""
    del version
    found: dict[str, list[listed.OngoingPartitionReassignment]] = {}
    for topic, number in _requested_partitions(controller, message):
        partition = topic.partitions.get(number)
        if partition is not None and partition.is_reassigning:
            found.setdefault(topic.name, []).append(
                listed.OngoingPartitionReassignment(
                    number, list(partition.replicas), list(partition.adding), list(partition.removing)
                )
            )
    topics = [listed.OngoingTopicReassignment(name, partitions) for name, partitions in found.items()]
    return ControllerResult((), listed.ListPartitionReassignmentsResponse(0, 0, None, topics))


def _requested_partitions(
    controller: Controller, message: ListPartitionReassignmentsRequest
) -> Iterable[tuple[Topic, int]]:
    image = controller.image
    if message.topics is None:
        ongoing = sorted((image.topics[p.topic_id].name, p.number) for p in image.index.reassigning)
        return [(image.topics[image.topic_ids[name]], number) for name, number in ongoing]
    named = ((image.topic_by_name(topic.name), topic.partition_indexes) for topic in message.topics)
    return [(topic, number) for topic, numbers in named if topic is not None for number in numbers]


def _plan_reassignment(
    controller: Controller,
    topic: Topic,
    tp: PartitionId,
    requested: ReassignablePartition,
    allow_replication_factor_change: bool,
) -> PartitionChangeRecord | None:
    partition = topic.partitions[tp.number]
    if requested.replicas is None:
        return _plan_cancel(controller, topic, tp, partition)
    target = tuple(requested.replicas)
    _check_target(controller, topic, partition, target, allow_replication_factor_change)
    reassignment = start(partition, target)
    return build_partition_change(
        tp,
        partition,
        PartitionChange(
            replicas=reassignment.replicas,
            adding=reassignment.adding,
            removing=reassignment.removing,
            original=reassignment.original,
        ),
        PartitionRules(controller, topic.name),
    )


def _check_target(
    controller: Controller,
    topic: Topic,
    partition: Partition,
    target: Replicas,
    allow_replication_factor_change: bool,
) -> None:
    """Check the new replicas. Raises RequestError.

    A fenced broker is allowed: its replica can join the ISR once the broker is unfenced. A cordoned one is not, even
    if it already has a replica, as in Kafka.
    """
    if not target or len(set(target)) != len(target):
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The replicas {list(target)} contain duplicates."
            if target
            else "The list of replicas is empty.",
        )
    unknown_brokers = [replica for replica in target if replica not in controller.image.brokers]
    if unknown_brokers:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unknown broker {_join_ids(unknown_brokers)} in the replicas.",
        )
    cordoned = cordoned_brokers(controller, target)
    if cordoned:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All log directories of broker {_join_ids(cordoned)} are cordoned; remove the broker from the "
            "replicas, or uncordon a directory.",
        )
    count = len(original_replicas_of(partition))
    if not allow_replication_factor_change and len(target) != count:
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The partition has {count} replicas, and the request does not allow a replication factor change.",
        )
    minimum = min(controller.image.min_isr(topic.name), count)
    if len(target) < minimum:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{len(target)} replicas are fewer than min.insync.replicas={minimum} of topic {topic.name!r}; lower "
            "that first.",
        )


def _plan_cancel(
    controller: Controller, topic: Topic, tp: PartitionId, partition: Partition
) -> PartitionChangeRecord | None:
    """Plan a cancellation. Raises RequestError.

    Unless the topic allows unclean election, a cancellation is rejected if too few original replicas are in sync and
    it would remove others, which may have records that the originals lack. Reassigning to the original replicas is
    the alternative: it removes no replica before enough originals are in sync.
    """
    if not partition.is_reassigning:
        raise RequestError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "The partition has no reassignment in progress."
        )
    rules = PartitionRules(controller, topic.name)
    restored = cancel(partition)
    isr = tuple(replica for replica in partition.isr if replica in restored.replicas)
    dropped = [replica for replica in partition.isr + partition.elr if replica not in restored.replicas]
    if dropped and len(isr) < min(rules.min_isr, len(restored.replicas)) and not rules.unclean_election:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Of the original replicas {list(restored.replicas)}, {list(isr) if isr else 'none'} are in sync, fewer "
            f"than min.insync.replicas={rules.min_isr}, and {dropped} would be dropped. Reassign the partition to "
            f"{list(restored.replicas)} instead: that drops {dropped} once enough originals are in sync.",
        )
    return build_partition_change(
        tp,
        partition,
        PartitionChange(
            isr=isr,
            replicas=restored.replicas,
            adding=restored.adding,
            removing=restored.removing,
            original=restored.original,
        ),
        rules,
    )


def _join_ids(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
