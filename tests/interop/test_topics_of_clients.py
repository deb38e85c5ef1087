"""Topics, partitions and configs of topics through the unmodified kafka-python 3 and confluent-kafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, NewPartitions, NewTopic
from confluent_kafka.admin import ConfigResource as ResourceOfConfluent
from kafka.admin import ConfigResource, KafkaAdminClient
from kafka.admin import NewPartitions as PartitionsOfPython
from kafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kio.schema.describe_cluster.v1 import request as describe_cluster
from kio.static.primitive import i8

from tests.support.processes.daemons import PATIENCE_S, Cluster, wait_for
from tests.support.processes.fake_broker import brokers
from tests.support.processes.kafka_python import PATIENT
from tests.support.processes.wire import Wire

BROKERS = (101, 102, 103)


@pytest.fixture(scope="module", autouse=True)
def _brokers(cluster: Cluster) -> Iterator[None]:
    """Three brokers on two racks."""
    with brokers(cluster, BROKERS, ("a", "a", "b")):
        yield


@pytest.fixture(params=["leader", "follower"])
def admin(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[KafkaAdminClient]:
    """A client with one node as its bootstrap server."""
    leader = cluster.leader()
    queried = leader if request.param == "leader" else cluster.others(leader)[0]
    bootstrap = f"127.0.0.1:{queried.port}"
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap, client_id="topics", **PATIENT)) as client:
        yield client


@pytest.fixture
def name(admin: KafkaAdminClient) -> Iterator[str]:
    """The name of a topic that is deleted afterwards."""
    name = f"topic-{uuid.uuid4()}"
    yield name
    admin.delete_topics([name], raise_errors=False)


def described(admin: KafkaAdminClient, name: str, count: int) -> list[dict[str, Any]]:
    """Wait for the partitions of a topic, since the client queries any node, which may not have applied them yet."""

    def describe() -> list[dict[str, Any]] | None:
        (topic,) = admin.describe_topics([name])
        partitions: list[dict[str, Any]] = topic["partitions"]
        return partitions if len(partitions) == count else None

    found = wait_for(f"{count} partitions of {name}", describe)
    assert found is not None
    return found


def test_topic_is_created_listed_on_every_node_and_deleted(
    cluster: Cluster, admin: KafkaAdminClient, name: str
) -> None:
    wanted = {name: {"num_partitions": 6, "replication_factor": 2, "configs": {"retention.ms": "5000"}}}
    (made,) = admin.create_topics(wanted, wait_for_metadata=True)["topics"]
    assert (made["num_partitions"], made["replication_factor"]) == (6, 2)
    assert made["configs"]["retention.ms"]["value"] == "5000"
    for daemon in cluster:
        with closing(KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{daemon.port}", **PATIENT)) as other:
            wait_for("the topic to be listed", lambda other=other: name in other.list_topics())
    found = described(admin, name, 6)
    assert [partition["partition_index"] for partition in found] == list(range(6))
    leaders = [partition["leader_id"] for partition in found]
    assert sorted(leaders) == [101, 101, 102, 102, 103, 103]
    for partition in found:
        assert partition["replica_nodes"] == partition["isr_nodes"]
        assert 103 in partition["replica_nodes"], "the only broker on rack b"
        assert partition["offline_replicas"] == []
    assert admin.delete_topics([name])["topics"][0]["error_code"] == 0
    wait_for("the topic to be deleted", lambda: name not in admin.list_topics())


def test_topic_is_deleted_by_its_id(admin: KafkaAdminClient, name: str) -> None:
    (made,) = admin.create_topics({name: {"num_partitions": 1}})["topics"]
    (deleted,) = admin.delete_topics([uuid.UUID(str(made["topic_id"]))])["topics"]
    assert (deleted["name"], deleted["error_code"]) == (name, 0)


def test_manual_assignment_is_used_unchanged(admin: KafkaAdminClient, name: str) -> None:
    admin.create_topics({name: {"assignments": {0: [103, 101], 1: [102, 103]}}}, wait_for_metadata=True)
    found = described(admin, name, 2)
    assert [partition["replica_nodes"] for partition in found] == [[103, 101], [102, 103]]
    assert [partition["leader_id"] for partition in found] == [103, 102]


def test_partitions_are_added_and_paged_through(admin: KafkaAdminClient, name: str) -> None:
    admin.create_topics({name: {"num_partitions": 2, "replication_factor": 3}})
    admin.create_partitions({name: PartitionsOfPython(5)})
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({name: PartitionsOfPython(5)})

    def page() -> list[int]:
        """Read one page of partitions from any node."""
        found = admin.describe_topic_partitions([name], response_partition_limit=3)
        cursor = found["next_cursor"]
        return [
            *(partition["partition_index"] for partition in found["topics"][0]["partitions"]),
            cursor["partition_index"] if cursor else -1,
        ]

    wait_for("five partitions, where the next page starts at partition 3", lambda: page() == [0, 1, 2, 3])
    described(admin, name, 5)


def test_invalid_requests_get_the_errors_of_kafka(admin: KafkaAdminClient, name: str) -> None:
    admin.create_topics({name: {"num_partitions": 1}})
    for wanted, error in (
        ({name: {}}, TopicAlreadyExistsError),
        ({"a b": {}}, InvalidTopicError),
        ({"new": {"replication_factor": 4}}, InvalidReplicationFactorError),
        ({"new": {"num_partitions": 0}}, InvalidPartitionsError),
        ({"new": {"configs": {"no.such.config": "1"}}}, InvalidConfigurationError),
    ):
        with pytest.raises(error):
            admin.create_topics(wanted)
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics(["never made"])
    assert "new" not in admin.list_topics()


def test_validate_only_creates_no_topic(admin: KafkaAdminClient) -> None:
    (found,) = admin.create_topics({"only-validated": {"num_partitions": 3}}, validate_only=True)["topics"]
    assert (found["error_code"], found["num_partitions"]) == (0, 3)
    assert "only-validated" not in admin.list_topics()


def test_configs_of_a_topic(admin: KafkaAdminClient, name: str) -> None:
    admin.create_topics({name: {"num_partitions": 1, "configs": {"min.insync.replicas": "2"}}})
    admin.alter_configs([ConfigResource("TOPIC", name, {"cleanup.policy": ("APPEND", "compact")})])
    admin.alter_configs([ConfigResource("TOPIC", name, {"min.insync.replicas": ("DELETE", None)})])
    refused = ConfigResource("TOPIC", name, {"unclean.leader.election.enable": "maybe"})
    assert "must be true or false" in admin.alter_configs([refused])["topic"][name]
    found = admin.describe_configs([ConfigResource("TOPIC", name)], config_filter="all")["topic"][name]
    assert {
        key: (found[key]["value"], found[key]["config_source"], found[key]["config_type"])
        for key in ("cleanup.policy", "min.insync.replicas")
    } == {
        "cleanup.policy": ("delete,compact", "DYNAMIC_TOPIC_CONFIG", "LIST"),
        "min.insync.replicas": ("1", "DYNAMIC_DEFAULT_BROKER_CONFIG", "INT"),
    }


def test_registered_brokers_are_listed_with_the_nodes_of_the_quorum(
    cluster: Cluster, admin: KafkaAdminClient
) -> None:
    def listed_brokers() -> dict[int, str | None]:
        return {node["broker_id"]: node["rack"] for node in admin.describe_cluster()["brokers"]}

    expected = {**dict.fromkeys(cluster.daemons), 101: "a", 102: "a", 103: "b"}
    wait_for("the brokers to be listed", lambda: listed_brokers() == expected)


def test_client_that_rejects_unknown_tags_gets_the_brokers_too(cluster: Cluster) -> None:
    request = describe_cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=i8(1)
    )
    expected = {**dict.fromkeys(cluster.daemons), 101: "a", 102: "a", 103: "b"}

    def listed_brokers(wire: Wire) -> dict[int, str | None]:
        return {broker.broker_id: broker.rack for broker in wire.request(request).brokers}

    for daemon in cluster:
        with daemon.connect() as wire:
            wait_for("the brokers to be listed", lambda wire=wire: listed_brokers(wire) == expected)


def test_topics_and_configs_through_confluent_kafka(cluster: Cluster) -> None:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    name = f"topic-{uuid.uuid4()}"
    client.create_topics([NewTopic(name, 3, 2, config={"retention.ms": "5000"})])[name].result(PATIENCE_S)
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        client.create_topics([NewTopic(name, 3, 2)])[name].result(PATIENCE_S)
    client.create_partitions([NewPartitions(name, 4)])[name].result(PATIENCE_S)
    topic = wait_for(
        "four partitions",
        lambda: (
            found
            if len((found := client.list_topics(name, PATIENCE_S).topics[name]).partitions) == 4
            else None
        ),
    )
    assert {partition.leader for partition in topic.partitions.values()} == set(BROKERS)
    resource = ResourceOfConfluent(
        ResourceOfConfluent.Type.TOPIC,
        name,
        incremental_configs=[ConfigEntry("segment.ms", "1234", incremental_operation=AlterConfigOpType.SET)],
    )
    client.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    queried = ResourceOfConfluent(ResourceOfConfluent.Type.TOPIC, name)
    found = client.describe_configs([queried])[queried].result(PATIENCE_S)
    assert (found["retention.ms"].value, found["segment.ms"].value) == ("5000", "1234")
    assert found["segment.bytes"].is_default
    client.delete_topics([name])[name].result(PATIENCE_S)


def is_created(client: AdminClient, topic: str) -> bool:
    """Create a topic; return False if the connection was closed, since librdkafka does not repeat its requests."""
    try:
        client.create_topics([NewTopic(topic, 3, 3)], request_timeout=PATIENCE_S)[topic].result(PATIENCE_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._TRANSPORT:
            raise
        return False
    return True


def test_topics_survive_the_leader_and_are_created_under_the_next_one(cluster: Cluster) -> None:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    before, after = f"before-{uuid.uuid4()}", f"after-{uuid.uuid4()}"
    client.create_topics([NewTopic(before, 3, 3)])[before].result(PATIENCE_S)
    old = cluster.leader()
    old.kill()
    try:
        wait_for("the topic to be created", lambda: is_created(client, after))
        topics = wait_for(
            "both topics",
            lambda: (
                found
                if {before, after} <= (found := client.list_topics(timeout=PATIENCE_S).topics).keys()
                else None
            ),
        )
        for name in (before, after):
            assert {partition.leader for partition in topics[name].partitions.values()} == set(BROKERS)
        deleted = client.delete_topics([before, after], request_timeout=PATIENCE_S)
        assert [deleted[name].result(PATIENCE_S) for name in (before, after)] == [None, None]
    finally:
        cluster.heal()
