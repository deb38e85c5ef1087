"""The unmodified kafka-python 3 with running daemons."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.admin import ConfigResource, KafkaAdminClient
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.protocol.api_key import ApiKey

from tests.support.processes.daemons import Cluster, Daemon, wait_for
from tests.support.processes.kafka_python import PATIENT, kafka_python_tidied
from tests.support.processes.ports import free_port
from tests.support.processes.requests import get_registers


@contextmanager
def admin_of(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap, client_id="interop", **PATIENT)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(params=["leader", "follower"])
def queried(request: pytest.FixtureRequest, cluster: Cluster) -> Daemon:
    """The only bootstrap server of the client."""
    leader = cluster.leader()
    return leader if request.param == "leader" else cluster.others(leader)[0]


def bootstrap_of(daemon: Daemon) -> str:
    return f"127.0.0.1:{daemon.port}"


def test_describe_cluster_names_every_node(cluster: Cluster, queried: Daemon) -> None:
    with admin_of(bootstrap_of(queried)) as admin:
        result = admin.describe_cluster()
    assert result["cluster_id"] == cluster.cluster_id()
    assert {(node["broker_id"], node["host"], node["port"]) for node in result["brokers"]} == {
        (daemon.node_id, "127.0.0.1", daemon.port) for daemon in cluster
    }
    assert result["controller_id"] in cluster.daemons


def test_describe_metadata_quorum_names_leader_voters_and_offsets(cluster: Cluster, queried: Daemon) -> None:
    leader = cluster.leader()
    epoch = leader.await_quorum().epoch
    with admin_of(bootstrap_of(queried)) as admin:
        result = admin.describe_metadata_quorum()
    (topic,) = result["topics"]
    assert topic["topic_name"] == "__cluster_metadata"
    (partition,) = topic["partitions"]
    assert partition["error"] is None
    assert partition["leader_id"] == leader.node_id
    assert partition["leader_epoch"] == epoch
    assert partition["high_watermark"] > 0
    assert {voter["replica_id"] for voter in partition["current_voters"]} == set(cluster.daemons)
    assert (
        max(voter["log_end_offset"] for voter in partition["current_voters"]) >= partition["high_watermark"]
    )
    assert {node["node_id"] for node in result["nodes"]} == set(cluster.daemons)


def test_api_versions(queried: Daemon) -> None:
    with admin_of(bootstrap_of(queried)) as admin:
        # The client's `api_versions` fails for APIs that it does not know, such as an API of Kafka 4.4.
        result = admin.get_broker_version_data(queried.node_id).api_versions
    assert {
        name: result[int(ApiKey[name])] for name in ("ApiVersions", "Fetch", "DescribeQuorum", "Vote")
    } == {
        "ApiVersions": (0, 5),
        "Fetch": (12, 18),
        "DescribeQuorum": (0, 2),
        "Vote": (0, 2),
    }


@pytest.mark.parametrize(
    "resource", [("BROKER", "1", "test.setting"), ("CLIENT_METRICS", "python", "metrics")]
)
def test_altered_configs_are_read_back_through_every_node(
    cluster: Cluster, queried: Daemon, resource: tuple[str, str, str]
) -> None:
    kind, name, config = resource
    value = f"from {queried.node_id}"
    with admin_of(bootstrap_of(queried)) as admin:
        admin.alter_configs([ConfigResource(kind, name, {config: value})], raise_on_unknown=False)
    for daemon in cluster:
        with admin_of(bootstrap_of(daemon)) as admin:
            result = admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
        assert value in str(result), f"node {daemon.node_id} has {result}"


def _quorum_of_a_survivor(admin: KafkaAdminClient) -> dict[str, Any]:
    """Describe the quorum; retry, since the client queries a random known node, which may be the dead node."""

    def describe() -> dict[str, Any] | None:
        try:
            return admin.describe_metadata_quorum()["topics"][0]["partitions"][0]
        except KafkaConnectionError:
            return None

    return wait_for("the client to find a survivor", describe)


def test_clients_continue_right_after_the_leader_was_killed(cluster: Cluster) -> None:
    """The clients are created before and after the kill, with the dead node among the bootstrap servers."""
    with admin_of(cluster.bootstrap) as before:
        before.describe_cluster()
        old = cluster.leader()
        old.kill()
        try:
            new = cluster.leader(besides=old.node_id)
            partition = _quorum_of_a_survivor(before)
            assert partition["leader_id"] == new.node_id
            for daemon in cluster.others(old):
                with admin_of(f"{bootstrap_of(old)},{bootstrap_of(daemon)}") as admin:
                    partition = _quorum_of_a_survivor(admin)
                    assert partition["leader_id"] == new.node_id
                    value = f"without {old.node_id} by {daemon.node_id}"
                    admin.alter_configs(
                        [ConfigResource("CLIENT_METRICS", "survivors", {"metrics": value})],
                        raise_on_unknown=False,
                    )
                for other in cluster.others(old):
                    with other.connect() as wire:
                        assert get_registers(wire, "survivors")["survivors"] == value
        finally:
            old.start()
            cluster.wait_until_level()


def test_client_that_still_runs_is_found_and_stopped() -> None:
    """The client's sockets are closed as well: a ResourceWarning would fail the test."""
    refusing = f"127.0.0.1:{free_port()}"
    with pytest.raises(AssertionError), kafka_python_tidied(), pytest.raises(KafkaError):
        KafkaAdminClient(bootstrap_servers=refusing, bootstrap_timeout_ms=300)
    gc.collect()
