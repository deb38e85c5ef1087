"""A recovered cluster meets its conditions quickly, and violations are reported."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.log.high_watermark_checkpoint import HighWatermarkCheckpoint
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.data_directories import DATA_DIRECTORY
from quorumd.simulator.faults.voters import request_voters
from quorumd.simulator.liveness.convergence import (
    Handover,
    LastVoterChange,
    require_checkpoints,
    require_idle_records,
)
from tests.support.simulator.simulated_cluster import elect, leader_of, make_cluster, run

TAKES_BOTH = next(seed for seed in range(99) if Random(seed).randrange(2) == 1)
"""A seed that draws two of two nodes."""


def settled(voters: int, observers: int = 0, **more: object) -> Cluster:
    cluster = make_cluster(voters, observers, **more)
    elect(cluster)
    run(cluster, 3000.0)
    return cluster


def change(cluster: Cluster, seed: int) -> LastVoterChange:
    return LastVoterChange(
        cluster, Random(seed), lambda until: run(cluster, until - cluster.heap.now_ms), lambda: True
    )


@pytest.mark.parametrize("seed", range(8))
def test_voters_can_be_changed(seed: int) -> None:
    cluster = settled(2, 2)
    change(cluster, seed).require()


def look_at_idle_log(cluster: Cluster, interval_ms: float) -> None:
    def committed_end() -> int:
        leader = leader_of(cluster)
        assert leader is not None
        assert leader.node is not None
        return leader.node.engine.high_watermark

    require_idle_records(
        interval_ms, cluster, lambda until: run(cluster, until - cluster.heap.now_ms), committed_end
    )


def test_growing_idle_log_is_accepted() -> None:
    look_at_idle_log(settled(3, idle_interval_ms=100.0), 100.0)


@pytest.mark.parametrize("written_each_ms", [0.0, 10.0])
def test_idle_log_that_does_not_grow_or_grows_fast_is_reported(written_each_ms: float) -> None:
    with pytest.raises(InvariantViolation, match="it grew by"):
        look_at_idle_log(settled(3, idle_interval_ms=written_each_ms), 100.0)


def test_unreachable_target_voters_are_reported() -> None:
    cluster = settled(1)
    cluster.machines[2] = cluster.machines[1]
    with pytest.raises(InvariantViolation, match="INVALID_REQUEST"):
        change(cluster, TAKES_BOTH).require()


def test_former_leader_without_its_successor_is_reported() -> None:
    cluster = settled(3)
    former = leader_of(cluster)
    assert former is not None
    assert former.node is not None
    handover = Handover(cluster, former)
    handover.look()
    for other in cluster.machines.values():
        if other is not former:
            cluster.network.block(other.host, former.host)
    former.node.shut_down()
    with pytest.raises(InvariantViolation, match=rf"node {former.node_id}\b"):
        run(cluster, 4 * cluster.options.fetch_timeout_ms, lambda: partition_observed(handover))


def partition_observed(handover: Handover) -> bool:
    handover.look()
    return False


def test_missing_checkpoint_is_reported() -> None:
    cluster = settled(1)
    machine = cluster.machines[1]
    HighWatermarkCheckpoint(machine.disk, DATA_DIRECTORY).save(7)
    require_checkpoints(cluster, {(1, machine.incarnation): 7, (1, machine.incarnation + 1): 9})
    with pytest.raises(InvariantViolation, match=r"node 1 .*below 8, .*has 7"):
        require_checkpoints(cluster, {(1, machine.incarnation): 8})


def test_checkpoint_waits_for_a_disk_that_delays_the_log() -> None:
    cluster = settled(1, 1)
    machine = cluster.machines[1]
    machine.disk.stall(10_000.0)
    request_voters(cluster, machine, [1, 2])
    run(cluster, 2000.0)
    sealed = {(1, machine.incarnation): 1 << 30}
    require_checkpoints(cluster, sealed)
    run(cluster, 10_000.0)
    with pytest.raises(InvariantViolation, match="node 1 has sealed"):
        require_checkpoints(cluster, sealed)
