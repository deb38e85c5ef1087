"""Voter sets of logs, and data directories that they can do without."""

from __future__ import annotations

from random import Random

from quorumd.simulator.cluster import Cluster
from quorumd.simulator.data_directories import is_dispensable, replace
from quorumd.simulator.faults.addresses import MovedNode
from quorumd.simulator.faults.voters import request_voters
from quorumd.simulator.voter_sets import have_majorities, voter_sets
from tests.support.simulator.simulated_cluster import elect, leader_of, make_cluster, run


def changed_cluster(target: tuple[int, ...]) -> Cluster:
    """A cluster of four nodes whose voters were changed from (1, 2, 3) to `target`."""
    cluster = make_cluster(voters=3, observers=1)
    leader = elect(cluster)
    run(cluster, 2000.0)
    cluster.voters_changed = True
    request_voters(cluster, leader, target)
    run(cluster, 5000.0)
    assert [voters.ids for voters in voter_sets(cluster)] == [target]
    return cluster


def test_one_of_three_disks_can_be_lost_after_voter_changes() -> None:
    cluster = changed_cluster((1, 2, 4))
    machines = cluster.machines
    assert all(is_dispensable(cluster, machine) for machine in machines.values())
    cluster.lose_power(4)
    replace(cluster, machines[4])
    assert not is_dispensable(cluster, machines[1])
    assert is_dispensable(cluster, machines[3])  # no longer a voter
    assert is_dispensable(cluster, machines[4])  # neither is its new directory
    assert have_majorities(cluster)
    cluster.lose_power(1)
    replace(cluster, machines[1])
    assert not have_majorities(cluster)


def test_voter_set_of_a_stopped_node_counts() -> None:
    cluster = changed_cluster((1, 2, 3, 4))
    cluster.kill(4)
    leader = leader_of(cluster)
    assert leader is not None
    request_voters(cluster, leader, (1, 2, 3))
    run(cluster, 3000.0)
    assert sorted(voters.ids for voters in voter_sets(cluster)) == [(1, 2, 3), (1, 2, 3, 4)]


def test_nodes_move_one_at_a_time_and_are_found() -> None:
    cluster = make_cluster(voters=3)
    elect(cluster)
    run(cluster, 2000.0)
    fault, moves = MovedNode(), 0
    for seed in range(6):
        assert fault.available(cluster)
        fault.inject(cluster, Random(seed))
        moves += 1
        assert not fault.available(cluster)
        run(cluster, 20_000.0, lambda: len(cluster.running()) == 3 and fault.available(cluster))
    assert sum(machine.port - 9092 for machine in cluster.machines.values()) == moves
    elect(cluster)
