"""Requests for all partitions are split into chunks by topic."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.controller import Controller
from quorumd.controller.elections import partitions_to_elect
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, partition_record
from quorumd.controller.partitions_by_topic import by_topic
from quorumd.controller.reassignments import reassigning_partitions
from quorumd.protocol.messages.elect_leaders_request import ElectLeadersRequest
from quorumd.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from tests.support.controller.topic_harness import TopicHarness, a_broker, wanted

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def cluster() -> TopicHarness:
    """Topics a, b and c with five partitions each."""
    harness = TopicHarness((a_broker(1), a_broker(2), a_broker(3)))
    harness.create(*(wanted(name, 5, 2) for name in "bac"))
    return harness


def replace(cluster: TopicHarness, name: str, number: int, **fields: Any) -> None:
    """Store another state of a partition."""
    values: dict[str, Any] = {"replicas": (1, 2), "isr": (1, 2), "leader": 1} | fields
    partition = Partition(
        values["replicas"], values["isr"], values["leader"], 1, 1, adding=values.get("adding", ())
    )
    where = PartitionId(cluster.topic(name).id, number)
    cluster.controller.image.apply(partition_record(where, partition), [])


def elections(controller: Controller, election: int, limit: int) -> list[dict[str, list[int]] | None] | None:
    found = partitions_to_elect(controller, ElectLeadersRequest(election, None), limit)
    return None if found is None else list(found)


def test_partitions_are_sorted_and_split(cluster: TopicHarness) -> None:
    image = cluster.controller.image
    where = [PartitionId(cluster.topic(name).id, number) for name in "cab" for number in (3, 1, 2)]
    assert list(by_topic(image, where, 4)) == [
        {"a": [1, 2, 3], "b": [1]},
        {"b": [2, 3], "c": [1, 2]},
        {"c": [3]},
    ]
    assert list(by_topic(image, where, 9)) == [{"a": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2, 3]}]
    assert list(by_topic(image, [], 4)) == []


def test_few_reassignments_are_not_split(cluster: TopicHarness) -> None:
    for number in range(3):
        replace(cluster, "a", number, replicas=(1, 2, 3), adding=(3,))
    request = ListPartitionReassignmentsRequest()
    assert reassigning_partitions(cluster.controller, request, 3) is None
    found = reassigning_partitions(cluster.controller, request, 2)
    assert found is not None
    assert list(found) == [{"a": [0, 1]}, {"a": [2]}]


def test_unclean_elections_are_those_without_a_leader(cluster: TopicHarness) -> None:
    replace(cluster, "b", 3, isr=(2,), leader=NO_LEADER)
    assert elections(cluster.controller, UNCLEAN, 14) == [{"b": [3]}]
    assert elections(cluster.controller, UNCLEAN, 15) is None
    assert elections(cluster.controller, 7, 14) is None


def test_preferred_elections_are_those_led_by_another_replica(cluster: TopicHarness) -> None:
    for name in "abc":
        for number in range(5):
            replace(cluster, name, number, leader=2 if number > 2 else 1)
    found = elections(cluster.controller, PREFERRED, 4)
    assert found is not None
    chunks = [chunk for chunk in found if chunk is not None]
    assert all(sum(map(len, chunk.values())) <= 4 for chunk in chunks)
    pairs = sorted((name, number) for chunk in chunks for name, these in chunk.items() for number in these)
    assert pairs == [(name, number) for name in "abc" for number in (3, 4)]


def test_no_preferred_elections_without_imbalance(cluster: TopicHarness) -> None:
    for name in "abc":
        for number in range(5):
            replace(cluster, name, number)
    assert elections(cluster.controller, PREFERRED, 4) == []
