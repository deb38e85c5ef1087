"""Whole nodes with snapshots, in virtual time: building, retention, start and fetch."""

from __future__ import annotations

import logging

import pytest

from quorumd.errors import StorageError
from quorumd.log import LogSettings
from quorumd.log.meta_properties import partition_directory
from quorumd.log.snapshot_file import file_name
from quorumd.node.node import Node
from quorumd.node.readiness import readiness
from quorumd.node.settings import MAINTENANCE_INTERVAL_MS
from quorumd.protocol.messages import incremental_alter_configs_request as wire
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest
from tests.support.node.nodes import DATA_DIRECTORY, Cluster

DIRECTORY = partition_directory(DATA_DIRECTORY)
SMALL = LogSettings(
    segment_bytes=2000,
    allocate_bytes=500,
    index_interval_bytes=200,
    snapshot_bytes=3000,
    retention_bytes=5000,
)
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAg"


def make_cluster(voters: int) -> Cluster:
    return Cluster(voters, log=SMALL).start()


def write(cluster: Cluster, count: int, first: int = 0) -> None:
    """Write `count` configs, each acknowledged before the next."""
    client = cluster.client(cluster.leader().settings.node_id)
    for number in range(first, first + count):
        change = wire.AlterableConfig(f"c{number}", 0, "x" * 100)
        response = client.request(
            wire.IncrementalAlterConfigsRequest([wire.AlterConfigsResource(4, "7", [change])]), 1
        )
        assert response.responses[0].error_code == 0
    client.close()


def write_and_wait(cluster: Cluster, rounds: int) -> None:
    for number in range(rounds):
        write(cluster, 30, first=number * 30)
        cluster.run(2 * MAINTENANCE_INTERVAL_MS)


def fingerprints(cluster: Cluster) -> set[object]:
    cluster.run(1000.0)
    return {node.state_machine.image.fingerprint() for node in cluster.nodes.values()}


def configs_of(node: Node) -> int:
    return len(node.state_machine.image.config((4, "7")))


def test_log_start_offset_advances_on_every_node() -> None:
    cluster = make_cluster(3)
    write_and_wait(cluster, 8)
    for node in cluster.nodes.values():
        assert node.log.start_offset > 0
        assert node.statistics.snapshots_built > 2
        assert node.statistics.snapshots_failed == 0
        assert sum(segment.size for segment in node.log.segments()) < 25_000
    snapshots = [set(node.log.snapshots.ids) for node in cluster.nodes.values()]
    common = set.intersection(*snapshots)
    for snapshot in common:
        path = f"{DIRECTORY}/{file_name(snapshot)}"
        assert len({disk.contents()[path] for disk in cluster.disks.values()}) == 1
    assert len(fingerprints(cluster)) == 1
    assert cluster.exits == []


def test_node_starts_from_its_newest_snapshot() -> None:
    cluster = make_cluster(1)
    write_and_wait(cluster, 5)
    before = cluster.leader()
    image = before.state_machine.image.fingerprint()
    voters = before.engine.voters
    cluster.kill(1)
    node = cluster.start_node(1)
    assert node.log.start_offset > 0
    newest = node.log.latest_snapshot
    assert newest is not None
    assert node.state_machine.applied_offset >= newest.offset
    assert configs_of(node) > 60, "before the log is applied"
    assert node.engine.voters == voters
    assert node.cluster_id == before.cluster_id
    assert cluster.leader().state_machine.image.fingerprint() == image
    write(cluster, 1, first=1000)
    assert configs_of(node) == 151


