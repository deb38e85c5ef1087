"""Operators that change the voters at the worst moment."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.faults.voters import RemovalWithoutMajority
from tests.support.simulator.simulated_cluster import elect, leader_of, make_cluster, run


def voters_of(machine: Machine) -> tuple[int, ...]:
    assert machine.node is not None
    return machine.node.engine.voters.current.ids


def silent_voters(cluster: Cluster, leader: Machine) -> list[int]:
    network = cluster.network
    others = [machine for machine in cluster.machines.values() if machine is not leader]
    return [other.node_id for other in others if not network.is_reachable(other.host, leader.host)]


@pytest.mark.parametrize(("voters", "silent"), [(3, 1), (5, 2)])
def test_reachable_voters_are_not_a_majority_after_the_removal(voters: int, silent: int) -> None:
    ended = 0
    for seed in range(6):
        cluster = make_cluster(voters=voters)
        leader = elect(cluster)
        run(cluster, 1000.0)
        RemovalWithoutMajority().inject(cluster, Random(seed))
        assert len(silent_voters(cluster, leader)) == silent
        run(cluster, 1.2 * cluster.options.fetch_timeout_ms)
        if len(voters_of(leader)) == voters - 1:
            assert not set(silent_voters(cluster, leader)) - set(voters_of(leader))
            run(cluster, cluster.options.fetch_timeout_ms)
            assert leader.node is not None
            ended += not leader.node.engine.is_leader
        run(cluster, 20_000.0)
        assert leader_of(cluster) is not None
    assert ended > 0


def test_two_voters_are_too_few() -> None:
    cluster = make_cluster(voters=2)
    elect(cluster)
    assert not RemovalWithoutMajority().available(cluster)
