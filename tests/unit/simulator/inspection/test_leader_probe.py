"""A majority without faults has to elect a leader."""

from __future__ import annotations

import pytest

from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.disk import DiskLatency
from quorumd.simulator.environment.link_conditions import LinkConditions
from quorumd.simulator.inspection.leader_probe import CHECK_INTERVAL_MS, LeaderProbe
from quorumd.simulator.liveness.stable_leadership import TIMEOUTS_WITHOUT_LEADER
from tests.support.simulator.simulated_cluster import elect, make_cluster, run

PROMPT = {
    "links": LinkConditions(slow_probability=0.0),
    "disk": DiskLatency(slow_probability=0.0),
    "election_timeout_ms": 500,
}


@pytest.fixture
def cluster() -> Cluster:
    made = make_cluster(3, **PROMPT)
    elect(made)
    return made


def limit_ms(cluster: Cluster) -> float:
    options = cluster.options
    return TIMEOUTS_WITHOUT_LEADER * (options.election_timeout_ms + options.fetch_timeout_ms)


def watch(cluster: Cluster, probe: LeaderProbe, duration_ms: float) -> None:
    end_ms = cluster.heap.now_ms + duration_ms
    while cluster.heap.now_ms < end_ms:
        run(cluster, CHECK_INTERVAL_MS)
        probe.look()


def isolate(cluster: Cluster, *node_ids: int) -> None:
    for node_id in node_ids:
        for machine in cluster.machines.values():
            if machine.node_id != node_id:
                cluster.network.block(cluster.machines[node_id].host, machine.host)
                cluster.network.block(machine.host, cluster.machines[node_id].host)


def hide_leaders(probe: LeaderProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_has_leader", lambda machine, now: False)


def test_majority_elects_another_leader_while_the_previous_one_is_isolated(cluster: Cluster) -> None:
    probe = LeaderProbe(cluster)
    isolate(cluster, elect(cluster).node_id)
    watch(cluster, probe, 2 * limit_ms(cluster))
    assert probe.elections == 1


def test_majority_that_elects_no_leader_is_a_violation(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = LeaderProbe(cluster)
    isolate(cluster, 2)
    hide_leaders(probe, monkeypatch)
    with pytest.raises(InvariantViolation, match=r"nodes \[1, 3\] .*without a leader"):
        watch(cluster, probe, 2 * limit_ms(cluster))


@pytest.mark.parametrize("hurt", ["links", "stopped", "paused", "slow", "full disk", "voters"])
def test_minority_and_majority_with_faults_may_lack_a_leader(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, hurt: str
) -> None:
    probe = LeaderProbe(cluster)
    hide_leaders(probe, monkeypatch)
    if hurt == "links":
        isolate(cluster, 1, 2)
    for node_id in (1, 2):
        machine = cluster.machines[node_id]
        assert machine.process is not None
        if hurt == "stopped":
            cluster.kill(node_id)
        elif hurt == "paused":
            machine.process.busy_until_ms = cluster.heap.now_ms + 3 * limit_ms(cluster)
        elif hurt == "slow":
            machine.process.callback_ms = 0.1
        elif hurt == "full disk":
            machine.disk.capacity = 1_000_000
    cluster.voters_changed = hurt == "voters"
    watch(cluster, probe, 2 * limit_ms(cluster))


def test_slow_links_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = LinkConditions(slow_ms=300.0, slow_probability=0.2)
    cluster = make_cluster(3, **{**PROMPT, "links": slow})
    probe = LeaderProbe(cluster)
    hide_leaders(probe, monkeypatch)
    watch(cluster, probe, 2 * limit_ms(cluster))
