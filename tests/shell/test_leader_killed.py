"""Repeated kill -9 of the leader under write load."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise

import pytest

from tests.support.log.log_files import bytes_below
from tests.support.processes.daemons import Cluster, Daemon, wait_for
from tests.support.processes.workload import Workload, lost_writes

KILLS = 20
# Longer than the test: no election is caused by a fetch timeout.
PROPERTIES = "quorum.fetch.timeout.ms=1h\nconnections.max.idle.ms=2h\n"


def test_no_acknowledged_write_is_lost_when_leaders_are_killed(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    elections: list[float] = []
    gaps: list[float] = []
    epochs = [cluster.leader_quorum().epoch]
    with Workload(cluster.addresses) as load:
        for _ in range(KILLS):
            before = load.acknowledged
            wait_for("writes to flow", lambda before=before: load.acknowledged > before + 50)
            old = cluster.leader()
            old.kill()
            killed_at = time.monotonic()
            cluster.leader(besides=old.node_id)
            elections.append(time.monotonic() - killed_at)
            acknowledged_at = wait_for(
                "a write to be acknowledged", lambda at=killed_at: load.first_acknowledged_after(at)
            )
            gaps.append(acknowledged_at - killed_at)
            old.start()
            _wait_until_it_follows(cluster, old)
            epochs.append(cluster.leader_quorum().epoch)

    high_watermark = cluster.wait_until_level()
    for daemon in cluster:
        assert lost_writes(load, daemon.partition_directory, high_watermark) == {}
    logs = {bytes_below(daemon.partition_directory, high_watermark) for daemon in cluster}
    assert len(logs) == 1, "the logs differ below the high watermark"

    with capsys.disabled():
        print(f"\n{KILLS} leaders killed under load, {load.acknowledged} writes acknowledged, none lost")
        print(f"new leader after median {statistics.median(elections):.3f} s, max {max(elections):.3f} s")
        print(f"next acknowledged write after median {statistics.median(gaps):.3f} s, max {max(gaps):.3f} s")
    # Each epoch costs at most one election timeout.
    assert statistics.median(after - before for before, after in pairwise(epochs)) <= 2, epochs


def _wait_until_it_follows(cluster: Cluster, daemon: Daemon) -> None:
    """Wait until the daemon has all records that the leader has committed now."""
    high_watermark = cluster.leader_quorum().high_watermark

    def caught_up() -> bool:
        return cluster.leader_quorum().voters.get(daemon.node_id, -1) >= high_watermark

    wait_for(f"node {daemon.node_id} to catch up", caught_up)
