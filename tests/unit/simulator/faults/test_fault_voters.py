"""Operators that change the voters at the worst moment."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.faults.voters import RemovalWithoutMajority, UnchangedVoter
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


def test_unchanged_voters_stay_unchanged_and_earlier_epochs_are_refused() -> None:
    cluster = make_cluster(voters=3)
    leader = elect(cluster)
    run(cluster, 3000.0)
    assert leader.node is not None
    before, epoch = leader.node.engine.voters, leader.node.engine.epoch
    for seed in range(12):
        UnchangedVoter().inject(cluster, Random(seed))
        run(cluster, 500.0)
    assert (leader.node.engine.voters, leader.node.engine.epoch) == (before, epoch)
    results = {name for name in cluster.counters if name.startswith("unchanged voter")}
    assert results == {
        "unchanged voter: NONE",
        "unchanged voter: FENCED_LEADER_EPOCH",
        "unchanged voter: UNKNOWN_LEADER_EPOCH",
        "unchanged voter: VOTER_NOT_FOUND",
        "unchanged voter: INVALID_REQUEST",
    }


def test_voters_that_may_move_are_not_updated() -> None:
    cluster = make_cluster(voters=3, faults={"moved node": 1.0})
    elect(cluster)
    assert not UnchangedVoter().available(cluster)
