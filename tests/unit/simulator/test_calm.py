"""When a leader must be there once nothing goes wrong any more."""

import pytest

from quorumd.simulator.calm import TIMEOUTS_WITHOUT_LEADER, CalmLeadership
from quorumd.simulator.checkers import Broken
from tests.support.simulated_cluster import make_cluster, run

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
    calm = CalmLeadership(cluster, [1, 2, 3])
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
    with pytest.raises(Broken, match="nobody of"):
        calm.look()
