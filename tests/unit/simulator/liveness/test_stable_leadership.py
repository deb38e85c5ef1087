"""When a leader must be there once nothing goes wrong any more."""

import pytest

from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.liveness.stable_leadership import TIMEOUTS_WITHOUT_LEADER, StableLeadership
from tests.support.simulator.simulated_cluster import elect, leader_of, make_cluster, run

PAUSE_MS = 60_000.0


def test_a_majority_that_is_paused_has_as_long_from_when_it_wakes_up() -> None:
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


def replace_leader(cluster: Cluster, calm: StableLeadership) -> None:
    """Cut the leader off until another one leads, and tell `calm` of all that."""
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


def test_a_leader_that_loses_followers_amid_the_calm_should_have_stayed() -> None:
    cluster = make_cluster(voters=3)
    calm = StableLeadership(cluster, [1, 2, 3])
    elect(cluster)
    calm.look()
    run(cluster, 20_000.0)
    with pytest.raises(InvariantViolation, match="a leader reachable by its followers stays leader"):
        replace_leader(cluster, calm)


def test_a_leader_may_lose_followers_whose_connections_hang_since_before_the_calm() -> None:
    """It took office right after the last fault, and resigned before they gave their requests up."""
    cluster = make_cluster(voters=3)
    calm = StableLeadership(cluster, [1, 2, 3])
    first = elect(cluster)
    replace_leader(cluster, calm)
    second = leader_of(cluster)
    assert second is not None
    assert second is not first
