"""Reassignments and elections through stock clients."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import TopicPartition as Partition
from kafka.admin import KafkaAdminClient

from tests.support.processes.daemons import PATIENCE_S, Cluster, wait_for
from tests.support.processes.fake_broker import brokers
from tests.support.processes.kafka_python import PATIENT

BROKERS = (101, 102, 103)
PREFERRED = 0


@pytest.fixture(scope="module", autouse=True)
def _brokers(cluster: Cluster) -> Iterator[None]:
    with brokers(cluster, BROKERS, ("a", "b", "c")):
        yield


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    bootstrap = cluster.bootstrap.split(",")
    with closing(
        KafkaAdminClient(bootstrap_servers=bootstrap, client_id="reassignments", **PATIENT)
    ) as client:
        yield client


def under_way(admin: KafkaAdminClient, name: str) -> dict[int, Any]:
    return {p.partition: state for p, state in admin.list_partition_reassignments({name: [0, 1]}).items()}


def leaders(cluster: Cluster, name: str) -> list[int]:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    return [p.leader for _, p in sorted(client.list_topics(name, PATIENCE_S).topics[name].partitions.items())]


def test_reassignment_is_started_listed_and_cancelled(cluster: Cluster, admin: KafkaAdminClient) -> None:
    name = f"topic-{uuid.uuid4()}"
    admin.create_topics({name: {"assignments": {0: [101, 102], 1: [102, 101]}}}, wait_for_metadata=True)
    admin.alter_partition_reassignments({Partition(name, 0): [103, 101], Partition(name, 1): [101, 102]})
    moving = {0: {"replicas": [103, 101, 102], "adding_replicas": [103], "removing_replicas": [102]}}
    assert under_way(admin, name) == moving, "a new order of the same replicas takes effect at once"
    admin.alter_partition_reassignments({Partition(name, 0): None})
    assert under_way(admin, name) == {}
    admin.delete_topics([name])


def test_preferred_leaders_are_elected(cluster: Cluster, admin: KafkaAdminClient) -> None:
    name = f"topic-{uuid.uuid4()}"
    admin.create_topics({name: {"assignments": {0: [101, 102], 1: [102, 101]}}}, wait_for_metadata=True)
    admin.alter_partition_reassignments({Partition(name, 0): [102, 101], Partition(name, 1): [101, 102]})
    wait_for("the original leaders", lambda: leaders(cluster, name) == [101, 102])
    admin.elect_leaders(PREFERRED, {name: [0]})
    wait_for("one leader to change", lambda: leaders(cluster, name) == [102, 102])
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    elected = client.elect_leaders(ElectionType.PREFERRED, [TopicPartition(name, 1)]).result(PATIENCE_S)
    assert [error for error in elected.values() if error is not None] == []
    wait_for("the other leader to change", lambda: leaders(cluster, name) == [102, 101])
    admin.delete_topics([name])
