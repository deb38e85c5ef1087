"""The unmodified confluent-kafka (librdkafka) with running daemons."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.support.processes.daemons import Cluster, Daemon

TIMEOUT = 120


def admin_of(*daemons: Daemon) -> AdminClient:
    servers = ",".join(f"127.0.0.1:{daemon.port}" for daemon in daemons)
    return AdminClient({"bootstrap.servers": servers, "log_level": 0, "client.id": "interop"})


def set_by(admin: AdminClient, kind: ResourceType, name: str, value: str) -> None:
    entry = ConfigEntry("test.setting", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([resource], request_timeout=TIMEOUT).values()
    assert future.result(TIMEOUT) is None


def read_by(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, str]:
    (future,) = admin.describe_configs([ConfigResource(kind, name)], request_timeout=TIMEOUT).values()
    return {entry.name: entry.value for entry in future.result(TIMEOUT).values()}


@pytest.fixture(params=["leader", "follower"])
def queried(request: pytest.FixtureRequest, cluster: Cluster) -> Daemon:
    """The only bootstrap server of the client."""
    leader = cluster.leader()
    return leader if request.param == "leader" else cluster.others(leader)[0]


def test_describe_cluster_names_every_node(cluster: Cluster, queried: Daemon) -> None:
    admin = admin_of(queried)
    result = admin.describe_cluster(request_timeout=TIMEOUT).result(TIMEOUT)
    assert result.cluster_id == cluster.cluster_id()
    assert {(node.id, node.host, node.port) for node in result.nodes} == {
        (daemon.node_id, "127.0.0.1", daemon.port) for daemon in cluster
    }
    assert result.controller.id in cluster.daemons


def test_list_topics_shows_the_nodes_and_no_topic(cluster: Cluster, queried: Daemon) -> None:
    result = admin_of(queried).list_topics(timeout=TIMEOUT)
    assert set(result.brokers) == set(cluster.daemons)
    assert {broker.port for broker in result.brokers.values()} == {daemon.port for daemon in cluster}
    assert result.cluster_id == cluster.cluster_id()
    assert set(result.topics) <= {"__cluster_metadata"}


@pytest.mark.parametrize("node", ["leader", "follower"])
def test_incremental_alter_configs_of_brokers_is_read_back_through_every_node(
    cluster: Cluster, queried: Daemon, node: str
) -> None:
    """librdkafka sends the configs of a broker to that broker."""
    leader = cluster.leader()
    of = {"leader": str(leader.node_id), "follower": str(cluster.others(leader)[0].node_id)}[node]
    value = f"{of}-{queried.node_id}"
    set_by(admin_of(queried), ResourceType.BROKER, of, value)
    for daemon in cluster:
        assert read_by(admin_of(daemon), ResourceType.BROKER, of)["test.setting"] == value


def test_rejected_config_is_an_error_that_the_client_understands(queried: Daemon) -> None:
    with pytest.raises(KafkaException):
        set_by(admin_of(queried), ResourceType.TOPIC, "no-such-topic", "1")


def test_clients_continue_right_after_the_leader_was_killed(cluster: Cluster) -> None:
    """The clients are created before and after the kill.

    librdkafka waits for a lost controller until the call times out; therefore the clients first list topics after the
    election of a leader.
    """
    old = cluster.leader()
    before = admin_of(*cluster)
    before.list_topics(timeout=TIMEOUT)
    old.kill()
    try:
        survivors = cluster.others(old)
        cluster.leader(besides=old.node_id)
        for admin in (before, *(admin_of(old, daemon) for daemon in survivors)):
            assert set(admin.list_topics(timeout=TIMEOUT).brokers) >= {daemon.node_id for daemon in survivors}
            result = admin.describe_cluster(request_timeout=TIMEOUT).result(TIMEOUT)
            assert {node.id for node in result.nodes} >= {daemon.node_id for daemon in survivors}
        for daemon in survivors:
            value = f"without {old.node_id}, by {daemon.node_id}"
            set_by(admin_of(daemon), ResourceType.BROKER, str(daemon.node_id), value)
            for other in survivors:
                assert (
                    read_by(admin_of(other), ResourceType.BROKER, str(daemon.node_id))["test.setting"]
                    == value
                )
    finally:
        old.start()
        cluster.wait_until_level()
