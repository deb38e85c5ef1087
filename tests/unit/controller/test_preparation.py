"""Partitions that are prepared in slices give the same image as those that are planned at once."""

from __future__ import annotations

from collections import Counter

import pytest

from quorumd.controller.controller import ControllerSettings
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.partition_creation import plan_create_partitions, prepare_growth
from quorumd.controller.preparation import ATTEMPTS, Preparation
from quorumd.controller.prepared_partitions import PreparedPartitions
from quorumd.controller.request_context import PartContext, RequestContext
from quorumd.controller.topic_creation import plan_create_topics, prepare_topic
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from quorumd.protocol.messages.create_topics_request import CreateTopicsRequest
from tests.support.controller.topic_harness import TopicHarness, a_broker, wanted

BROKERS = (a_broker(1), a_broker(2), a_broker(3), a_broker(4, fenced=True))


@pytest.fixture
def cluster() -> TopicHarness:
    return TopicHarness(BROKERS, ControllerSettings(default_replication_factor=3))


def topic_request(partitions: int = 10, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest([wanted("t", partitions, retention_ms="5000")], 1000, validate_only)


def growth_request(
    count: int, *assignments: list[int], validate_only: bool = False
) -> CreatePartitionsRequest:
    replicas = [CreatePartitionsAssignment(ids) for ids in assignments] or None
    return CreatePartitionsRequest([CreatePartitionsTopic("t", count, replicas)], 1000, validate_only)


def in_parts(prepared: PreparedPartitions | None) -> RequestContext:
    return RequestContext(part=PartContext(prepared=prepared))


def advance(preparation: Preparation) -> None:
    """Prepare all partitions, three at a time."""
    while not preparation.is_done:
        preparation.advance(3)


def apply(cluster: TopicHarness, plan: ControllerResult) -> None:
    """Apply a plan with its prepared partitions, undo that, and apply it record by record: the images are equal."""
    image = cluster.controller.image
    changes: list[UndoEntry] = []
    before = image.fingerprint()
    for record in plan.records:
        image.apply(record, changes)
    assert plan.prepared is not None
    image.add_prepared(plan.prepared, changes)
    prepared = image.fingerprint()
    assert sum(image.index.leader_counts.values()) == image.index.partition_count > 0
    undo(reversed(changes))
    assert image.fingerprint() == before
    cluster.apply(plan)
    image.add_prepared(plan.prepared, [])
    assert image.fingerprint() == prepared


def test_prepared_topic_equals_a_planned_one(cluster: TopicHarness) -> None:
    preparation = prepare_topic(cluster.controller, topic_request())
    assert not preparation.is_done
    assert preparation.result() is None
    advance(preparation)
    prepared = preparation.result()
    assert prepared is not None
    assert len(prepared.frames) == len(prepared.partitions) == 10
    plan = plan_create_topics(cluster.controller, topic_request(), 7, in_parts(prepared))
    assert [record.NAME for record in plan.records] == ["TopicRecord", "ConfigRecord"]
    apply(cluster, plan)
    assert [len(replicas) for replicas in cluster.replicas("t")] == [3] * 10


def test_prepared_growth_equals_a_planned_one(cluster: TopicHarness) -> None:
    cluster.create(wanted("t", 2))
    preparation = prepare_growth(cluster.controller, growth_request(9))
    advance(preparation)
    plan = plan_create_partitions(cluster.controller, growth_request(9), 3, in_parts(preparation.result()))
    assert plan.records == []
    apply(cluster, plan)
    partitions = cluster.topic("t").partitions.values()
    assert len(partitions) == 9
    held = Counter(broker_id for partition in partitions for broker_id in partition.isr)
    assert {
        broker_id: cluster.controller.image.index.count_with_broker(broker_id) for broker_id in held
    } == held


def test_changed_brokers_restart_a_preparation(cluster: TopicHarness) -> None:
    preparation = prepare_topic(cluster.controller, topic_request())
    preparation.advance(3)
    brokers = cluster.controller.image.brokers
    brokers[4] = brokers[4]._replace(is_fenced=False)
    assert preparation.result() is None
    advance(preparation)
    prepared = preparation.result()
    assert prepared is not None
    assert len(prepared.partitions) == 10


def test_changed_brokers_restart_a_finished_preparation(cluster: TopicHarness) -> None:
    preparation = prepare_topic(cluster.controller, topic_request())
    advance(preparation)
    brokers = cluster.controller.image.brokers
    brokers[4] = brokers[4]._replace(is_fenced=False)
    assert not preparation.is_done
    assert preparation.result() is None


def test_preparation_gives_up_after_many_changes(cluster: TopicHarness) -> None:
    preparation = prepare_topic(cluster.controller, topic_request())
    brokers = cluster.controller.image.brokers
    for attempt in range(ATTEMPTS):
        assert not preparation.is_done
        brokers[4] = brokers[4]._replace(is_fenced=attempt % 2 == 1)
        preparation.advance(3)
    assert preparation.is_done
    assert preparation.result() is None


@pytest.mark.parametrize("partitions", [0, 10_001, 5])
def test_topic_that_is_not_created_is_not_prepared(cluster: TopicHarness, partitions: int) -> None:
    preparation = prepare_topic(cluster.controller, topic_request(partitions, validate_only=partitions == 5))
    assert preparation.is_done
    preparation.advance(3)
    assert preparation.result() is None


def test_topic_without_enough_brokers_is_not_prepared(cluster: TopicHarness) -> None:
    request = CreateTopicsRequest([wanted("t", 5, 9)])
    assert prepare_topic(cluster.controller, request).result() is None


@pytest.mark.parametrize(("count", "validate_only"), [(1, False), (10_100, False), (5, True)])
def test_growth_that_is_rejected_is_not_prepared(
    cluster: TopicHarness, count: int, validate_only: bool
) -> None:
    cluster.create(wanted("t", 2))
    preparation = prepare_growth(cluster.controller, growth_request(count, validate_only=validate_only))
    assert preparation.is_done
    assert preparation.result() is None


def test_outdated_growth_is_planned_again(cluster: TopicHarness) -> None:
    cluster.create(wanted("t", 2))
    preparation = prepare_growth(cluster.controller, growth_request(9))
    advance(preparation)
    prepared = preparation.result()
    cluster.grow(("t", 4))
    plan = plan_create_partitions(cluster.controller, growth_request(9), 3, in_parts(prepared))
    assert plan.prepared is None
    assert len(plan.records) == 5
