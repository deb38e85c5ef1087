"""Leader balance: who is given back leadership, and who is not."""

from __future__ import annotations

import pytest

from quorumd.controller.leader_balance import balance_leaders
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, partition_record
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from tests.support.controller.partition_harness import TOPIC_ID, PartitionWorld

BALANCED = Partition((1, 2, 3), (1, 2, 3), 1)
LED_BY_ANOTHER = Partition((1, 2, 3), (2, 1, 3), 2, leader_epoch=5)
PREFERRED_LAGS = Partition((1, 2, 3), (2, 3), 2)
OFFLINE = Partition((1,), (), NO_LEADER, elr=(1,))
LOST_DIRECTORY = KafkaUuid(b"a lost directory")


@pytest.fixture
def world() -> PartitionWorld:
    return PartitionWorld([1, 2, 3], min_isr=1)


def begin(world: PartitionWorld, *partitions: Partition) -> None:
    for number, partition in enumerate(partitions):
        world.apply(partition_record(PartitionId(TOPIC_ID, number), partition))


def balance(world: PartitionWorld) -> list[int]:
    """The numbers of the partitions that got another leader."""
    records = balance_leaders(world.controller)
    world.apply(*records)
    return [record.partition_id for record in records]


def imbalance(world: PartitionWorld) -> int:
    return world.controller.image.index.imbalanced_count


def test_balance_elects_in_sync_preferred_leaders(world: PartitionWorld) -> None:
    begin(world, LED_BY_ANOTHER, BALANCED)
    assert imbalance(world) == 1
    assert balance(world) == [0]
    after = world.partition
    assert (after.leader, after.leader_epoch, after.isr) == (1, 6, (2, 1, 3))
    assert imbalance(world) == 0
    assert balance(world) == []


def test_preferred_leaders_that_lag_wait_until_they_are_in_sync(world: PartitionWorld) -> None:
    begin(world, PREFERRED_LAGS, OFFLINE)
    assert balance(world) == []
    assert imbalance(world) == 2
    assert world.alter([2, 3, 1]) == 0
    assert balance(world) == [0]
    assert imbalance(world) == 1


@pytest.mark.parametrize("facts", [{"is_fenced": True}, {"in_controlled_shutdown": True}])
def test_balance_skips_inactive_brokers(world: PartitionWorld, facts: dict[str, bool]) -> None:
    begin(world, LED_BY_ANOTHER)
    world._set(1, **facts)
    assert balance(world) == []
    world._set(1, is_fenced=False, in_controlled_shutdown=False)
    assert balance(world) == [0]


def test_replicas_in_lost_directories_do_not_lead(world: PartitionWorld) -> None:
    directories = (LOST_DIRECTORY, *(world.controller.directory_of(broker_id) for broker_id in (2, 3)))
    begin(world, Partition((1, 2, 3), (2, 1, 3), 2, directories=directories))
    assert balance(world) == []


def test_balance_step_is_bounded_and_resumes(world: PartitionWorld) -> None:
    begin(world, *[LED_BY_ANOTHER] * 25)
    world.controller.settings.max_partitions_per_step = 10
    steps = [balance(world) for _ in range(4)]
    assert [len(step) for step in steps] == [10, 10, 5, 0]
    assert sorted(number for step in steps for number in step) == list(range(25))


def test_the_count_follows_every_change_and_is_taken_back(world: PartitionWorld) -> None:
    begin(world, LED_BY_ANOTHER, PREFERRED_LAGS, BALANCED)
    index = world.controller.image.index
    assert (imbalance(world), list(index.rebalance_candidates)) == (2, [1])
    changes: list[UndoEntry] = []
    for record in balance_leaders(world.controller):
        world.controller.image.apply(record, changes)
    world.controller.image.apply(RemoveTopicRecord(TOPIC_ID), changes)
    assert (imbalance(world), index.rebalance_candidates) == (0, {})
    undo(reversed(changes))
    assert (imbalance(world), list(index.rebalance_candidates[1])) == (2, [PartitionId(TOPIC_ID, 0)])
    assert balance(world) == [0]
