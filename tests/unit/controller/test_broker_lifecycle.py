"""What becomes of many partitions when brokers come and go; race R4 of the replication description, step by step."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from quorumd.controller.broker_lifecycle import fence, unfence
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, record_of
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.broker_world import BrokerWorld
from tests.support.partition_world import TOPIC_ID


class Seen(NamedTuple):
    isr: tuple[int, ...]
    elr: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int


def seen(world: BrokerWorld) -> Seen:
    partition = world.partition
    return Seen(
        partition.isr,
        sorted(partition.elr),
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
    )


def test_the_last_replica_standing_may_lose_its_log_with_elr() -> None:
    """R4: three replicas of which the last one in sync comes back empty; another has all that was acknowledged."""
    world = BrokerWorld([1, 2, 3])
    world.begin(Partition((1, 2, 3), (1, 2, 3), 1, 1, 2))
    world.fall_silent(2)
    assert seen(world) == ((1, 3), [], 1, 1, 3)
    world.fall_silent(3)
    assert seen(world) == ((1,), [3], 1, 1, 4)
    world.fall_silent(1)
    assert seen(world) == ((), [1, 3], NO_LEADER, 2, 5)
    world.register(1, start=1)
    assert seen(world) == ((), [3], NO_LEADER, 2, 6)
    world.heartbeat(1)
    assert seen(world) == ((), [3], NO_LEADER, 2, 6)
    world.heartbeat(3)
    assert seen(world) == ((3,), [], 3, 3, 7)


def test_the_last_replica_standing_leads_again_without_elr() -> None:
    """R4 again: this loses data if its log is empty, which is why there is an ELR."""
    world = BrokerWorld([1, 2, 3], elr=False)
    world.begin(Partition((1, 2, 3), (1, 2, 3), 1, 1, 2))
    for broker_id in (2, 3, 1):
        world.fall_silent(broker_id)
    assert seen(world) == ((1,), [], NO_LEADER, 2, 5)
    world.register(1, start=1)
    assert seen(world) == ((1,), [], NO_LEADER, 2, 5)
    world.heartbeat(1)
    assert seen(world) == ((1,), [], 1, 3, 6)


@pytest.fixture
def many() -> BrokerWorld:
    """Four topics of ten partitions, led in turn by brokers 1 to 4."""
    world = BrokerWorld([1, 2, 3, 4])
    for number in range(4):
        topic_id = TOPIC_ID[:-1] + bytes([number])
        world.apply(TopicRecord(f"topic {number}", type(TOPIC_ID)(topic_id)))
        for index in range(10):
            first = (number + index) % 4
            replicas = tuple((first + i) % 4 + 1 for i in range(3))
            where = PartitionId(type(TOPIC_ID)(topic_id), index)
            world.apply(record_of(where, Partition(replicas, replicas, replicas[0])))
    return world


def partitions(world: BrokerWorld) -> list[Partition]:
    return [
        partition
        for topic in world.controller.image.topics.values()
        for partition in topic.partitions.values()
    ]


def test_a_fenced_broker_is_in_no_isr_and_leads_nothing_and_others_are_left_alone(many: BrokerWorld) -> None:
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


def test_planning_changes_nothing(many: BrokerWorld) -> None:
    controller = many.controller
    before = controller.image.fingerprint(), controller.image.hash
    fence(controller, many.broker(2))
    unfence(controller, many.broker(2)._replace(is_fenced=True))
    assert (controller.image.fingerprint(), controller.image.hash) == before


def test_whoever_comes_back_first_leads_what_it_may(many: BrokerWorld) -> None:
    for broker_id in (1, 2, 3, 4):
        many.fall_silent(broker_id)
    assert all(partition.leader == NO_LEADER for partition in partitions(many))
    many.heartbeat(4)
    for partition in partitions(many):
        assert (partition.leader == 4) == (4 in partition.replicas)
    assert len(many.controller.image.index.leaderless) == sum(4 not in p.replicas for p in partitions(many))
