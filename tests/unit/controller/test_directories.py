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
from tests.support.controller.partition_harness import TOPIC_ID, PartitionWorld, broker_epoch

STRANGER = KafkaUuid(b"nobody's topic..")
FIRST, SECOND, GONE = (KafkaUuid(bytes([number]) * 16) for number in (101, 102, 103))


@pytest.fixture
def world() -> PartitionWorld:
    world = PartitionWorld([1, 2, 3, 4])
    world._set(1, directories=(FIRST, SECOND))
    here = [world.controller.directory_of(broker_id) for broker_id in (1, 2, 3)]
    world.begin(Partition((1, 2, 3), (1, 2, 3), 1, directories=tuple(here)))
    return world


def assign(
    world: PartitionWorld,
    *directories: tuple[KafkaUuid, KafkaUuid, list[int]],
    broker_id: int = 1,
    epoch: int | None = None,
) -> Any:
    """Each as (directory, topic id, partitions). The answer; what is planned is applied."""
    asked = [
        DirectoryData(directory, [TopicData(topic_id, [PartitionData(number) for number in numbers])])
        for directory, topic_id, numbers in directories
    ]
    epoch = broker_epoch(broker_id) if epoch is None else epoch
    plan = plan_assign_replicas_to_dirs(
        world.controller, AssignReplicasToDirsRequest(broker_id, epoch, asked), 0
    )
    world.apply(*plan.records)
    return plan.response


def errors(answer: Any) -> list[int]:
    return [
        partition.error_code
        for directory in answer.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]


def test_a_new_replica_has_no_directory_where_a_broker_has_several(world: PartitionWorld) -> None:
    assert world.partition.directories[0] == UNASSIGNED
    assert world.partition.directories[1] == world.controller.image.brokers[2].directories[0]


def test_a_replica_is_where_its_broker_says(world: PartitionWorld) -> None:
    before = world.partition
    answer = assign(world, (SECOND, TOPIC_ID, [0]))
    assert (answer.error_code, errors(answer)) == (0, [0])
    assert world.partition.directories == (SECOND, *before.directories[1:])
    assert (world.partition.isr, world.partition.leader, world.partition.leader_epoch) == ((1, 2, 3), 1, 0)
    assert world.partition.partition_epoch == before.partition_epoch + 1


def test_what_is_known_is_no_change(world: PartitionWorld) -> None:
    assign(world, (SECOND, TOPIC_ID, [0]))
    before = world.partition
    assert errors(assign(world, (SECOND, TOPIC_ID, [0]))) == [0]
    assert world.partition is before


def test_errors_are_reported_per_replica(world: PartitionWorld) -> None:
    answer = assign(world, (FIRST, STRANGER, [0, 1]), (FIRST, TOPIC_ID, [5, 0]))
    assert errors(answer) == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        0,
    ]
    assert [directory.id for directory in answer.directories] == [FIRST, FIRST]
    assert answer.directories[1].topics[0].topic_id == TOPIC_ID
    assert world.partition.directories[0] == FIRST


def test_a_broker_cannot_place_a_replica_that_it_has_not(world: PartitionWorld) -> None:
    own = world.controller.image.brokers[4].directories[0]
    answer = assign(world, (own, TOPIC_ID, [0]), broker_id=4)
    assert errors(answer) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, broker_epoch(1) - 1), (9, 1)])
def test_stale_broker_epoch_assigns_no_directory(world: PartitionWorld, broker_id: int, epoch: int) -> None:
    answer = assign(world, (FIRST, TOPIC_ID, [0]), broker_id=broker_id, epoch=epoch)
    assert (answer.error_code, answer.directories) == (ErrorCode.STALE_BROKER_EPOCH, [])
    assert world.partition.directories[0] == UNASSIGNED


@pytest.mark.parametrize("directory", [GONE, LOST])
def test_a_leader_in_a_lost_directory_leads_no_more(world: PartitionWorld, directory: KafkaUuid) -> None:
    assert errors(assign(world, (directory, TOPIC_ID, [0]))) == [0]
    after = world.partition
    assert (after.directories[0], after.isr, after.leader, after.leader_epoch) == (directory, (2, 3), 2, 1)


def test_a_follower_in_a_lost_directory_leaves_the_isr(world: PartitionWorld) -> None:
    assert errors(assign(world, (LOST, TOPIC_ID, [0]), broker_id=2)) == [0]
    assert (world.partition.isr, world.partition.leader, world.partition.leader_epoch) == ((1, 3), 1, 0)


def test_a_replica_in_a_lost_directory_is_not_elected_although_its_broker_is_there(
    world: PartitionWorld,
) -> None:
    """It stays eligible: the directory may come back with every committed record."""
    for broker_id in (2, 3):
        world.fence(broker_id)
    assign(world, (LOST, TOPIC_ID, [0]))
    assert (world.partition.leader, world.partition.isr) == (NO_LEADER, ())
    assert set(world.partition.elr) == {1, 3}
    world.change(PartitionChange())
    assert world.partition.leader == NO_LEADER
    assign(world, (FIRST, TOPIC_ID, [0]))
    assert (world.partition.leader, world.partition.isr) == (1, (1,))


def test_a_replica_that_is_named_twice_is_where_it_is_said_to_be_last(world: PartitionWorld) -> None:
    assert errors(assign(world, (FIRST, TOPIC_ID, [0]), (SECOND, TOPIC_ID, [0]))) == [0, 0]
    assert world.partition.directories[0] == SECOND
    before = world.partition.partition_epoch
    assert errors(assign(world, (FIRST, TOPIC_ID, [0, 0]))) == [0, 0]
    assert world.partition.partition_epoch == before + 1


def test_the_other_replicas_of_a_partition_without_directories_are_somewhere() -> None:
    world = PartitionWorld([1, 2, 3])
    world.begin(Partition((1, 2, 3), (1, 2, 3), 1))
    own = world.controller.image.brokers[2].directories[0]
    assign(world, (own, TOPIC_ID, [0]), broker_id=2)
    assert world.partition.directories == (MIGRATING, own, MIGRATING)
