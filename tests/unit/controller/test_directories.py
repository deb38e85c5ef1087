from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.broker import LOST, MIGRATING, UNASSIGNED
from quorumd.controller.directories import plan_assign_replicas_to_dirs
from quorumd.controller.partition import NO_LEADER, Partition
from quorumd.controller.partition_change import PartitionChange
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from tests.support.controller.partition_harness import TOPIC_ID, PartitionHarness, broker_epoch

STRANGER = KafkaUuid(b"nobody's topic..")
FIRST, SECOND, GONE = (KafkaUuid(bytes([number]) * 16) for number in (101, 102, 103))


@pytest.fixture
def cluster() -> PartitionHarness:
    cluster = PartitionHarness([1, 2, 3, 4])
    cluster._set(1, directories=(FIRST, SECOND))
    here = [cluster.controller.directory_of(broker_id) for broker_id in (1, 2, 3)]
    cluster.begin(Partition((1, 2, 3), (1, 2, 3), 1, directories=tuple(here)))
    return cluster


def assign(
    cluster: PartitionHarness,
    *directories: tuple[KafkaUuid, KafkaUuid, list[int]],
    broker_id: int = 1,
    epoch: int | None = None,
) -> Any:
    """Assign (directory, topic id, partitions) triples, apply the plan, and return the response."""
    request = [
        DirectoryData(directory, [TopicData(topic_id, [PartitionData(number) for number in numbers])])
        for directory, topic_id, numbers in directories
    ]
    epoch = broker_epoch(broker_id) if epoch is None else epoch
    plan = plan_assign_replicas_to_dirs(
        cluster.controller, AssignReplicasToDirsRequest(broker_id, epoch, request), 0
    )
    cluster.apply(*plan.records)
    return plan.response


def errors(reply: Any) -> list[int]:
    return [
        partition.error_code
        for directory in reply.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]


def test_new_replica_has_no_directory_where_a_broker_has_several(cluster: PartitionHarness) -> None:
    assert cluster.partition.directories[0] == UNASSIGNED
    assert cluster.partition.directories[1] == cluster.controller.image.brokers[2].directories[0]


def test_assignment_records_the_directory_of_a_replica(cluster: PartitionHarness) -> None:
    before = cluster.partition
    reply = assign(cluster, (SECOND, TOPIC_ID, [0]))
    assert (reply.error_code, errors(reply)) == (0, [0])
    assert cluster.partition.directories == (SECOND, *before.directories[1:])
    assert (cluster.partition.isr, cluster.partition.leader, cluster.partition.leader_epoch) == (
        (1, 2, 3),
        1,
        0,
    )
    assert cluster.partition.partition_epoch == before.partition_epoch + 1


def test_known_state_is_not_a_change(cluster: PartitionHarness) -> None:
    assign(cluster, (SECOND, TOPIC_ID, [0]))
    before = cluster.partition
    assert errors(assign(cluster, (SECOND, TOPIC_ID, [0]))) == [0]
    assert cluster.partition is before


def test_errors_are_reported_per_replica(cluster: PartitionHarness) -> None:
    reply = assign(cluster, (FIRST, STRANGER, [0, 1]), (FIRST, TOPIC_ID, [5, 0]))
    assert errors(reply) == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        0,
    ]
    assert [directory.id for directory in reply.directories] == [FIRST, FIRST]
    assert reply.directories[1].topics[0].topic_id == TOPIC_ID
    assert cluster.partition.directories[0] == FIRST


def test_broker_cannot_place_a_replica_that_it_does_not_have(cluster: PartitionHarness) -> None:
    own = cluster.controller.image.brokers[4].directories[0]
    reply = assign(cluster, (own, TOPIC_ID, [0]), broker_id=4)
    assert errors(reply) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, broker_epoch(1) - 1), (9, 1)])
def test_stale_broker_epoch_assigns_no_directory(
    cluster: PartitionHarness, broker_id: int, epoch: int
) -> None:
    reply = assign(cluster, (FIRST, TOPIC_ID, [0]), broker_id=broker_id, epoch=epoch)
    assert (reply.error_code, reply.directories) == (ErrorCode.STALE_BROKER_EPOCH, [])
    assert cluster.partition.directories[0] == UNASSIGNED


@pytest.mark.parametrize("directory", [GONE, LOST])
def test_leader_in_offline_directory_is_replaced(cluster: PartitionHarness, directory: KafkaUuid) -> None:
    assert errors(assign(cluster, (directory, TOPIC_ID, [0]))) == [0]
    after = cluster.partition
    assert (after.directories[0], after.isr, after.leader, after.leader_epoch) == (directory, (2, 3), 2, 1)


def test_follower_in_offline_directory_leaves_the_isr(cluster: PartitionHarness) -> None:
    assert errors(assign(cluster, (LOST, TOPIC_ID, [0]), broker_id=2)) == [0]
    assert (cluster.partition.isr, cluster.partition.leader, cluster.partition.leader_epoch) == ((1, 3), 1, 0)


def test_replica_in_offline_directory_is_not_elected(
    cluster: PartitionHarness,
) -> None:
    """It stays eligible: the directory may return with every committed record."""
    for broker_id in (2, 3):
        cluster.fence(broker_id)
    assign(cluster, (LOST, TOPIC_ID, [0]))
    assert (cluster.partition.leader, cluster.partition.isr) == (NO_LEADER, ())
    assert set(cluster.partition.elr) == {1, 3}
    cluster.change(PartitionChange())
    assert cluster.partition.leader == NO_LEADER
    assign(cluster, (FIRST, TOPIC_ID, [0]))
    assert (cluster.partition.leader, cluster.partition.isr) == (1, (1,))


def test_last_assignment_of_a_replica_wins(cluster: PartitionHarness) -> None:
    assert errors(assign(cluster, (FIRST, TOPIC_ID, [0]), (SECOND, TOPIC_ID, [0]))) == [0, 0]
    assert cluster.partition.directories[0] == SECOND
    before = cluster.partition.partition_epoch
    assert errors(assign(cluster, (FIRST, TOPIC_ID, [0, 0]))) == [0, 0]
    assert cluster.partition.partition_epoch == before + 1


def test_unassigned_replicas_of_legacy_partition_stay_unassigned() -> None:
    cluster = PartitionHarness([1, 2, 3])
    cluster.begin(Partition((1, 2, 3), (1, 2, 3), 1))
    own = cluster.controller.image.brokers[2].directories[0]
    assign(cluster, (own, TOPIC_ID, [0]), broker_id=2)
    assert cluster.partition.directories == (MIGRATING, own, MIGRATING)