def test_node_serves_requests_while_it_loads_its_snapshot_and_campaigns_afterwards() -> None:
    cluster = make_cluster(1)
    write_and_wait(cluster, 5)
    cluster.kill(1)
    cluster.record_ms = 5.0
    node = cluster.start_node(1)
    client = cluster.client(1)
    assert client.request(ApiVersionsRequest(), 0).error_code == 0
    assert node.state_machine.loading is not None
    assert not node.engine.is_leader
    (_, lacking) = readiness(node.monitor.node_status()).reasons
    assert "snapshot" in lacking
    assert client.request(MetadataRequest(None), 12).cluster_id == node.cluster_id
    assert node.state_machine.is_readable, "metadata responses wait until the image is loaded"
    cluster.leader()
    assert configs_of(node) == 150
    assert cluster.exits == []


def test_damaged_snapshot_is_quarantined_and_replaced(caplog: pytest.LogCaptureFixture) -> None:
    cluster = make_cluster(1)
    write_and_wait(cluster, 5)
    image = cluster.leader().state_machine.image.fingerprint()
    newest = cluster.leader().log.latest_snapshot
    assert newest is not None
    cluster.kill(1)
    cluster.disks[1].open(f"{DIRECTORY}/{file_name(newest)}").write_at(300, b"???")
    with caplog.at_level(logging.WARNING):
        cluster.start(1)
    assert f"{file_name(newest)}.corrupt" in caplog.text
    node = cluster.leader()
    assert node.state_machine.image.fingerprint() == image
    write_and_wait(cluster, 2)
    assert node.log.latest_snapshot is not None
    assert node.log.latest_snapshot.offset > newest.offset


def test_node_without_snapshot_and_log_start_does_not_start() -> None:
    cluster = make_cluster(1)
    write_and_wait(cluster, 5)
    snapshots = cluster.leader().log.snapshots.ids
    cluster.kill(1)
    for snapshot in snapshots:
        cluster.disks[1].open(f"{DIRECTORY}/{file_name(snapshot)}").write_at(300, b"???")
    with pytest.raises(StorageError, match=DIRECTORY):
        cluster.start_node(1)


def test_replica_behind_the_log_start_fetches_the_snapshot() -> None:
    cluster = make_cluster(3)
    write(cluster, 5)
    away = cluster.follower().settings.node_id
    cluster.kill(away)
    write_and_wait(cluster, 8)
    assert cluster.leader().log.start_offset > 10
    cluster.start(away)
    node = cluster.nodes[away]
    cluster.run_until(lambda: node.state_machine.applied_offset >= cluster.leader().log.end_offset)
    assert node.log.start_offset >= 200
    assert len(fingerprints(cluster)) == 1
    write(cluster, 3, first=5000)
    assert len(fingerprints(cluster)) == 1
    cluster.kill(away)
    cluster.start(away)
    cluster.leader()
    write(cluster, 3, first=6000)
    assert len(fingerprints(cluster)) == 1


def test_node_that_fetched_the_snapshot_leads_with_its_full_image() -> None:
    cluster = make_cluster(3)
    away = cluster.follower().settings.node_id
    cluster.kill(away)
    write_and_wait(cluster, 8)
    expected = cluster.leader().state_machine.image.fingerprint()
    leader = cluster.leader().settings.node_id
    cluster.start(away)
    node = cluster.nodes[away]
    cluster.run_until(lambda: node.log.start_offset > 0)
    cluster.run_until(lambda: node.log.end_offset == cluster.nodes[leader].log.end_offset)
    cluster.kill(leader)
    other = next(node_id for node_id in cluster.nodes if node_id != away)
    cluster.disks[other].stall(2000.0)
    assert cluster.leader().state_machine.image.fingerprint() == expected


def test_kill_during_a_snapshot_build_leaves_no_files() -> None:
    cluster = make_cluster(1)
    write(cluster, 40)
    node = cluster.leader()
    cluster.run_until(lambda: node.core.snapshots._is_building)
    cluster.kill(1)
    cluster.start(1)
    assert cluster.leader().log.snapshots.ids == []
    cluster.run(2 * MAINTENANCE_INTERVAL_MS)
    assert len(cluster.leader().log.snapshots.ids) == 1
