"""AlterPartition: a leader proposes who is in sync with it (KIP-497, KIP-704, KIP-903).

The order of the checks is load-bearing. A leader that is told INELIGIBLE_REPLICA takes its proposal back, so only a
request that is current may be told so: the epochs come first (replication description, races R6 and R26).
"""

from __future__ import annotations

from typing import Final

from quorumd.controller.cluster_image import Topic
from quorumd.controller.controller import Controller
from quorumd.controller.partition import RECOVERED, RECOVERING, Partition, PartitionId, Replicas
from quorumd.controller.partition_change import Wish, plan_change
from quorumd.controller.plan import Plan
from quorumd.controller.rules import rules_for
from quorumd.errors import ErrorCode
from quorumd.protocol.messages import alter_partition_response as wire
from quorumd.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord

ANY_EPOCH: Final = -1
"""The broker epoch of a member that the leader does not know: not checked (KIP-903)."""

_TOPIC_IDS_SINCE: Final = 2
"""Older versions name topics, and lack the newer error codes."""


def plan_alter_partition(controller: Controller, message: AlterPartitionRequest, version: int) -> Plan:
    """Each partition by itself; what is accepted is one atomic change."""
    broker = controller.image.brokers.get(message.broker_id)
    if broker is None or broker.epoch != message.broker_epoch:
        return Plan((), wire.AlterPartitionResponse(0, int(ErrorCode.STALE_BROKER_EPOCH), []))
    records: dict[PartitionId, PartitionChangeRecord] = {}
    topics: list[wire.TopicData] = []
    for asked in message.topics:
        topic = _topic(controller, asked, version)
        answers = [
            _alter(controller, message.broker_id, topic, data, version, records) for data in asked.partitions
        ]
        topics.append(wire.TopicData(asked.topic_name, asked.topic_id, answers))
    return Plan(list(records.values()), wire.AlterPartitionResponse(0, 0, topics))


def _topic(controller: Controller, asked: TopicData, version: int) -> Topic | None:
    if version >= _TOPIC_IDS_SINCE:
        return controller.image.topics.get(asked.topic_id)
    return controller.image.topic_named(asked.topic_name)


def _alter(
    controller: Controller,
    sender: int,
    topic: Topic | None,
    asked: PartitionData,
    version: int,
    records: dict[PartitionId, PartitionChangeRecord],
) -> wire.PartitionData:
    if topic is None:
        unknown = (
            ErrorCode.UNKNOWN_TOPIC_ID
            if version >= _TOPIC_IDS_SINCE
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        return _refused(asked, unknown)
    where = PartitionId(topic.id, asked.partition_index)
    partition = topic.partitions.get(where.number)
    if partition is None:
        return _refused(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if where in records:
        return _refused(asked, ErrorCode.INVALID_REQUEST)
    isr, epochs = _proposed(asked, version)
    error = _fault(sender, partition, asked, isr) or _ineligible(controller, isr, epochs, version)
    if error:
        return _refused(asked, error)
    record = plan_change(
        where,
        partition,
        Wish(isr=isr, recovery=asked.leader_recovery_state),
        rules_for(controller, topic.name),
    )
    if record is None:
        return _accepted(asked, partition)
    records[where] = record
    changed = partition.changed(record)
    if changed.leader != sender:
        # It is committed; who asked must wait for the metadata, and lead no longer.
        newer = version >= _TOPIC_IDS_SINCE
        return _refused(asked, ErrorCode.NEW_LEADER_ELECTED if newer else ErrorCode.FENCED_LEADER_EPOCH)
    return _accepted(asked, changed)


def _proposed(asked: PartitionData, version: int) -> tuple[Replicas, Replicas]:
    """Who is to be in sync, and the epoch that each was seen with."""
    if version >= 3:
        members = asked.new_isr_with_epochs
        return tuple(m.broker_id for m in members), tuple(m.broker_epoch for m in members)
    return tuple(asked.new_isr), (ANY_EPOCH,) * len(asked.new_isr)


def _fault(sender: int, partition: Partition, asked: PartitionData, isr: Replicas) -> ErrorCode | None:
    """Why a request is not current, or asks for what cannot be."""
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        # The leader knows more than this controller: there must be a newer one.
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if sender != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(set(isr)) != len(isr) or any(member not in partition.replicas for member in isr):
        return ErrorCode.INVALID_REQUEST
    if sender not in isr or asked.leader_recovery_state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if asked.leader_recovery_state == RECOVERING and (len(isr) > 1 or partition.recovery == RECOVERED):
        return ErrorCode.INVALID_REQUEST
    return None


def _ineligible(controller: Controller, isr: Replicas, epochs: Replicas, version: int) -> ErrorCode | None:
    """Whether a member is not there, or has started anew since the leader saw it (KIP-903)."""
    for member, epoch in zip(isr, epochs, strict=True):
        broker = controller.image.brokers.get(member)
        if broker is None or not broker.is_active or epoch not in (ANY_EPOCH, broker.epoch):
            newer = version >= _TOPIC_IDS_SINCE
            return ErrorCode.INELIGIBLE_REPLICA if newer else ErrorCode.OPERATION_NOT_ATTEMPTED
    return None


def _refused(asked: PartitionData, error: ErrorCode) -> wire.PartitionData:
    return wire.PartitionData(asked.partition_index, int(error))


def _accepted(asked: PartitionData, partition: Partition) -> wire.PartitionData:
    return wire.PartitionData(
        asked.partition_index,
        0,
        partition.leader,
        partition.leader_epoch,
        list(partition.isr),
        partition.recovery,
        partition.partition_epoch,
    )
