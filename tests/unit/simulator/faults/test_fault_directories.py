"""Data directories that are lost, corrupted and confused: when that is possible, and how nodes must react."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.ids import KafkaUuid
from quorumd.simulator import data_directories
from quorumd.simulator.brokers.fleet import FIRST_BROKER, BrokerFleet
from quorumd.simulator.brokers.options import BrokerOptions
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.faults.data_directories import (
    CopiedDirectory,
    ReplacedDisk,
    SwappedDirectories,
    WrongClusterId,
)
from tests.support.simulator.simulated_cluster import elect, leader_of, make_cluster, run


def settled(voters: int = 3, observers: int = 0) -> Cluster:
    """Run a cluster until its voters are committed with their directory ids."""
    cluster = make_cluster(voters, observers)
    elect(cluster)
    run(cluster, 3000.0)
    return cluster


def replace(cluster: Cluster, node_id: int) -> Machine:
    machine = cluster.machines[node_id]
    assert data_directories.is_dispensable(cluster, machine)
    cluster.lose_power(node_id)
    data_directories.replace(cluster, machine)
    cluster.boot(node_id)
    run(cluster, 3000.0)
    return machine


def test_voter_can_be_replaced_once_the_committed_voters_name_its_directory() -> None:
    cluster = make_cluster(voters=3, observers=1)
    assert not any(
        data_directories.is_dispensable(cluster, cluster.machines[voter]) for voter in cluster.voters
    )
    assert data_directories.is_dispensable(cluster, cluster.machines[4])
    elect(cluster)
    run(cluster, 3000.0)
    assert all(data_directories.is_dispensable(cluster, cluster.machines[voter]) for voter in cluster.voters)


@pytest.mark.parametrize(("voters", "lost"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (7, 3)])
def test_majority_of_the_voters_keeps_its_directories(voters: int, lost: int) -> None:
    cluster = settled(voters)
    for node_id in range(1, lost + 1):
        replace(cluster, node_id)
    assert not any(
        data_directories.is_dispensable(cluster, cluster.machines[voter]) for voter in cluster.voters[lost:]
    )


def test_replaced_voter_has_the_log_without_a_vote() -> None:
    cluster = settled(3)
    lost = replace(cluster, 3)
    assert lost.node is not None
    leader = leader_of(cluster)
    assert leader is not None
    assert leader.node is not None
    assert lost.node.engine.high_watermark == leader.node.engine.high_watermark
    assert cluster.counters["voters lost"] == 1
    cluster.kill(2)
    run(cluster, 10_000.0)
    assert leader_of(cluster) is None  # two of three run, and only one of them may vote
    cluster.boot(2)
    assert elect(cluster).node_id in (1, 2)


def test_replaced_disk_is_empty_and_another_replica() -> None:
    cluster = settled(3)
    before = {machine.directory_id for machine in cluster.machines.values()}
    ReplacedDisk().inject(cluster, Random(1))
    (machine,) = [machine for machine in cluster.machines.values() if machine.directory_number]
    assert machine.process is None
    assert machine.directory_id not in before
    assert not any("log" in path.rsplit(".", 1)[-1] for path in machine.disk.contents())
    run(cluster, 6000.0)
    assert machine.node is not None
    assert machine.node.log.end_offset > 0


@pytest.mark.parametrize("fault", [SwappedDirectories(), CopiedDirectory()], ids=lambda fault: fault.name)
def test_directory_of_another_node_is_refused_and_the_original_accepted(
    fault: SwappedDirectories | CopiedDirectory,
) -> None:
    for seed in range(6):
        cluster = settled(3)
        fault.inject(cluster, Random(seed))
        assert cluster.counters["wrong directories refused"] > 0
        run(cluster, 6000.0)
        assert len(cluster.running()) == 3
        assert leader_of(cluster) is not None


def test_node_with_another_cluster_id_stays_alone_until_it_has_its_directory_back() -> None:
    cluster = settled(3)
    alone = cluster.machines[2]
    kept = alone.disk.contents()
    cluster.kill(2)
    data_directories.set_aside(cluster, alone, "another-cluster")
    cluster.boot(2)
    run(cluster, 5000.0)
    assert alone.node is not None
    assert alone.node.cluster_id == "another-cluster"
    assert alone.node.log.end_offset == 0
    assert leader_of(cluster) is not alone
    data_directories.restore_directory(cluster, alone)
    assert alone.disk.contents() == kept
    cluster.boot(2)
    run(cluster, 3000.0)
    assert alone.node is not None
    assert alone.node.log.end_offset > 0


def test_another_cluster_id_happens_in_both_ways() -> None:
    aside, refused = 0, 0
    for seed in range(8):
        cluster = settled(3)
        for node_id in cluster.voters:  # what is saved in the next epoch has the cluster id
            cluster.kill(node_id)
            cluster.boot(node_id)
        run(cluster, 5000.0)
        WrongClusterId().inject(cluster, Random(seed))
        aside += any(machine.set_aside is not None for machine in cluster.machines.values())
        refused += cluster.counters["wrong directories refused"]
    assert aside > 0
    assert refused > 0


def test_node_that_starts_with_a_wrong_directory_is_reported() -> None:
    cluster = settled(1)
    machine = cluster.machines[1]
    cluster.kill(1)
    with pytest.raises(InvariantViolation, match=r"a directory .*: node 1: "):
        data_directories.expect_refusal(cluster, machine, machine.disk.copy(), "in truth its own")


def test_repair_ends_mistakes_and_restores_files() -> None:
    cluster = settled(3)
    directories_before = cluster.machines[1].disk.contents()
    path = next(path for path in directories_before if path.endswith(".log"))
    for node_id in (1, 2):
        cluster.kill(node_id)
    data_directories.set_aside(cluster, cluster.machines[1], "another-cluster")
    cluster.machines[2].disk.corrupt(path, 70, 1)
    cluster.repair()
    assert cluster.machines[1].set_aside is None
    assert cluster.machines[1].disk.contents() == directories_before
    assert not cluster.machines[2].disk.is_corrupted


def test_repair_leaves_undetected_corruption_to_the_running_process() -> None:
    cluster = settled(3)
    machine = cluster.machines[2]
    machine.disk.corrupt(f"{data_directories.DATA_DIRECTORY}/meta.properties", 0, 1)
    cluster.repair()
    assert machine.disk.is_corrupted
    cluster.kill(2)
    cluster.boot(2)
    run(cluster, 2 * data_directories.MAX_REPAIR_DELAY_MS)
    assert cluster.counters["damage noticed"] == 1
    assert not machine.disk.is_corrupted
    assert machine.node is not None


def test_retired_machine_does_not_count_as_a_healthy_voter() -> None:
    cluster = settled(3)
    assert data_directories.is_dispensable(cluster, cluster.machines[1])
    cluster.retire(3)
    assert not data_directories.is_dispensable(cluster, cluster.machines[1])


def test_brokers_belong_to_the_cluster_and_not_to_a_directory_that_is_quarantined() -> None:
    cluster = settled(3)
    (cluster_id,) = {machine.node.cluster_id for machine in cluster.running() if machine.node is not None}
    first = cluster.machines[1]
    cluster.kill(1)
    data_directories.set_aside(cluster, first, str(KafkaUuid(bytes(range(16)))))
    cluster.boot(1)
    assert first.node is not None
    assert first.node.cluster_id != cluster_id
    brokers = BrokerFleet(cluster, BrokerOptions(count=1), [])
    brokers.boot(FIRST_BROKER)
    (broker,) = brokers.running()
    assert broker.lifecycle.registration.cluster_id == cluster_id
