"""Whole nodes that lag behind the log start and catch up from snapshots."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.meta_properties import partition_directory
from quorumd.node.node import Node
from quorumd.node.snapshots.builder import build_snapshot
from quorumd.protocol.messages import incremental_alter_configs_request
from quorumd.raft.settings import RaftSettings
from tests.support.node.nodes import DATA_DIRECTORY, NO_IDLE_RECORDS, Cluster, host_of

SMALL = LogSettings(segment_bytes=1000, allocate_bytes=0)
PIECES = RaftSettings(snapshot_max_bytes=300)
BROKER = 4


def write(cluster: Cluster, count: int, value: str) -> None:
    wire = incremental_alter_configs_request
    client = cluster.client(cluster.leader().settings.node_id)
    for n in range(count):
        changes = [wire.AlterableConfig(f"c{n % 30}", 0, f"{value}{n}")]
        response: Any = client.request(
            wire.IncrementalAlterConfigsRequest([wire.AlterConfigsResource(BROKER, "7", changes)]), 1
        )
        assert response.responses[0].error_code == 0
    client.close()


def cut(cluster: Cluster, node: Node) -> OffsetAndEpoch:
    """Build a snapshot at the high watermark and delete the log of `node` below it."""
    disk = cluster.disks[node.settings.node_id]
    built = build_snapshot(disk, DATA_DIRECTORY, node.state_machine.committed_offset, "test")
    assert built is not None
    node.log.snapshots.rescan()
    node.log.delete_before(built.snapshot)
    assert node.log.start_offset == built.snapshot.offset
    return built.snapshot


def caught_up(cluster: Cluster, node_id: int) -> bool:
    leader, node = cluster.leader(), cluster.nodes[node_id]
    return node.state_machine.applied_offset == leader.state_machine.committed_offset


@pytest.fixture
def cluster() -> Cluster:
    """Three voters with small segments that fetch snapshots in small chunks."""
    return Cluster(3, raft=PIECES, log=SMALL, controller=NO_IDLE_RECORDS)


def start_without(cluster: Cluster) -> int:
    """Stop one follower, whose id is returned, and write more records."""
    cluster.start()
    write(cluster, 10, "before")
    away: int = cluster.follower().settings.node_id
    cluster.run_until(lambda: caught_up(cluster, away))
    cluster.kill(away)
    write(cluster, 50, "meanwhile")
    cluster.run(1000)
    return away


def assert_same(cluster: Cluster, node_id: int, role: str = "follower") -> None:
    leader, node = cluster.leader(), cluster.nodes[node_id]
    assert node.state_machine.image.configs == leader.state_machine.image.configs
    assert node.engine.voters == leader.engine.voters
    assert node.cluster_id == leader.cluster_id
    assert (node.engine.role_name, cluster.exits) == (role, [])


def test_follower_behind_the_log_start_catches_up_from_a_snapshot(cluster: Cluster) -> None:
    away = start_without(cluster)
    for node in cluster.nodes.values():
        snapshot = cut(cluster, node)
    write(cluster, 5, "after")
    cluster.start(away)
    cluster.run_until(lambda: caught_up(cluster, away))
    assert cluster.nodes[away].log.start_offset == snapshot.offset
    assert_same(cluster, away)
    leader = cluster.leader()
    files = cluster.disks[away].contents(), cluster.disks[leader.settings.node_id].contents()
    path = f"/{leader.log.snapshots.path(snapshot).lstrip('/')}"
    assert files[0][path] == files[1][path]


def test_empty_follower_starts_from_the_snapshot_of_a_complete_log(cluster: Cluster) -> None:
    away = start_without(cluster)
    for node in cluster.nodes.values():
        disk = cluster.disks[node.settings.node_id]
        assert build_snapshot(disk, DATA_DIRECTORY, node.state_machine.committed_offset, "test")
        node.log.snapshots.rescan()
    cluster.format(away)
    cluster.start(away)
    cluster.run_until(lambda: caught_up(cluster, away))
    assert cluster.nodes[away].log.start_offset > 0
    assert_same(cluster, away)


def test_fetch_continues_from_a_new_leader_with_the_same_snapshot(
    cluster: Cluster,
) -> None:
    away = start_without(cluster)
    snapshots = {cut(cluster, node) for node in cluster.nodes.values()}
    assert len(snapshots) == 1, "the snapshot id is a function of the log"
    (snapshot,) = snapshots
    cluster.start(away)
    node = cluster.nodes[away]
    cluster.run_until(lambda: node.log.fetched_bytes(snapshot) >= 600)
    here = node.log.fetched_bytes(snapshot)
    assert node.log.start_offset == 0, "an incomplete snapshot is not installed"
    cluster.kill(cluster.leader().settings.node_id)
    sizes: list[int] = []
    cluster.run_until(
        lambda: sizes.append(node.log.fetched_bytes(snapshot)) or node.log.start_offset == snapshot.offset
    )
    assert min(size for size in sizes if size) == here, "no chunk was fetched twice"
    cluster.run_until(lambda: caught_up(cluster, away))
    assert_same(cluster, away)


@pytest.mark.parametrize("pieces", [1, 3])
def test_follower_killed_during_the_fetch_resumes_at_its_position(cluster: Cluster, pieces: int) -> None:
    away = start_without(cluster)
    for node in cluster.nodes.values():
        snapshot = cut(cluster, node)
    cluster.start(away)
    log = cluster.nodes[away].log
    cluster.run_until(lambda: log.fetched_bytes(snapshot) >= 300 * pieces)
    cluster.kill(away)
    cluster.start(away)
    node = cluster.nodes[away]
    sizes: list[int] = []
    cluster.run_until(
        lambda: sizes.append(node.log.fetched_bytes(snapshot)) or node.log.start_offset == snapshot.offset
    )
    assert sizes[0] == 300 * pieces
    assert min(size for size in sizes if size) == 300 * pieces, "no chunk was fetched twice"
    cluster.run_until(lambda: caught_up(cluster, away))
    assert_same(cluster, away)


def test_follower_killed_before_the_check_fetches_the_snapshot_again(cluster: Cluster) -> None:
    away = start_without(cluster)
    for node in cluster.nodes.values():
        snapshot = cut(cluster, node)
        size = node.log.snapshots.size(snapshot)
    cluster.start(away)
    log = cluster.nodes[away].log
    cluster.run_until(lambda: log.fetched_bytes(snapshot) == size)
    cluster.kill(away)
    cluster.start(away)
    assert cluster.nodes[away].log.fetched_bytes(snapshot) == size
    cluster.run_until(lambda: caught_up(cluster, away))
    assert_same(cluster, away)


def test_snapshot_corrupted_at_the_leader_is_never_installed(cluster: Cluster) -> None:
    away = start_without(cluster)
    rotten = []
    for node in cluster.nodes.values():
        snapshot = cut(cluster, node)
        file = cluster.disks[node.settings.node_id].open(node.log.snapshots.path(snapshot))
        rotten.append((file, file.read_at(400, 2)))
        file.write_at(400, bytes(255 - byte for byte in rotten[-1][1]))
    cluster.start(away)
    node = cluster.nodes[away]
    cluster.run(10_000)
    assert (node.log.start_offset, node.log.latest_snapshot, cluster.exits) == (0, None, [])
    names = cluster.disks[away].list_directory(partition_directory(DATA_DIRECTORY))
    assert not any(name.endswith(".checkpoint") for name in names)
    for file, sound in rotten:
        file.write_at(400, sound)
    cluster.run_until(lambda: caught_up(cluster, away))
    assert_same(cluster, away)


def test_node_restarts_from_a_fetched_snapshot_and_can_lead(cluster: Cluster) -> None:
    away = start_without(cluster)
    for node in cluster.nodes.values():
        snapshot = cut(cluster, node)
    cluster.start(away)
    cluster.run_until(lambda: caught_up(cluster, away))
    cluster.kill(away)
    cluster.start(away)
    assert cluster.nodes[away].log.start_offset == snapshot.offset
    cluster.run_until(lambda: caught_up(cluster, away))
    assert_same(cluster, away)
    configs = cluster.leader().state_machine.image.configs
    while cluster.leader().settings.node_id != away:
        leads = cluster.leader().settings.node_id
        cluster.kill(leads)
        cluster.leader()
        cluster.start(leads)
        cluster.run(3000)
    assert cluster.nodes[away].state_machine.image.configs == configs
    assert cluster.exits == []


def test_observer_catches_up_from_a_snapshot(cluster: Cluster) -> None:
    start_without(cluster)
    for node in cluster.nodes.values():
        snapshot = cut(cluster, node)
    cluster.format(9)
    cluster.start_node(9, voter_addresses=tuple((n, host_of(n), 9092) for n in (1, 2, 3)))
    cluster.run_until(lambda: caught_up(cluster, 9))
    assert cluster.nodes[9].log.start_offset == snapshot.offset
    assert_same(cluster, 9, role="observer")
