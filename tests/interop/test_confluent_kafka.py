"""confluent-kafka (librdkafka), unmodified, against running daemons."""

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
def asked(request: pytest.FixtureRequest, cluster: Cluster) -> Daemon:
    """The only node that the client is given as bootstrap server."""
    leader = cluster.leader()
    return leader if request.param == "leader" else cluster.others(leader)[0]


def test_describe_cluster_names_every_node(cluster: Cluster, asked: Daemon) -> None:
    admin = admin_of(asked)
    told = admin.describe_cluster(request_timeout=TIMEOUT).result(TIMEOUT)
    assert told.cluster_id == cluster.cluster_id()
    assert {(node.id, node.host, node.port) for node in told.nodes} == {
        (daemon.node_id, "127.0.0.1", daemon.port) for daemon in cluster
    }
    assert told.controller.id in cluster.daemons


def test_list_topics_shows_the_nodes_and_no_topic(cluster: Cluster, asked: Daemon) -> None:
    told = admin_of(asked).list_topics(timeout=TIMEOUT)
    assert set(told.brokers) == set(cluster.daemons)
    assert {broker.port for broker in told.brokers.values()} == {daemon.port for daemon in cluster}
    assert told.cluster_id == cluster.cluster_id()
    assert set(told.topics) <= {"__cluster_metadata"}


@pytest.mark.parametrize("node", ["leader", "follower"])
def test_incremental_alter_configs_of_brokers_is_read_back_through_every_node(
    cluster: Cluster, asked: Daemon, node: str
) -> None:
    """librdkafka sends a broker's configs to that broker."""
    leader = cluster.leader()
    of = {"leader": str(leader.node_id), "follower": str(cluster.others(leader)[0].node_id)}[node]
    value = f"{of}-{asked.node_id}"
    set_by(admin_of(asked), ResourceType.BROKER, of, value)
    for daemon in cluster:
        assert read_by(admin_of(daemon), ResourceType.BROKER, of)["test.setting"] == value


def test_refused_config_is_an_error_the_client_understands(asked: Daemon) -> None:
    with pytest.raises(KafkaException):
        set_by(admin_of(asked), ResourceType.TOPIC, "no-such-topic", "1")


def test_clients_go_on_right_after_the_leader_was_killed(cluster: Cluster) -> None:
    """Clients made before and after. librdkafka looks for a controller that is gone until the call times out, so
    they first ask for topics, and only once there is a new leader."""
    old = cluster.leader()
    before = admin_of(*cluster)
    before.list_topics(timeout=TIMEOUT)
    old.kill()
    try:
        survivors = cluster.others(old)
        cluster.leader(besides=old.node_id)
        for admin in (before, *(admin_of(old, daemon) for daemon in survivors)):
            assert set(admin.list_topics(timeout=TIMEOUT).brokers) >= {daemon.node_id for daemon in survivors}
            told = admin.describe_cluster(request_timeout=TIMEOUT).result(TIMEOUT)
            assert {node.id for node in told.nodes} >= {daemon.node_id for daemon in survivors}
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
