"""Leader balance: preferred leaders that get leadership back, and those that do not."""

from __future__ import annotations

import pytest

from quorumd.controller.leader_balance import balance_leaders
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, partition_record
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from tests.support.controller.partition_harness import TOPIC_ID, PartitionHarness

BALANCED = Partition((1, 2, 3), (1, 2, 3), 1)
LED_BY_ANOTHER = Partition((1, 2, 3), (2, 1, 3), 2, leader_epoch=5)
PREFERRED_LAGS = Partition((1, 2, 3), (2, 3), 2)
OFFLINE = Partition((1,), (), NO_LEADER, elr=(1,))
LOST_DIRECTORY = KafkaUuid(b"a lost directory")


@pytest.fixture
def cluster() -> PartitionHarness:
    return PartitionHarness([1, 2, 3], min_isr=1)


def begin(cluster: PartitionHarness, *partitions: Partition) -> None:
    for number, partition in enumerate(partitions):
        cluster.apply(partition_record(PartitionId(TOPIC_ID, number), partition))


def balance(cluster: PartitionHarness) -> list[int]:
    """Balance; returns the partitions whose leader changed."""
    records = balance_leaders(cluster.controller)
    cluster.apply(*records)
    return [record.partition_id for record in records]


def imbalance(cluster: PartitionHarness) -> int:
    return cluster.controller.image.index.imbalanced_count


def test_balance_elects_in_sync_preferred_leaders(cluster: PartitionHarness) -> None:
    begin(cluster, LED_BY_ANOTHER, BALANCED)
    assert imbalance(cluster) == 1
    assert balance(cluster) == [0]
    after = cluster.partition
    assert (after.leader, after.leader_epoch, after.isr) == (1, 6, (2, 1, 3))
    assert imbalance(cluster) == 0
    assert balance(cluster) == []


def test_lagging_preferred_leaders_are_elected_once_in_sync(cluster: PartitionHarness) -> None:
    begin(cluster, PREFERRED_LAGS, OFFLINE)
    assert balance(cluster) == []
    assert imbalance(cluster) == 2
    assert cluster.alter([2, 3, 1]) == 0
    assert balance(cluster) == [0]
    assert imbalance(cluster) == 1


@pytest.mark.parametrize("facts", [{"is_fenced": True}, {"in_controlled_shutdown": True}])
def test_balance_skips_inactive_brokers(cluster: PartitionHarness, facts: dict[str, bool]) -> None:
    begin(cluster, LED_BY_ANOTHER)
    cluster._set(1, **facts)
    assert balance(cluster) == []
    cluster._set(1, is_fenced=False, in_controlled_shutdown=False)
    assert balance(cluster) == [0]


def test_replicas_in_offline_directories_are_not_elected(cluster: PartitionHarness) -> None:
    directories = (LOST_DIRECTORY, *(cluster.controller.directory_of(broker_id) for broker_id in (2, 3)))
    begin(cluster, Partition((1, 2, 3), (2, 1, 3), 2, directories=directories))
    assert balance(cluster) == []


def test_balance_step_is_bounded_and_resumes(cluster: PartitionHarness) -> None:
    begin(cluster, *[LED_BY_ANOTHER] * 25)
    cluster.controller.settings.max_partitions_per_step = 10
    steps = [balance(cluster) for _ in range(4)]
    assert [len(step) for step in steps] == [10, 10, 5, 0]
    assert sorted(number for step in steps for number in step) == list(range(25))


def test_imbalance_count_follows_changes_and_undo(cluster: PartitionHarness) -> None:
    begin(cluster, LED_BY_ANOTHER, PREFERRED_LAGS, BALANCED)
    index = cluster.controller.image.index
    assert (imbalance(cluster), list(index.rebalance_candidates)) == (2, [1])
    changes: list[UndoEntry] = []
    for record in balance_leaders(cluster.controller):
        cluster.controller.image.apply(record, changes)
    cluster.controller.image.apply(RemoveTopicRecord(TOPIC_ID), changes)
    assert (imbalance(cluster), index.rebalance_candidates) == (0, {})
    undo(reversed(changes))
    assert (imbalance(cluster), list(index.rebalance_candidates[1])) == (2, [PartitionId(TOPIC_ID, 0)])
    assert balance(cluster) == [0]


def test_removed_topic_leaves_no_candidates(cluster: PartitionHarness) -> None:
    begin(cluster, LED_BY_ANOTHER, LED_BY_ANOTHER)
    index = cluster.controller.image.index
    changes: list[UndoEntry] = []
    cluster.controller.image.apply(RemoveTopicRecord(TOPIC_ID), changes)
    assert index.rebalance_candidates == {}
    undo(reversed(changes))
    assert balance(cluster) == [0, 1]
