"""The deadline for a stable leader once faults have ended."""

import pytest

from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.liveness.stable_leadership import TIMEOUTS_WITHOUT_LEADER, StableLeadership
from tests.support.simulator.simulated_cluster import elect, leader_of, make_cluster, run

PAUSE_MS = 60_000.0


def test_deadline_of_a_paused_majority_starts_when_it_resumes() -> None:
    cluster = make_cluster(voters=3)
    run(cluster, 1.0)
    options = cluster.options
    patience_ms = TIMEOUTS_WITHOUT_LEADER * (options.election_timeout_ms + options.fetch_timeout_ms)
    wakes_up_ms = cluster.heap.now_ms + PAUSE_MS
    assert patience_ms < PAUSE_MS
    for node_id in (1, 2):
        process = cluster.machines[node_id].process
        assert process is not None
        process.busy_until_ms = wakes_up_ms
    calm = StableLeadership(cluster, [1, 2, 3])
    run(cluster, PAUSE_MS - 1.0)
    calm.look()
    # And they have no luck after that either.
    for node_id in (1, 2):
        process = cluster.machines[node_id].process
        assert process is not None
        process.busy_until_ms = wakes_up_ms + 2 * PAUSE_MS
    run(cluster, patience_ms - 100.0)
    calm.look()
    run(cluster, 200.0)
    with pytest.raises(InvariantViolation, match="none of nodes"):
        calm.look()


def test_deadline_of_a_majority_whose_disks_stall_starts_when_they_work_again() -> None:
    cluster = make_cluster(voters=3)
    run(cluster, 1.0)
    for node_id in (1, 2):
        cluster.machines[node_id].disk.stall(PAUSE_MS)
    calm = StableLeadership(cluster, [1, 2, 3])
    run(cluster, PAUSE_MS - 1.0)
    assert leader_of(cluster) is None
    calm.look()


def replace_leader(cluster: Cluster, calm: StableLeadership) -> None:
    """Isolate the leader until another one leads, observed by `calm`."""
    first = leader_of(cluster)
    assert first is not None
    calm.look()
    ways = [(first.host, other.host) for other in cluster.machines.values() if other is not first]
    for source, target in ways:
        cluster.network.block(source, target)
        cluster.network.block(target, source)
    run(cluster, 20_000.0, lambda: first.node is not None and not first.node.engine.is_leader)
    calm.look()
    cluster.network.heal()
    elect(cluster)
    calm.look()


def test_leader_replaced_without_faults_is_reported() -> None:
    cluster = make_cluster(voters=3)
    calm = StableLeadership(cluster, [1, 2, 3])
    elect(cluster)
    calm.look()
    run(cluster, 20_000.0)
    with pytest.raises(InvariantViolation, match="stays leader"):
        replace_leader(cluster, calm)


def test_leader_may_be_replaced_after_connections_that_hang_since_a_fault() -> None:
    """It was elected right after the last fault, and resigned before their requests timed out."""
    cluster = make_cluster(voters=3)
    calm = StableLeadership(cluster, [1, 2, 3])
    first = elect(cluster)
    replace_leader(cluster, calm)
    second = leader_of(cluster)
    assert second is not None
    assert second is not first
