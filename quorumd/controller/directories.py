"""AssignReplicasToDirs: a broker reports the directories of its replicas (KIP-858)."""

from __future__ import annotations

from quorumd.controller.broker import Broker
from quorumd.controller.cluster_image import Topic
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.partition import Partition, PartitionId
from quorumd.controller.partition_change import (
    PartitionChange,
    build_partition_change,
    exclude,
)
from quorumd.controller.partition_rules import PartitionRules
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import assign_replicas_to_dirs_response as wire
from quorumd.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    TopicData,
)
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord


def plan_assign_replicas_to_dirs(
    controller: Controller, message: AssignReplicasToDirsRequest, version: int
) -> ControllerResult:
    """Plan each replica separately. A replica in a directory that its broker does not have, or has lost, leaves the
    ISR and its leadership, as if the broker were fenced for this partition."""
    del version
    broker = controller.image.brokers.get(message.broker_id)
    if broker is None or broker.epoch != message.broker_epoch:
        return ControllerResult((), wire.AssignReplicasToDirsResponse(0, int(ErrorCode.STALE_BROKER_EPOCH)))
    assigner = _ReplicaAssigner(controller, broker)
    directories = [
        wire.DirectoryData(requested.id, [assigner.topic(requested.id, topic) for topic in requested.topics])
        for requested in message.directories
    ]
    return ControllerResult(assigner.records, wire.AssignReplicasToDirsResponse(0, 0, directories))


class _ReplicaAssigner:
    """The changes of one request. If it names a replica twice, the last directory takes effect."""

    def __init__(self, controller: Controller, broker: Broker) -> None:
        self._controller = controller
        self._broker = broker
        self._updated: dict[PartitionId, Partition] = {}
        self.records: list[PartitionChangeRecord] = []

    def topic(self, directory: KafkaUuid, requested: TopicData) -> wire.TopicData:
        """Assign the replicas of one topic in one directory; return their part of the response."""
        topic = self._controller.image.topics.get(requested.topic_id)
        numbers = [partition.partition_index for partition in requested.partitions]
        if topic is None:
            errors = [ErrorCode.UNKNOWN_TOPIC_ID] * len(numbers)
        else:
            rules = PartitionRules(self._controller, topic.name)
            errors = [self._assign(topic, number, directory, rules) for number in numbers]
        partition_responses = [
            wire.PartitionData(number, int(error)) for number, error in zip(numbers, errors, strict=True)
        ]
        return wire.TopicData(requested.topic_id, partition_responses)

    def _assign(self, topic: Topic, number: int, directory: KafkaUuid, rules: PartitionRules) -> ErrorCode:
        tp = PartitionId(topic.id, number)
        partition = self._updated.get(tp) or topic.partitions.get(number)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker_id = self._broker.id
        if broker_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        change = PartitionChange(directories={broker_id: directory})
        if not self._broker.has_online_dir(directory):
            change.isr = exclude(partition.isr, (broker_id,))
        record = build_partition_change(tp, partition, change, rules)
        if record is not None:
            self._updated[tp] = partition.apply(record)
            self.records.append(record)
        return ErrorCode.NONE
