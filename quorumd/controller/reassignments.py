"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455, KIP-860)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorumd.controller.cluster_image import Topic
from quorumd.controller.controller import Controller
from quorumd.controller.new_partitions import cordoned_among
from quorumd.controller.partition import Partition, PartitionId, Replicas
from quorumd.controller.partition_change import Election, Wish, plan_change
from quorumd.controller.plan import Plan
from quorumd.controller.reassignment import cancel, originals, start
from quorumd.controller.rules import rules_for
from quorumd.errors import ErrorCode
from quorumd.protocol.messages import alter_partition_reassignments_response as altered
from quorumd.protocol.messages import list_partition_reassignments_response as listed
from quorumd.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from quorumd.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord


class ReassignmentRefused(Exception):
    """Why a partition is not reassigned. Never leaves this package's callers: it becomes one answer among others."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error


def plan_alter_partition_reassignments(
    controller: Controller, message: AlterPartitionReassignmentsRequest, version: int
) -> Plan:
    """Each partition by itself; all that are accepted become one atomic change. Replicas null: cancel."""
    del version
    records: dict[PartitionId, PartitionChangeRecord | None] = {}
    responses: list[altered.ReassignableTopicResponse] = []
    for asked in message.topics:
        topic = controller.image.topic_named(asked.name)
        answers: list[altered.ReassignablePartitionResponse] = []
        for wanted in asked.partitions:
            number = wanted.partition_index
            try:
                if topic is None or number not in topic.partitions:
                    raise ReassignmentRefused(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        f"There is no partition {number} of {asked.name!r}.",
                    )
                where = PartitionId(topic.id, number)
                if where in records:
                    raise ReassignmentRefused(
                        ErrorCode.INVALID_REQUEST, f"Partition {number} of {asked.name!r} is named twice."
                    )
                records[where] = _plan(
                    controller, topic, where, wanted, message.allow_replication_factor_change
                )
                answers.append(altered.ReassignablePartitionResponse(number, 0, None))
            except ReassignmentRefused as refused:
                answers.append(
                    altered.ReassignablePartitionResponse(number, int(refused.error), str(refused))
                )
        responses.append(altered.ReassignableTopicResponse(asked.name, answers))
    allowed = message.allow_replication_factor_change
    answer = altered.AlterPartitionReassignmentsResponse(0, allowed, 0, None, responses)
    return Plan([record for record in records.values() if record is not None], answer)


def plan_list_partition_reassignments(
    controller: Controller, message: ListPartitionReassignmentsRequest, version: int
) -> Plan:
    """What is under way, of all partitions or of those named."""
    del version
    found: dict[str, list[listed.OngoingPartitionReassignment]] = {}
    for topic, number in _asked_about(controller, message):
        partition = topic.partitions.get(number)
        if partition is not None and partition.is_reassigning:
            found.setdefault(topic.name, []).append(
                listed.OngoingPartitionReassignment(
                    number, list(partition.replicas), list(partition.adding), list(partition.removing)
                )
            )
    topics = [listed.OngoingTopicReassignment(name, partitions) for name, partitions in found.items()]
    return Plan((), listed.ListPartitionReassignmentsResponse(0, 0, None, topics))


def _asked_about(
    controller: Controller, message: ListPartitionReassignmentsRequest
) -> Iterable[tuple[Topic, int]]:
    image = controller.image
    if message.topics is None:
        under_way = sorted((image.topics[p.topic_id].name, p.number) for p in image.index.reassigning)
        return [(image.topics[image.topic_ids[name]], number) for name, number in under_way]
    named = ((image.topic_named(topic.name), topic.partition_indexes) for topic in message.topics)
    return [(topic, number) for topic, numbers in named if topic is not None for number in numbers]


def _plan(
    controller: Controller,
    topic: Topic,
    where: PartitionId,
    wanted: ReassignablePartition,
    may_change_count: bool,
) -> PartitionChangeRecord | None:
    partition = topic.partitions[where.number]
    if wanted.replicas is None:
        return _plan_cancel(controller, topic, where, partition)
    target = tuple(wanted.replicas)
    _check_target(controller, topic, partition, target, may_change_count)
    reassignment = start(partition, target)
    return plan_change(
        where,
        partition,
        Wish(
            replicas=reassignment.replicas,
            adding=reassignment.adding,
            removing=reassignment.removing,
            original=reassignment.original,
        ),
        rules_for(controller, topic.name),
    )


def _check_target(
    controller: Controller, topic: Topic, partition: Partition, target: Replicas, may_change_count: bool
) -> None:
    """A fenced broker may be a target: it joins when it is back. One that is cordoned may not, even where it holds
    the partition already: as in Kafka."""
    if not target or len(set(target)) != len(target):
        raise ReassignmentRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The replicas {list(target)} are {'named twice' if target else 'none at all'}.",
        )
    strangers = [replica for replica in target if replica not in controller.image.brokers]
    if strangers:
        raise ReassignmentRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"There is no broker {_enumerated(strangers)}."
        )
    cordoned = cordoned_among(controller, target)
    if cordoned:
        raise ReassignmentRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All log directories of broker {_enumerated(cordoned)} are cordoned: leave it out of the target, or "
            "uncordon one of them.",
        )
    count = len(originals(partition))
    if not may_change_count and len(target) != count:
        raise ReassignmentRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The partition has {count} replicas, and changing their number is not allowed by the request.",
        )
    least = min(controller.image.min_isr(topic.name), count)
    if len(target) < least:
        raise ReassignmentRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{len(target)} replicas are fewer than min.insync.replicas of {topic.name!r}, {least}: lower it first.",
        )


def _plan_cancel(
    controller: Controller, topic: Topic, where: PartitionId, partition: Partition
) -> PartitionChangeRecord | None:
    """Refused where too few of the originals are in sync and others, which it would drop, have what these may lack;
    but for topics that allow an unclean election. The way back is a reassignment to the originals then: it drops
    nobody before enough of them are in sync."""
    if not partition.is_reassigning:
        raise ReassignmentRefused(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No reassignment of this partition is under way."
        )
    rules = rules_for(controller, topic.name)
    back = cancel(partition)
    isr = tuple(replica for replica in partition.isr if replica in back.replicas)
    drops = [replica for replica in partition.isr + partition.elr if replica not in back.replicas]
    if drops and len(isr) < min(rules.min_isr, len(back.replicas)) and not rules.unclean_election:
        raise ReassignmentRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Of the replicas {list(back.replicas)} to go back to {list(isr) if isr else 'none'} are in sync, fewer "
            f"than min.insync.replicas, {rules.min_isr}, and {drops} would be dropped. Reassign the partition to "
            f"{list(back.replicas)} instead: that goes back as well, and drops {drops} once enough are in sync.",
        )
    return plan_change(
        where,
        partition,
        Wish(
            isr=isr,
            replicas=back.replicas,
            adding=back.adding,
            removing=back.removing,
            original=back.original,
            election=Election.UNCLEAN if rules.unclean_election else Election.ORDINARY,
        ),
        rules,
    )


def _enumerated(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
