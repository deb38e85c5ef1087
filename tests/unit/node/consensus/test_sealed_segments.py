"""The high watermark is checkpointed as soon as a sealed segment is committed: damage in it is not a torn tail."""

from __future__ import annotations

import pytest

from quorumd.errors import CorruptLog
from quorumd.log import LogSettings
from quorumd.log.high_watermark_checkpoint import HighWatermarkCheckpoint
from quorumd.log.meta_properties import partition_directory
from quorumd.node.node import Node
from quorumd.node.settings import MAINTENANCE_INTERVAL_MS
from quorumd.protocol.messages import incremental_alter_configs_request as wire
from tests.support.node.nodes import DATA_DIRECTORY, NO_IDLE_RECORDS, Cluster

BROKER = 4
FIRST_SEGMENT = f"{partition_directory(DATA_DIRECTORY)}/{0:020d}.log"


def make_cluster(voters: int) -> Cluster:
    return Cluster(voters, log=LogSettings(segment_bytes=1024), controller=NO_IDLE_RECORDS).start()


def write(cluster: Cluster, leader: Node, count: int) -> None:
    """Send writes without waiting for responses, so that the leader seals segments before they are committed."""
    client = cluster.client(leader.settings.node_id)
    for number in range(count):
        change = wire.AlterableConfig("a", 0, f"{number}" + "x" * 200)
        resource = wire.AlterConfigsResource(BROKER, "7", [change])
        client.send(wire.IncrementalAlterConfigsRequest([resource]), 1)
        cluster.run(0.4)
    cluster.run(300.0)
    assert cluster.heap.now_ms < MAINTENANCE_INTERVAL_MS, "the periodic checkpoint is not due yet"


def checkpoint(cluster: Cluster, node_id: int) -> int:
    return HighWatermarkCheckpoint(cluster.disks[node_id], DATA_DIRECTORY).load()


def test_commits_in_the_active_segment_wait_for_the_periodic_checkpoint() -> None:
    cluster = make_cluster(1)
    node = cluster.leader()
    write(cluster, node, 1)
    assert node.log.active_base_offset == 0
    assert checkpoint(cluster, 1) == 0
    cluster.run(MAINTENANCE_INTERVAL_MS)
    assert checkpoint(cluster, 1) == node.engine.high_watermark


@pytest.mark.parametrize("count", range(3, 12))
@pytest.mark.parametrize("voters", [1, 3])
def test_committed_sealed_segment_is_checkpointed_at_once(voters: int, count: int) -> None:
    """Even if no flush follows the commit of its last record."""
    cluster = make_cluster(voters)
    write(cluster, cluster.leader(), count)
    for node_id, node in cluster.nodes.items():
        sealed = node.log.active_base_offset
        assert 0 < sealed <= checkpoint(cluster, node_id) <= node.engine.high_watermark


@pytest.mark.parametrize("victim", ["leader", "follower"])
def test_damage_in_a_committed_sealed_segment_is_detected_at_the_next_start(victim: str) -> None:
    cluster = make_cluster(3)
    leader = cluster.leader()
    write(cluster, leader, 10)
    node_id = (leader if victim == "leader" else cluster.follower()).settings.node_id
    cluster.kill(node_id)
    before = cluster.disks[node_id].contents()
    cluster.disks[node_id].corrupt(FIRST_SEGMENT, 300, 1)
    with pytest.raises(CorruptLog, match=FIRST_SEGMENT):
        cluster.start_node(node_id)
    assert cluster.disks[node_id].contents() == before, "nothing was cut"
    cluster.disks[node_id].restore()
    cluster.start_node(node_id)


def test_uncommitted_sealed_segment_may_be_torn() -> None:
    """A leader without followers seals uncommitted records, whose end a crash may tear off."""
    cluster = make_cluster(3)
    leader = cluster.leader()
    committed = leader.engine.high_watermark
    for follower in [node_id for node_id, node in cluster.nodes.items() if node is not leader]:
        cluster.kill(follower)
    write(cluster, leader, 10)
    node_id = leader.settings.node_id
    assert leader.log.active_base_offset > committed
    assert checkpoint(cluster, node_id) <= committed
    cluster.kill(node_id)
    disk = cluster.disks[node_id]
    disk.corrupt(FIRST_SEGMENT, len(disk.contents()[FIRST_SEGMENT]) - 1, 1)
    cluster.start_node(node_id)
    assert committed <= cluster.nodes[node_id].log.end_offset < leader.log.active_base_offset
