from __future__ import annotations

import pytest

from quorumd.controller.cluster_image import ALL_BROKERS, MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION
from quorumd.controller.config_effects import plan_effects
from quorumd.controller.partition import NO_LEADER, RECOVERING, Partition
from quorumd.controller.partition_change import PartitionChange
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from tests.support.controller.partition_harness import TOPIC, WHERE, PartitionHarness

OF_TOPIC = (int(ConfigResourceType.TOPIC), TOPIC)


def change(
    cluster: PartitionHarness, key: str, value: str | None, resource: tuple[int, str] = OF_TOPIC
) -> None:
    """Alter one config and apply its effects on partitions."""
    record = ConfigRecord(*resource, key, value)
    effects = plan_effects(cluster.controller, [record])
    cluster.apply(record, *effects)


@pytest.fixture
def cluster() -> PartitionHarness:
    """min.insync.replicas is 2."""
    return PartitionHarness([1, 2, 3, 4])


def test_elr_is_cleared_when_isr_reaches_min_isr(cluster: PartitionHarness) -> None:
    cluster.begin(Partition((1, 2, 3), (1,), 1, elr=(2, 3)))
    change(cluster, MIN_INSYNC_REPLICAS, "1")
    partition = cluster.partition
    assert (partition.isr, partition.elr) == ((1,), ())
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 1)


@pytest.mark.parametrize("value", ["2", "3", "4"])
def test_elr_is_kept_below_min_isr(cluster: PartitionHarness, value: str) -> None:
    """Kafka's controller clears it at every change of min.insync.replicas, and loses the eligible leaders."""
    before = Partition((1, 2, 3), (1,), 1, elr=(2, 3))
    cluster.begin(before)
    change(cluster, MIN_INSYNC_REPLICAS, value)
    assert cluster.partition == before


def test_without_an_isr_the_elr_is_kept(cluster: PartitionHarness) -> None:
    before = Partition((1, 2), (), NO_LEADER, elr=(2,))
    cluster.controller.image.brokers.pop(2)
    cluster.begin(before)
    change(cluster, MIN_INSYNC_REPLICAS, "1")
    assert cluster.partition == before


def test_deleted_topic_value_falls_back_to_the_cluster_default(cluster: PartitionHarness) -> None:
    cluster.begin(Partition((1, 2, 3), (1,), 1, elr=(2, 3)))
    change(cluster, MIN_INSYNC_REPLICAS, "1", ALL_BROKERS)
    assert cluster.partition.elr == (2, 3)
    change(cluster, MIN_INSYNC_REPLICAS, None)
    assert cluster.partition.elr == ()


def test_cluster_default_applies_to_topics_without_their_own_value(cluster: PartitionHarness) -> None:
    cluster.apply(
        ConfigRecord(*OF_TOPIC, MIN_INSYNC_REPLICAS, None),
        ConfigRecord(*ALL_BROKERS, MIN_INSYNC_REPLICAS, "2"),
    )
    cluster.begin(Partition((1, 2, 3), (1,), 1, elr=(2, 3)))
    change(cluster, MIN_INSYNC_REPLICAS, "1", ALL_BROKERS)
    assert cluster.partition.elr == ()


def test_changes_of_one_request_take_effect_together(cluster: PartitionHarness) -> None:
    cluster.begin(Partition((1, 2, 3), (1,), 1, elr=(2, 3)))
    records = [
        ConfigRecord(*OF_TOPIC, MIN_INSYNC_REPLICAS, None),
        ConfigRecord(*ALL_BROKERS, MIN_INSYNC_REPLICAS, "3"),
    ]
    assert plan_effects(cluster.controller, records) == []


@pytest.mark.parametrize("resource", [OF_TOPIC, ALL_BROKERS])
def test_reassignment_completes_when_the_isr_suffices(
    cluster: PartitionHarness, resource: tuple[int, str]
) -> None:
    if resource == ALL_BROKERS:
        cluster.apply(ConfigRecord(*OF_TOPIC, MIN_INSYNC_REPLICAS, None))
        cluster.apply(ConfigRecord(*ALL_BROKERS, MIN_INSYNC_REPLICAS, "2"))
    cluster.begin(Partition((4, 2, 1), (4, 1), 1, adding=(4,), removing=(1,), original=(1, 2)))
    change(cluster, MIN_INSYNC_REPLICAS, "1", resource)
    assert cluster.partition.replicas == (4, 2)
    assert not cluster.partition.is_reassigning


def test_enabling_unclean_election_elects_a_leader(cluster: PartitionHarness) -> None:
    cluster.begin(Partition((1, 2, 9), (9,), NO_LEADER))
    change(cluster, UNCLEAN_ELECTION, "TRUE")
    partition = cluster.partition
    assert (partition.leader, partition.isr, partition.recovery) == (1, (1,), RECOVERING)


def test_unrelated_configs_change_no_partition(cluster: PartitionHarness) -> None:
    cluster.begin(Partition((1, 2, 3), (1,), 1, elr=(2, 3)))
    for record in (
        ConfigRecord(*OF_TOPIC, "retention.ms", "1"),
        ConfigRecord(int(ConfigResourceType.TOPIC), "another", MIN_INSYNC_REPLICAS, "1"),
        ConfigRecord(int(ConfigResourceType.BROKER), "1", MIN_INSYNC_REPLICAS, "1"),
        ConfigRecord(int(ConfigResourceType.GROUP), TOPIC, MIN_INSYNC_REPLICAS, "1"),
    ):
        assert plan_effects(cluster.controller, [record]) == []


def test_partitions_without_an_elr_are_skipped(cluster: PartitionHarness) -> None:
    """For example those of a deleted topic."""
    index = cluster.controller.image.index
    cluster.begin(Partition((1, 2, 3), (1,), 1, elr=(2, 3)))
    assert list(index.with_elr) == [WHERE]
    cluster.change(PartitionChange(isr=(1, 2)))
    assert not index.with_elr
    cluster.change(PartitionChange(isr=(1,)))
    assert list(index.with_elr) == [WHERE]
    cluster.apply(RemoveTopicRecord(WHERE.topic_id))
    change(cluster, MIN_INSYNC_REPLICAS, "1", ALL_BROKERS)
    assert not index.with_elr


def test_leader_elected_from_the_elr_clears_it_if_it_suffices(cluster: PartitionHarness) -> None:
    """The other members are not eligible from then on."""
    cluster.begin(Partition((1, 2, 3), (), NO_LEADER, elr=(1, 2)))
    cluster.fence(1)
    cluster.fence(2)
    change(cluster, MIN_INSYNC_REPLICAS, "1")
    assert cluster.partition.elr == (1, 2)
    cluster.unfence(2)
    assert (cluster.partition.leader, cluster.partition.isr, cluster.partition.elr) == (2, (2,), ())
