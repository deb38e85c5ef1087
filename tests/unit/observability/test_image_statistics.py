"""Statistics of real images, and of nodes whose image is ahead of their log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, partition_record
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.observability.image_statistics import EMPTY_STATISTICS, collect_image_statistics
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from tests.support.controller.broker_harness import BrokerHarness
from tests.support.controller.partition_harness import TOPIC_ID
from tests.support.node.nodes import NO_IDLE_RECORDS, Cluster


def node_of(harness: BrokerHarness, is_ahead: bool = False, is_active: bool = True) -> Any:
    machine = SimpleNamespace(
        image=harness.controller.image, applied_offset=harness.next_offset, applied_timestamp_ms=7
    )
    runner = SimpleNamespace(is_active=is_active, controller=harness.controller)
    return SimpleNamespace(state_machine=machine, has_pending_proposals=is_ahead, controller=runner)


def test_image_statistics_counts() -> None:
    harness = BrokerHarness([1, 2, 3, 4])
    harness.begin(Partition((1, 2), (1, 2), 1))
    harness.apply(partition_record(PartitionId(TOPIC_ID, 1), Partition((2,), (), NO_LEADER, elr=(2,))))
    harness.reassign([1, 4])
    harness.heartbeat(1, want_shut_down=True)
    harness.fall_silent(3)
    harness.register(5)
    figures = collect_image_statistics(node_of(harness), EMPTY_STATISTICS)
    assert figures.registered_brokers == 5
    assert figures.fenced_brokers == 2
    assert figures.active_brokers == 2
    assert (figures.topics, figures.partitions) == (1, 2)
    assert figures.offline_partitions == 1
    assert figures.reassigning_partitions == 1
    assert figures.imbalanced_partitions == 2
    assert figures.draining_brokers == 1
    assert figures.metadata_version == 25
    assert figures.hash == harness.controller.image.hash
    assert figures.applied_offset == harness.next_offset
    assert figures.applied_timestamp_ms == 7
    assert dict(figures.broker_states) == {1: 20, 2: 30, 3: 10, 4: 30, 5: 10}


def test_heartbeat_ages_are_known_on_leader() -> None:
    harness = BrokerHarness([1, 2])
    timeout_s = harness.controller.sessions.timeout_ms / 1000
    harness.now_ms = 1500.0
    harness.heartbeat(2)
    harness.now_ms = 5000.0
    ages = dict(collect_image_statistics(node_of(harness), EMPTY_STATISTICS).heartbeat_ages_s)
    assert ages == {1: 5.0, 2: 3.5}
    harness.now_ms = 1e9
    ages = dict(collect_image_statistics(node_of(harness), EMPTY_STATISTICS).heartbeat_ages_s)
    assert set(ages.values()) == {timeout_s}, "as Kafka has it"
    assert (
        collect_image_statistics(node_of(harness, is_active=False), EMPTY_STATISTICS).heartbeat_ages_s == ()
    )


def test_partition_counts_are_reverted_with_image() -> None:
    harness = BrokerHarness([1])
    harness.begin(Partition((1,), (1,), 1))
    changes: list[UndoEntry] = []
    harness.controller.image.apply(RemoveTopicRecord(TOPIC_ID), changes)
    assert harness.controller.image.index.partition_count == 0
    undo(reversed(changes))
    assert harness.controller.image.index.partition_count == 1


def test_hash_matches_reported_offset() -> None:
    harness = BrokerHarness([1])
    before = collect_image_statistics(node_of(harness), EMPTY_STATISTICS)
    harness.begin(Partition((1,), (1,), 1))
    after = collect_image_statistics(node_of(harness, is_ahead=True), before)
    assert (after.hash, after.applied_offset) == (before.hash, before.applied_offset)
    assert after.partitions == 1


def test_nodes_at_the_same_offset_have_the_same_hash() -> None:
    cluster = Cluster(3, controller=NO_IDLE_RECORDS).start()
    cluster.leader()
    cluster.run(1000)
    figures = [collect_image_statistics(node, EMPTY_STATISTICS) for node in cluster.nodes.values()]
    assert len({(each.hash, each.applied_offset) for each in figures}) == 1
    assert figures[0].hash
