"""Partitions when brokers fail and return; race R4 of the replication description, step by step."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from quorumd.controller.broker_lifecycle import elect_broker, fence, unfence
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, partition_record
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.controller.broker_harness import BrokerHarness
from tests.support.controller.partition_harness import TOPIC_ID


class PartitionState(NamedTuple):
    isr: tuple[int, ...]
    elr: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int


def partition_state(cluster: BrokerHarness) -> PartitionState:
    partition = cluster.partition
    return PartitionState(
        partition.isr,
        sorted(partition.elr),
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
    )


def test_with_elr_the_last_in_sync_replica_may_lose_its_log() -> None:
    """R4: the last in-sync replica of three returns empty; another has every acknowledged record."""
    cluster = BrokerHarness([1, 2, 3])
    cluster.begin(Partition((1, 2, 3), (1, 2, 3), 1, 1, 2))
    cluster.fall_silent(2)
    assert partition_state(cluster) == ((1, 3), [], 1, 1, 3)
    cluster.fall_silent(3)
    assert partition_state(cluster) == ((1,), [3], 1, 1, 4)
    cluster.fall_silent(1)
    assert partition_state(cluster) == ((), [1, 3], NO_LEADER, 2, 5)
    cluster.register(1, start=1)
    assert partition_state(cluster) == ((), [3], NO_LEADER, 2, 6)
    cluster.heartbeat(1)
    assert partition_state(cluster) == ((), [3], NO_LEADER, 2, 6)
    cluster.heartbeat(3)
    assert partition_state(cluster) == ((3,), [], 3, 3, 7)


def test_without_elr_the_last_in_sync_replica_leads_again() -> None:
    """R4 without the ELR loses data if that replica's log is empty."""
    cluster = BrokerHarness([1, 2, 3], elr=False)
    cluster.begin(Partition((1, 2, 3), (1, 2, 3), 1, 1, 2))
    for broker_id in (2, 3, 1):
        cluster.fall_silent(broker_id)
    assert partition_state(cluster) == ((1,), [], NO_LEADER, 2, 5)
    cluster.register(1, start=1)
    assert partition_state(cluster) == ((1,), [], NO_LEADER, 2, 5)
    cluster.heartbeat(1)
    assert partition_state(cluster) == ((1,), [], 1, 3, 6)


@pytest.fixture
def many() -> BrokerHarness:
    """Four topics of ten partitions, led in turn by brokers 1 to 4."""
    cluster = BrokerHarness([1, 2, 3, 4])
    for number in range(4):
        topic_id = TOPIC_ID[:-1] + bytes([number])
        cluster.apply(TopicRecord(f"topic {number}", type(TOPIC_ID)(topic_id)))
        for index in range(10):
            first = (number + index) % 4
            replicas = tuple((first + i) % 4 + 1 for i in range(3))
            tp = PartitionId(type(TOPIC_ID)(topic_id), index)
            cluster.apply(partition_record(tp, Partition(replicas, replicas, replicas[0])))
    return cluster


def partitions(cluster: BrokerHarness) -> list[Partition]:
    return [
        partition
        for topic in cluster.controller.image.topics.values()
        for partition in topic.partitions.values()
    ]


def test_fenced_broker_leaves_every_isr_and_leadership(
    many: BrokerHarness,
) -> None:
    before = partitions(many)
    many.fall_silent(2)
    for old, new in zip(before, partitions(many), strict=True):
        if 2 not in old.isr:
            assert new == old
            continue
        assert new.isr == tuple(member for member in old.isr if member != 2)
        assert new.partition_epoch == old.partition_epoch + 1
        assert new.leader == (old.leader if old.leader != 2 else new.isr[0])
        assert new.leader_epoch == old.leader_epoch + (old.leader == 2)
    assert many.controller.image.index.leader_count(2) == 0
    assert len(many.last.records) == sum(2 in old.isr for old in before) + 1


def test_planning_does_not_modify_image(many: BrokerHarness) -> None:
    controller = many.controller
    before = controller.image.fingerprint(), controller.image.hash
    fence(controller, many.broker(2))
    unfence(controller, many.broker(2)._replace(is_fenced=True))
    assert (controller.image.fingerprint(), controller.image.hash) == before


def test_first_unfenced_eligible_broker_leads(many: BrokerHarness) -> None:
    for broker_id in (1, 2, 3, 4):
        many.fall_silent(broker_id)
    assert all(partition.leader == NO_LEADER for partition in partitions(many))
    many.heartbeat(4)
    for partition in partitions(many):
        assert (partition.leader == 4) == (4 in partition.replicas)
    assert len(many.controller.image.index.leaderless) == sum(4 not in p.replicas for p in partitions(many))


# Changes limited to max_partitions_per_step


@pytest.fixture
def in_steps(many: BrokerHarness) -> BrokerHarness:
    many.controller.settings.max_partitions_per_step = 12
    return many


def isr_count(cluster: BrokerHarness, broker_id: int) -> int:
    return sum(broker_id in partition.isr for partition in partitions(cluster))


def test_broker_is_fenced_with_the_last_step_of_its_partitions(in_steps: BrokerHarness) -> None:
    assert isr_count(in_steps, 2) == 30
    for left, is_fenced in ((18, False), (6, False), (0, True)):
        assert in_steps.heartbeat(2, want_fence=True).is_fenced == is_fenced
        assert (isr_count(in_steps, 2), in_steps.broker(2).is_fenced) == (left, is_fenced)
    assert all(partition.leader != 2 for partition in partitions(in_steps))


def test_exactly_full_step_is_followed_by_an_empty_one(in_steps: BrokerHarness) -> None:
    for first in fence(in_steps.controller, in_steps.broker(2))[:18]:
        in_steps.apply(first)
    assert isr_count(in_steps, 2) == 12
    assert not in_steps.heartbeat(2, want_fence=True).is_fenced
    assert in_steps.heartbeat(2, want_fence=True).is_fenced


def test_controlled_shutdown_moves_one_step_of_partitions_per_heartbeat(in_steps: BrokerHarness) -> None:
    for _ in range(3):
        assert not in_steps.heartbeat(2, want_shut_down=True).should_shut_down
    assert in_steps.controller.image.index.leader_count(2) == 0
    in_steps.heartbeat(2, want_shut_down=True)
    for broker_id in (1, 3, 4):
        in_steps.heartbeat(broker_id)
    assert in_steps.heartbeat(2, want_shut_down=True).should_shut_down
    assert isr_count(in_steps, 2) == 0


def test_registration_waits_until_previous_incarnation_is_fenced(in_steps: BrokerHarness) -> None:
    in_steps.now_ms = 9000.0
    assert in_steps.register(2, start=1).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    in_steps.fall_silent(2)
    assert in_steps.register(2, start=1).error_code == 0


def test_unfenced_broker_takes_leadership_in_steps(in_steps: BrokerHarness) -> None:
    for broker_id in (1, 2, 3, 4):
        in_steps.fall_silent(broker_id)
    in_steps.heartbeat(4)
    assert in_steps.controller.image.index.leader_count(4) == 12
    while records := elect_broker(in_steps.controller, in_steps.broker(4), 12):
        in_steps.apply(*records)
    assert in_steps.controller.image.index.leader_count(4) == sum(
        4 in p.replicas for p in partitions(in_steps)
    )
