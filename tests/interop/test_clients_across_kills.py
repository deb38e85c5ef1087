"""Admin clients before and after a kill -9 of the leader: reassign, list, cancel, elect, create and delete.

kafka-python uses the controller that it knows until this node responds with NOT_CONTROLLER, which a dead node never
does (`_send_request_to_controller`): callers must create a new client after a failure, or wait for the node, also
with Kafka's brokers. confluent-kafka recovers with its next metadata request, by default after five minutes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeVar

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as PartitionOfConfluent
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    KafkaConnectionError,
    NodeNotReadyError,
    RequestTimedOutError,
    UnknownBrokerIdError,
)

from tests.support.processes.daemons import PATIENCE_S, Cluster, Daemon, wait_for
from tests.support.processes.fake_broker import brokers
from tests.support.processes.kafka_python import PATIENT

T = TypeVar("T")

BROKERS = (101, 102, 103)
PREFERRED = 0
TRY_AGAIN = (KafkaConnectionError, NodeNotReadyError, UnknownBrokerIdError, RequestTimedOutError)
METADATA_AGE_MS = 500
"""The interval of the clients' metadata requests."""


@pytest.fixture(scope="module", autouse=True)
def _brokers(cluster: Cluster) -> Iterator[None]:
    with brokers(cluster, BROKERS):
        yield


@pytest.fixture
def name(cluster: Cluster) -> Iterator[str]:
    """A topic with two partitions, led by 101 and 102; at the end stopped nodes are restarted and it is deleted."""
    name = f"topic-{uuid.uuid4()}"
    with closing(client_of(cluster)) as admin:
        admin.create_topics({name: {"assignments": {0: [101, 102], 1: [102, 101]}}})
    yield name
    cluster.heal()
    with closing(client_of(cluster)) as admin:
        admin.delete_topics([name])


def client_of(cluster: Cluster) -> KafkaAdminClient:
    return KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap.split(","), metadata_max_age_ms=METADATA_AGE_MS, **PATIENT
    )


def insist(action: Callable[[], T]) -> T:
    """Retry until a node responds."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return action()
        except TRY_AGAIN:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def with_new_client(cluster: Cluster, action: Callable[[KafkaAdminClient], T]) -> T:
    """Run `action` with a new client for each attempt until it succeeds, and return its result."""

    def attempt() -> T:
        with closing(client_of(cluster)) as admin:
            return action(admin)

    return insist(attempt)


def reassign(cluster: Cluster, name: str, wanted: dict[int, list[int] | None]) -> None:
    plan = {TopicPartition(name, number): replicas for number, replicas in wanted.items()}
    errors = with_new_client(cluster, lambda admin: admin.alter_partition_reassignments(plan))
    assert set(errors.values()) == {None}, errors


def under_way(admin: KafkaAdminClient, name: str) -> dict[int, Any]:
    return {p.partition: state for p, state in admin.list_partition_reassignments({name: [0, 1]}).items()}


def lasting_client_of(cluster: Cluster) -> AdminClient:
    """Return a client that finds the next leader by itself."""
    return AdminClient(
        {"bootstrap.servers": cluster.bootstrap, "topic.metadata.refresh.interval.ms": METADATA_AGE_MS}
    )


def leaders(client: AdminClient, name: str) -> list[int]:
    return [p.leader for _, p in sorted(client.list_topics(name, PATIENCE_S).topics[name].partitions.items())]


def kill_leader(cluster: Cluster) -> Daemon:
    cluster.heal()
    leader = cluster.leader()
    leader.kill()
    return leader


def test_reassignment_survives_leaders_and_is_cancelled_under_another_one(
    cluster: Cluster, name: str
) -> None:
    reassign(cluster, name, {0: [103, 101]})
    moving = {0: {"replicas": [103, 101, 102], "adding_replicas": [103], "removing_replicas": [102]}}
    kill_leader(cluster)
    assert with_new_client(cluster, lambda admin: under_way(admin, name)) == moving
    reassign(cluster, name, {0: None, 1: [103, 102]})
    kill_leader(cluster)
    assert with_new_client(cluster, lambda admin: sorted(under_way(admin, name))) == [1], (
        "the first reassignment is cancelled"
    )
    reassign(cluster, name, {1: None})
    assert with_new_client(cluster, lambda admin: under_way(admin, name)) == {}


def test_preferred_leaders_are_elected_under_another_leader(cluster: Cluster, name: str) -> None:
    reassign(cluster, name, {0: [102, 101], 1: [101, 102]})
    client = lasting_client_of(cluster)
    kill_leader(cluster)
    with_new_client(cluster, lambda admin: admin.elect_leaders(PREFERRED, {name: [0]}))
    wait_for("one leader to change", lambda: leaders(client, name) == [102, 102])
    kill_leader(cluster)
    partitions = [PartitionOfConfluent(name, 1)]
    elected = client.elect_leaders(ElectionType.PREFERRED, partitions).result(PATIENCE_S)
    assert [error for error in elected.values() if error is not None] == []
    wait_for("the other leader to change", lambda: leaders(client, name) == [102, 101])


def test_topics_are_created_and_deleted_under_another_leader(cluster: Cluster, name: str) -> None:
    made = f"{name}-made"
    client = lasting_client_of(cluster)
    kill_leader(cluster)
    # The response to a successful attempt may be lost; then the next attempt fails because the topic exists.
    with_new_client(
        cluster, lambda admin: admin.create_topics({made: {"num_partitions": 3}}, raise_errors=False)
    )
    wait_for("the topic to be listed", lambda: made in client.list_topics(timeout=PATIENCE_S).topics)
    kill_leader(cluster)
    with_new_client(cluster, lambda admin: admin.delete_topics([made], raise_errors=False))
    wait_for("the topic to be deleted", lambda: made not in client.list_topics(timeout=PATIENCE_S).topics)
    client.create_topics([NewTopic(made, 1)], request_timeout=PATIENCE_S)[made].result(PATIENCE_S)
    client.delete_topics([made], request_timeout=PATIENCE_S)[made].result(PATIENCE_S)


def test_existing_client_recovers_once_its_node_is_back(cluster: Cluster, name: str) -> None:
    with closing(client_of(cluster)) as admin:
        assert under_way(admin, name) == {}
        kill_leader(cluster)
        reassign(cluster, name, {0: [103, 101]})
        cluster.heal()
        assert sorted(insist(lambda: under_way(admin, name))) == [0]
