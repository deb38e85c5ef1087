from __future__ import annotations

import pytest

from quorumd.controller.cluster_image import ALL_BROKERS, MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION, ResourceType
from quorumd.controller.config_effects import plan_effects
from quorumd.controller.partition import NO_LEADER, RECOVERING, Partition
from quorumd.controller.partition_change import PartitionChange
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from tests.support.controller.partition_harness import TOPIC, WHERE, PartitionWorld

OF_TOPIC = (int(ResourceType.TOPIC), TOPIC)


def change(world: PartitionWorld, key: str, value: str | None, resource: tuple[int, str] = OF_TOPIC) -> None:
    """Alter one config, with what follows from it."""
    record = ConfigRecord(*resource, key, value)
    effects = plan_effects(world.controller, [record])
    world.apply(record, *effects)


@pytest.fixture
def world() -> PartitionWorld:
    """min.insync.replicas is 2."""
    return PartitionWorld([1, 2, 3, 4])


def test_elr_is_cleared_when_isr_reaches_min_isr(world: PartitionWorld) -> None:
    world.begin(Partition((1, 2, 3), (1,), 1, elr=(2, 3)))
    change(world, MIN_INSYNC_REPLICAS, "1")
    partition = world.partition
    assert (partition.isr, partition.elr) == ((1,), ())
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 1)


@pytest.mark.parametrize("value", ["2", "3", "4"])
def test_elr_is_kept_below_min_isr(world: PartitionWorld, value: str) -> None:
    """Kafka's controller clears it at every change of min.insync.replicas, and with it who could lead cleanly."""
    before = Partition((1, 2, 3), (1,), 1, elr=(2, 3))
    world.begin(before)
    change(world, MIN_INSYNC_REPLICAS, value)
    assert world.partition == before


def test_without_an_isr_who_is_in_the_elr_stays_eligible(world: PartitionWorld) -> None:
    before = Partition((1, 2), (), NO_LEADER, elr=(2,))
    world.controller.image.brokers.pop(2)
    world.begin(before)
    change(world, MIN_INSYNC_REPLICAS, "1")
    assert world.partition == before


def test_a_deleted_value_gives_way_to_that_of_all_brokers(world: PartitionWorld) -> None:
    world.begin(Partition((1, 2, 3), (1,), 1, elr=(2, 3)))
    change(world, MIN_INSYNC_REPLICAS, "1", ALL_BROKERS)
    assert world.partition.elr == (2, 3)
    change(world, MIN_INSYNC_REPLICAS, None)
    assert world.partition.elr == ()


def test_the_value_of_all_brokers_is_for_topics_without_their_own(world: PartitionWorld) -> None:
    world.apply(
        ConfigRecord(*OF_TOPIC, MIN_INSYNC_REPLICAS, None),
        ConfigRecord(*ALL_BROKERS, MIN_INSYNC_REPLICAS, "2"),
    )
    world.begin(Partition((1, 2, 3), (1,), 1, elr=(2, 3)))
    change(world, MIN_INSYNC_REPLICAS, "1", ALL_BROKERS)
    assert world.partition.elr == ()


def test_changes_of_one_request_are_looked_at_together(world: PartitionWorld) -> None:
    world.begin(Partition((1, 2, 3), (1,), 1, elr=(2, 3)))
    records = [
        ConfigRecord(*OF_TOPIC, MIN_INSYNC_REPLICAS, None),
        ConfigRecord(*ALL_BROKERS, MIN_INSYNC_REPLICAS, "3"),
    ]
    assert plan_effects(world.controller, records) == []


@pytest.mark.parametrize("resource", [OF_TOPIC, ALL_BROKERS])
def test_a_reassignment_completes_when_the_isr_suffices(
    world: PartitionWorld, resource: tuple[int, str]
) -> None:
    if resource == ALL_BROKERS:
        world.apply(ConfigRecord(*OF_TOPIC, MIN_INSYNC_REPLICAS, None))
        world.apply(ConfigRecord(*ALL_BROKERS, MIN_INSYNC_REPLICAS, "2"))
    world.begin(Partition((4, 2, 1), (4, 1), 1, adding=(4,), removing=(1,), original=(1, 2)))
    change(world, MIN_INSYNC_REPLICAS, "1", resource)
    assert world.partition.replicas == (4, 2)
    assert not world.partition.is_reassigning


def test_who_may_lead_uncleanly_now_leads(world: PartitionWorld) -> None:
    world.begin(Partition((1, 2, 9), (9,), NO_LEADER))
    change(world, UNCLEAN_ELECTION, "TRUE")
    partition = world.partition
    assert (partition.leader, partition.isr, partition.recovery) == (1, (1,), RECOVERING)


def test_other_configs_and_other_resources_change_no_partition(world: PartitionWorld) -> None:
    world.begin(Partition((1, 2, 3), (1,), 1, elr=(2, 3)))
    for record in (
        ConfigRecord(*OF_TOPIC, "retention.ms", "1"),
        ConfigRecord(int(ResourceType.TOPIC), "another", MIN_INSYNC_REPLICAS, "1"),
        ConfigRecord(int(ResourceType.BROKER), "1", MIN_INSYNC_REPLICAS, "1"),
        ConfigRecord(int(ResourceType.GROUP), TOPIC, MIN_INSYNC_REPLICAS, "1"),
    ):
        assert plan_effects(world.controller, [record]) == []


def test_what_has_no_elr_any_more_is_not_looked_at(world: PartitionWorld) -> None:
    """A topic that went, say."""
    index = world.controller.image.index
    world.begin(Partition((1, 2, 3), (1,), 1, elr=(2, 3)))
    assert list(index.with_elr) == [WHERE]
    world.change(PartitionChange(isr=(1, 2)))
    assert not index.with_elr
    world.change(PartitionChange(isr=(1,)))
    assert list(index.with_elr) == [WHERE]
    world.apply(RemoveTopicRecord(WHERE.topic_id))
    change(world, MIN_INSYNC_REPLICAS, "1", ALL_BROKERS)
    assert not index.with_elr


def test_one_elected_from_the_elr_of_before_ends_it_where_it_suffices(world: PartitionWorld) -> None:
    """Nobody waits for the others from then on: they may not lead."""
    world.begin(Partition((1, 2, 3), (), NO_LEADER, elr=(1, 2)))
    world.fence(1)
    world.fence(2)
    change(world, MIN_INSYNC_REPLICAS, "1")
    assert world.partition.elr == (1, 2)
    world.unfence(2)
    assert (world.partition.leader, world.partition.isr, world.partition.elr) == (2, (2,), ())
