"""Describes topics of the image in responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from quorumd.controller.broker import Broker
from quorumd.controller.cluster_image import ClusterImage, Topic
from quorumd.controller.partition import NO_LEADER, Partition, Replicas
from quorumd.controller.topic_names import invalid_name_reason
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from quorumd.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponsePartition,
)
from quorumd.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's internal topics, which clients omit from lists."""

MAX_PARTITIONS = 2000
"""The maximum per response to DescribeTopicPartitions (Kafka's max.request.partition.size.limit)."""


class _Reachability(NamedTuple):
    """The leader of a partition, NO_LEADER if it is not registered, and the offline replicas."""

    leader: int
    offline: Replicas


SharedLists = dict[Replicas, list[int]]
"""The replica lists of a message, shared by all partitions with the same replicas."""


def metadata_head(topic: Topic) -> MetadataResponseTopic:
    """Describe a topic without its partitions."""
    return MetadataResponseTopic(0, topic.name, topic.id, topic.name in INTERNAL_TOPICS)


def missing_topic_error(name: str) -> ErrorCode:
    """Return the error for a topic that does not exist, or whose name is invalid."""
    return (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if invalid_name_reason(name) is None else ErrorCode.INVALID_TOPIC
    )


def metadata_partitions(
    image: ClusterImage, partitions: Mapping[int, Partition], numbers: Iterable[int], shared: SharedLists
) -> list[MetadataResponsePartition]:
    """Describe these partitions, all of which exist."""
    described: list[MetadataResponsePartition] = []
    for number in numbers:
        partition = partitions[number]
        leader, offline = _reachability(image.brokers, partition)
        described.append(
            MetadataResponsePartition(
                int(ErrorCode.NONE if leader != NO_LEADER else ErrorCode.LEADER_NOT_AVAILABLE),
                number,
                leader,
                partition.leader_epoch,
                _shared_list(shared, partition.replicas),
                _shared_list(shared, partition.isr),
                _shared_list(shared, offline),
            )
        )
    return described


def _shared_list(shared: SharedLists, replicas: Replicas) -> list[int]:
    known = shared.get(replicas)
    if known is None:
        known = shared[replicas] = list(replicas)
    return known


def partition_limit(message: DescribeTopicPartitionsRequest) -> int:
    """Return the number of partitions that the response may have."""
    return max(1, min(message.response_partition_limit, MAX_PARTITIONS))


def described_partition(
    brokers: Mapping[int, Broker], number: int, partition: Partition
) -> DescribeTopicPartitionsResponsePartition:
    """Describe one partition."""
    leader, offline = _reachability(brokers, partition)
    return DescribeTopicPartitionsResponsePartition(
        0,
        number,
        leader,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.isr),
        list(partition.elr),
        list(partition.last_known_elr),
        list(offline),
    )


def _reachability(brokers: Mapping[int, Broker], partition: Partition) -> _Reachability:
    directories = partition.directories
    offline: list[int] = []
    for position, replica in enumerate(partition.replicas):
        broker = brokers.get(replica)
        if (
            broker is None
            or broker.is_fenced
            or (position < len(directories) and not broker.has_online_dir(directories[position]))
        ):
            offline.append(replica)
    leader = partition.leader
    return _Reachability(leader if leader in brokers else NO_LEADER, tuple(offline))
