"""What the next process on a machine must find, whatever became of the one before."""

from __future__ import annotations

from contextlib import suppress

from quorumd.simulator.disk import PowerLost
from tests.support.simulated_cluster import elect, make_cluster, run


def test_a_process_that_ends_while_it_starts_leaves_what_it_was_to_find() -> None:
    cluster = make_cluster(voters=1)
    machine = elect(cluster)
    cluster.kill(machine.node_id)
    before = list(machine.kept)
    assert before
    machine.unlucky_calls = 1
    with suppress(PowerLost):
        cluster.boot(machine.node_id)
    run(cluster, 10_000.0, lambda: cluster.counters["power losses"] > 0)
    assert cluster.counters["power losses"] == 1
    assert machine.kept  # the first batches were synced long ago
    assert machine.kept == before[: len(machine.kept)]
