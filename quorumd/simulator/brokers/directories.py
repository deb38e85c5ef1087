"""AssignReplicasToDirs: a broker reports replicas that the metadata has in other directories (KIP-858)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from quorumd.controller.partition import Partition, PartitionId
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import assign_replicas_to_dirs_request

VERSION: Final = 0

DirectoryOf = Callable[[PartitionId], KafkaUuid]
"""Returns the directory of a replica."""


def misplaced_replicas(
    broker_id: int, directory_of: DirectoryOf, partitions: Mapping[PartitionId, Partition | None]
) -> list[PartitionId]:
    """Return the replicas of these partitions whose directory in the metadata differs from the actual one."""
    found = []
    for where, known in partitions.items():
        if known is None or broker_id not in known.replicas or not known.directories:
            continue
        if known.directories[known.replicas.index(broker_id)] != directory_of(where):
            found.append(where)
    return found


def request_of(
    broker_id: int, broker_epoch: int, directory_of: DirectoryOf, replicas: Sequence[PartitionId]
) -> assign_replicas_to_dirs_request.AssignReplicasToDirsRequest:
    """Build the request with the directories of these replicas."""
    wire = assign_replicas_to_dirs_request
    found: dict[KafkaUuid, dict[KafkaUuid, list[assign_replicas_to_dirs_request.PartitionData]]] = {}
    for where in replicas:
        topics = found.setdefault(directory_of(where), {})
        topics.setdefault(where.topic_id, []).append(wire.PartitionData(where.number))
    directories = [
        wire.DirectoryData(
            directory_id, [wire.TopicData(topic_id, numbers) for topic_id, numbers in topics.items()]
        )
        for directory_id, topics in found.items()
    ]
    return wire.AssignReplicasToDirsRequest(broker_id, broker_epoch, directories)
