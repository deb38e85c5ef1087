"""New partitions: their replicas, initial leaders and records, and the limits of a request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorumd.controller.controller import Controller
from quorumd.controller.partition import Partition, PartitionId, Replicas, partition_record
from quorumd.controller.placement import Placement
from quorumd.errors import ErrorCode, RequestError
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.record_batch import RECORD_FRAMING_BYTES
from quorumd.quotas.client_quotas import MutationQuota

TOPIC_BYTES = RECORD_FRAMING_BYTES + 272
"""Maximum size of a topic's record in bytes, with the longest name."""
_PARTITION_BYTES = RECORD_FRAMING_BYTES + 48
_REPLICA_BYTES = 24
"""Maximum size of a partition's record in bytes: a fixed part, and one per replica (replicas, ISR, directories)."""

MAX_PARTITIONS_PER_REQUEST = 10_000
"""Maximum number of partitions that one request creates, as in Kafka."""


def free_space_for(partitions: int, replication_factor: int) -> int:
    """Return an upper bound of the bytes of the records of new partitions, framing included."""
    return partitions * (_PARTITION_BYTES + replication_factor * _REPLICA_BYTES)


def too_many_partitions(partitions: int) -> RequestError:
    """Return the error for a request over the limit, which exists since the image adds its partitions in one step."""
    return RequestError(
        ErrorCode.POLICY_VIOLATION,
        f"The request would create {partitions} partitions, more than the limit of {MAX_PARTITIONS_PER_REQUEST} per "
        "request; create fewer and add partitions later.",
    )


def too_large(bytes_needed: int, limit: int) -> RequestError:
    """Return the error for a request whose records do not fit one batch; only a batch is atomic."""
    return RequestError(
        ErrorCode.POLICY_VIOLATION,
        f"The request would write about {bytes_needed} bytes of records, more than the limit of {limit} per request; "
        "split it into requests with fewer topics or partitions.",
    )


def take_quota(quota: MutationQuota | None, partitions: int) -> None:
    """Charge the partitions of one topic to the client's quota. Raises RequestError if it is used up (KIP-599)."""
    if quota is not None and not quota.take(partitions):
        raise RequestError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"The quota controller_mutation_rate is used up; retry in {quota.throttle_ms} ms.",
        )


def placement_of(controller: Controller, topic_id: KafkaUuid, replication_factor: int) -> Placement:
    """Return the placement of new partitions of a topic. Raises RequestError if there are too few brokers."""
    placement = Placement(controller.image.brokers.values(), replication_factor, topic_id)
    if placement.usable < replication_factor or not placement.leader_candidates:
        cordoned = sorted(broker.id for broker in controller.image.brokers.values() if broker.is_cordoned)
        reason = f" All log directories of brokers {cordoned} are cordoned." if cordoned else ""
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"A replication factor of {replication_factor} needs as many brokers that can hold new replicas, one of "
            f"them active; there are {placement.usable}, of which {placement.leader_candidates} are active.{reason}",
        )
    return placement


class ManualAssignments:
    """Validates the manual assignments of one request; ten thousand take a few milliseconds."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        brokers = controller.image.brokers.values()
        self._placeable = frozenset([broker.id for broker in brokers if not broker.is_cordoned])
        self._active = frozenset([broker.id for broker in brokers if broker.is_active])

    def replicas(self, number: int, broker_ids: Sequence[int], replication_factor: int | None) -> Replicas:
        """Return the replicas of a partition. Raises RequestError if they are invalid."""
        distinct = frozenset(broker_ids)
        is_valid = (
            len(distinct) == len(broker_ids)
            and (replication_factor is None or len(broker_ids) == replication_factor)
            and distinct <= self._placeable
            and not distinct.isdisjoint(self._active)
        )
        if not is_valid:
            problem = self._problem(broker_ids, replication_factor)
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The assignment of partition {number} {problem}."
            )
        return tuple(broker_ids)

    def _problem(self, broker_ids: Sequence[int], replication_factor: int | None) -> str:
        known = self._controller.image.brokers
        unknown_brokers = [broker_id for broker_id in broker_ids if broker_id not in known]
        if not broker_ids:
            return "has no replicas"
        if unknown_brokers:
            return f"names broker {unknown_brokers[0]}, which is not registered"
        if cordoned := cordoned_brokers(self._controller, broker_ids):
            return f"names broker {cordoned[0]}, whose log directories are all cordoned"
        if len(set(broker_ids)) != len(broker_ids):
            return f"has duplicate brokers: {list(broker_ids)}"
        if replication_factor is not None and len(broker_ids) != replication_factor:
            return f"has {len(broker_ids)} replicas, but the other partitions of the topic have {replication_factor}"
        return f"has no active replica: {list(broker_ids)} are all fenced or in controlled shutdown"


def cordoned_brokers(controller: Controller, broker_ids: Sequence[int]) -> list[int]:
    """Return those of these brokers whose log directories are all cordoned (KIP-1066)."""
    known = controller.image.brokers
    return [broker_id for broker_id in broker_ids if broker_id in known and known[broker_id].is_cordoned]


def partition_records(
    controller: Controller, topic_id: KafkaUuid, partitions: Iterable[tuple[int, Replicas]]
) -> list[PartitionRecord]:
    """Return the records of new partitions, given as (number, replicas); each must have an active replica."""
    return [
        record_for(controller, PartitionId(topic_id, number), replicas) for number, replicas in partitions
    ]


def record_for(controller: Controller, where: PartitionId, replicas: Replicas) -> PartitionRecord:
    """Return the record of a new partition, one of whose replicas must be active."""
    return partition_record(where, _initial_partition(controller, replicas))


def _initial_partition(controller: Controller, replicas: Replicas) -> Partition:
    """Build a new partition. Every active replica is in sync, since there are no records."""
    isr = tuple([replica for replica in replicas if controller.is_active(replica)])
    directories = tuple([controller.directory_of(replica) for replica in replicas])
    return Partition(replicas, isr, isr[0], directories=directories)
