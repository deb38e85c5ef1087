from __future__ import annotations

from random import Random

import pytest

from quorumd.controller.bootstrap_metadata import feature_levels_from, feature_records
from quorumd.controller.metadata_versions import default_levels
from quorumd.errors import StorageError
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, ReplicaKey
from quorumd.log.meta_properties import format_directory, partition_directory
from quorumd.protocol.messages import alter_quorum_request as wire
from quorumd.simulator.environment.disk import SimulatedDisk
from tests.support.log import stock_directory
from tests.support.node.nodes import DATA_DIRECTORY, Cluster, directory_of
from tests.support.text import shows


def test_member_of_a_quorum_has_no_obstacle() -> None:
    cluster = Cluster(3).start()
    cluster.leader()
    cluster.run(2000)
    assert [node.monitor.node_status().founding_obstacle for node in cluster.nodes.values()] == [None] * 3


def test_replaced_disk_rejoins_without_a_vote_and_reports_the_remedy() -> None:
    cluster = Cluster(3).start()
    cluster.leader()
    cluster.run(2000)
    cluster.kill(3)
    cluster.format(3, directory_number=1)
    cluster.start(3)
    cluster.run(3000)
    node = cluster.nodes[3]
    assert node.engine.leader_id > 0
    assert node.engine.role_name == "observer"
    obstacle = node.monitor.node_status().founding_obstacle or ""
    assert str(directory_of(3)) in obstacle
    assert str(directory_of(3, directory_number=1)) in obstacle
    assert "quorumd quorum alter --voters 1,2,3 --wait" in obstacle
    assert "leader" not in obstacle


def test_replaced_disk_without_a_leader_reports_that_a_majority_with_old_directories_must_elect_one() -> None:
    cluster = Cluster(3).start()
    cluster.leader()
    cluster.run(2000)
    cluster.kill(3)
    cluster.format(3, directory_number=1)
    cluster.start(3)
    cluster.run(3000)
    cluster.kill(1)
    cluster.run(10_000)
    obstacle = cluster.nodes[3].monitor.node_status().founding_obstacle or ""
    assert str(directory_of(3)) in obstacle
    assert shows(obstacle, "leader", "2 of the voters 1,2,3", "quorumd quorum alter --voters 1,2,3 --wait")


def test_directory_formatted_by_stock_tools_founds_the_quorum_of_its_checkpoint() -> None:
    """Kafka 4.4 writes voters and features to a snapshot that ends at offset 0 (KIP-1170)."""
    cluster = Cluster(1, founds=False)
    disk = cluster.disks[1] = SimulatedDisk(cluster.heap, Random(1))
    format_directory(disk, DATA_DIRECTORY, node_id=1, directory_id=stock_directory.DIRECTORY_ID)
    stock_directory.write_checkpoint(disk, DATA_DIRECTORY)
    leader = cluster.start(1).leader()
    assert leader.state_machine.image.features == feature_levels_from(feature_records(default_levels(27)))
    (voter,) = leader.engine.voters.current.voters
    assert voter.key == ReplicaKey(1, stock_directory.DIRECTORY_ID)
    cluster.kill(1)
    assert cluster.start(1).leader().state_machine.image.metadata_version == 27


def test_directory_formatted_by_stock_tools_for_other_voters_founds_no_quorum() -> None:
    cluster = Cluster(1, founds=False)
    stock_directory.write_checkpoint(cluster.disks[1], DATA_DIRECTORY)
    cluster.start(1).run(5000)
    assert cluster.nodes[1].log.end_offset == 0
    assert "waits for an existing quorum" in (cluster.nodes[1].monitor.node_status().founding_obstacle or "")


def test_blank_voters_found_a_quorum_once_all_report_that_they_are_blank() -> None:
    cluster = Cluster(3, founds=False).start(1, 2)
    cluster.run(5000)
    assert [node.log.end_offset for node in cluster.nodes.values()] == [0, 0]
    obstacle = cluster.nodes[1].monitor.node_status().founding_obstacle or ""
    assert "node 3" in obstacle
    assert "start all of them" in obstacle
    cluster.start(3)
    leader = cluster.leader()
    assert {voter.key.directory_id for voter in leader.engine.voters.current.voters} == {
        directory_of(node_id) for node_id in (1, 2, 3)
    }


def test_two_wiped_disks_of_three_elect_no_leader_and_all_nodes_report_why() -> None:
    cluster = Cluster(3).start()
    cluster.leader()
    cluster.run(2000)
    for node_id in (1, 2, 3):
        cluster.kill(node_id)
    for node_id in (1, 2):
        cluster.format(node_id, directory_number=1)
    cluster.start(1, 2)
    cluster.run(5000)
    assert all(
        "node 3" in (node.monitor.node_status().founding_obstacle or "") for node in cluster.nodes.values()
    )
    cluster.start(3)
    cluster.run(15_000)
    assert not any(node.engine.is_leader for node in cluster.nodes.values())
    assert "part of an existing quorum" in (cluster.nodes[1].monitor.node_status().founding_obstacle or "")
    survivor = cluster.nodes[3].monitor.node_status().founding_obstacle or ""
    assert shows(survivor, "node 1", directory_of(1))
    assert "restore the log directories" in survivor


def test_sole_configured_voter_without_peers_to_query_founds_no_quorum() -> None:
    cluster = Cluster(1, founds=False).start()
    cluster.run(10_000)
    assert cluster.nodes[1].log.end_offset == 0
    assert "format with --standalone" in (cluster.nodes[1].monitor.node_status().founding_obstacle or "")


def test_founders_wait_briefly_for_nodes_that_do_not_respond() -> None:
    cluster = Cluster(3).start(1, 2)
    assert cluster.leader().engine.voters.current.ids == (1, 2, 3)
    assert cluster.heap.now_ms < 5000


def test_log_without_quorum_state_is_refused() -> None:
    """Its vote is lost and could be cast a second time."""
    cluster = Cluster(3).start()
    cluster.leader()
    cluster.run(2000)
    cluster.kill(2)
    cluster.disks[2].remove(f"{partition_directory(DATA_DIRECTORY)}/quorum-state")
    with pytest.raises(StorageError, match="quorum-state is missing"):
        cluster.start(2)


def test_alter_quorum_gives_the_vote_of_a_replaced_disk_to_the_new_one() -> None:
    cluster = Cluster(3).start()
    cluster.leader()
    cluster.run(2000)
    cluster.kill(3)
    cluster.format(3, directory_number=1)
    cluster.start(3)
    cluster.run(4000)
    leader = cluster.leader()
    client = cluster.client(leader.settings.node_id)
    client.request(alter_quorum(1, 2, 3), 0)
    cluster.run_until(lambda: leader.engine.voters.target is None)
    voter = leader.engine.voters.current.by_id(3)
    assert voter is not None
    assert voter.key.directory_id == directory_of(3, directory_number=1)
    cluster.run(2000)
    assert cluster.nodes[3].monitor.node_status().founding_obstacle is None


def alter_quorum(*ids: int) -> wire.AlterQuorumRequest:
    partition = wire.PartitionData(METADATA_PARTITION, [wire.TargetVoter(node_id) for node_id in ids])
    return wire.AlterQuorumRequest("", [wire.TopicData(METADATA_TOPIC, [partition])])
