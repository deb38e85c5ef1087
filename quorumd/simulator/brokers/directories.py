"""Which directory a replica is in, as a broker tells the controller after it got another disk (KIP-858)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from quorumd.controller.partition import PartitionId
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import assign_replicas_to_dirs_request
from quorumd.simulator.brokers.replica import Replica

VERSION: Final = 0


def misplaced_replicas(
    broker_id: int, directory_id: KafkaUuid, replicas: Iterable[Replica]
) -> list[PartitionId]:
    """The replicas that the metadata has in another directory than the one that this broker has."""
    found = []
    for replica in replicas:
        known = replica.known
        if known is None or broker_id not in known.replicas or not known.directories:
            continue
        if known.directories[known.replicas.index(broker_id)] != directory_id:
            found.append(replica.where)
    return found


def request_of(
    broker_id: int, broker_epoch: int, directory_id: KafkaUuid, replicas: Sequence[PartitionId]
) -> assign_replicas_to_dirs_request.AssignReplicasToDirsRequest:
    """All of these replicas are in this directory."""
    wire = assign_replicas_to_dirs_request
    topics: dict[KafkaUuid, list[assign_replicas_to_dirs_request.PartitionData]] = {}
    for where in replicas:
        topics.setdefault(where.topic_id, []).append(wire.PartitionData(where.number))
    named = [wire.TopicData(topic_id, numbers) for topic_id, numbers in topics.items()]
    return wire.AssignReplicasToDirsRequest(
        broker_id, broker_epoch, [wire.DirectoryData(directory_id, named)]
    )
