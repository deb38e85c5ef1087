"""The probe says why a voter is not ready."""

from __future__ import annotations

from quorumd.simulator.checkers import ReadyNodesServe
from quorumd.simulator.inspection.readiness_probe import ReadinessProbe
from tests.support.simulator.simulated_cluster import elect, make_cluster, run


def test_first_voter_that_is_not_ready_is_described() -> None:
    cluster = make_cluster(3)
    probe = ReadinessProbe(cluster, ReadyNodesServe((1, 2, 3)))
    elect(cluster)
    run(cluster, 5000.0)
    assert probe.unready([1, 2, 3]) == ""
    cluster.kill(2)
    assert probe.unready([1, 2, 3]) == "node 2 is down"
    cluster.kill(3)
    run(cluster, 10_000.0)
    assert probe.unready([1]).startswith("node 1 is not ready: ")
