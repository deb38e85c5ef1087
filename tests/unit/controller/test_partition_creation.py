from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.controller import ControllerSettings
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from tests.support.controller.topic_harness import TopicHarness, a_broker, directory_of, wanted


@pytest.fixture
def cluster() -> TopicHarness:
    cluster = TopicHarness((a_broker(1), a_broker(2), a_broker(3, fenced=True)))
    cluster.create(wanted("t", 2, 2))
    return cluster


def test_topic_grows_to_the_requested_partition_count(cluster: TopicHarness) -> None:
    before = cluster.replicas("t")
    assert cluster.grow(("t", 5)) == [("t", 0, None)]
    after = cluster.replicas("t")
    assert after[:2] == before
    assert [len(replicas) for replicas in after] == [2] * 5


def test_added_partitions_are_placed_as_at_creation() -> None:
    brokers = tuple(a_broker(number) for number in range(1, 6))
    grown, made = TopicHarness(brokers), TopicHarness(brokers)
    made.create(wanted("t", 20, 3))
    grown.create(wanted("t", 1, 3))
    for count in (2, 3, 11, 20):
        grown.grow(("t", count))
    assert grown.replicas("t") == made.replicas("t")


def test_assignments_apply_to_new_partitions_in_order(cluster: TopicHarness) -> None:
    assert cluster.grow(("t", 4, [[3, 2], [2, 1]])) == [("t", 0, None)]
    partitions = cluster.topic("t").partitions
    assert partitions[2] == Partition((3, 2), (2,), 2, directories=(directory_of(3), directory_of(2)))
    assert (partitions[3].replicas, partitions[3].leader) == ((2, 1), 2)


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (("u", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("t", 2), ErrorCode.INVALID_PARTITIONS),
        (("t", 1), ErrorCode.INVALID_PARTITIONS),
        (("t", -1), ErrorCode.INVALID_PARTITIONS),
        (("t", 4, [[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 3, [[1, 2], [2, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 3, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 3, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 3, [[1, 9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_growth_is_refused(cluster: TopicHarness, target: Any, error: ErrorCode) -> None:
    ((name, code, text),) = cluster.grow(target)
    assert (name, code) == (target[0], error)
    assert text
    assert len(cluster.topic("t").partitions) == 2


@pytest.mark.parametrize(
    ("replicas", "problem"),
    [
        ([], "has no replicas"),
        ([1], "has 1 replicas, but the other partitions of the topic have 2"),
        ([1, 1], "has duplicate brokers: [1, 1]"),
        ([1, 9], "names broker 9, which is not registered"),
        ([3, 4], "has no active replica: [3, 4] are all fenced or in controlled shutdown"),
    ],
)
def test_refused_assignment_names_its_problem(
    cluster: TopicHarness, replicas: list[int], problem: str
) -> None:
    cluster.controller.image.brokers[4] = a_broker(4, draining=True)
    ((_, code, text),) = cluster.grow(("t", 3, [replicas]))
    assert (code, text) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"The assignment of partition 2 {problem}.",
    )


def test_topic_does_not_grow_with_too_few_brokers(cluster: TopicHarness) -> None:
    for number in (1, 2, 3):
        cluster.controller.image.brokers[number] = a_broker(number, fenced=True)
    assert cluster.grow(("t", 3))[0][1] == ErrorCode.INVALID_REPLICATION_FACTOR


def test_topics_grow_independently_and_duplicates_are_rejected(cluster: TopicHarness) -> None:
    cluster.create(wanted("v", 1, 1))
    results = cluster.grow(("t", 3), ("u", 2), ("v", 2), ("t", 4))
    assert [(name, code) for name, code, _ in results] == [
        ("t", ErrorCode.INVALID_REQUEST),
        ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("v", 0),
    ]
    assert (len(cluster.replicas("t")), len(cluster.replicas("v"))) == (2, 2)


def test_validate_only_adds_no_partitions(cluster: TopicHarness) -> None:
    assert cluster.grow(("t", 3), validate_only=True) == [("t", 0, None)]
    assert len(cluster.topic("t").partitions) == 2


def test_request_larger_than_a_batch_is_rejected(cluster: TopicHarness) -> None:
    cluster.controller.settings = ControllerSettings(max_batch_bytes=10_000)
    ((_, code, text),) = cluster.grow(("t", 2_000_000_000))
    assert code == ErrorCode.POLICY_VIOLATION
    assert text is not None
    assert "10000" in text


def test_topic_under_reassignment_grows_by_its_target_replicas(cluster: TopicHarness) -> None:
    cluster.topic("t").partitions[0] = Partition((1, 2, 3), (1, 2), 1, removing=(3,), original=(1, 3))
    cluster.grow(("t", 3))
    assert len(cluster.replicas("t")[2]) == 2
