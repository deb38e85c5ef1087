"""A leader that is paused, shut down gracefully, or killed together with all other nodes."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.log.log_files import bytes_below
from tests.support.processes.daemons import QUICK, Cluster, wait_for
from tests.support.processes.fixtures import running_cluster
from tests.support.processes.requests import Refused, get_registers, set_register
from tests.support.processes.workload import Workload, lost_writes

PROPERTIES = QUICK


def test_resumed_leader_serves_no_stale_reads(cluster: Cluster) -> None:
    """After SIGSTOP the others elect a leader; requests to the paused one succeed correctly or fail."""
    cluster.at_leader(lambda wire: set_register(wire, "paused", "before"))
    old = cluster.leader()
    reader, writer = old.connect(), old.connect()
    with reader, writer:
        get_registers(reader, "paused")
        old.signal(signal.SIGSTOP)
        cluster.leader(besides=old.node_id)
        cluster.at_leader(lambda wire: set_register(wire, "paused", "while it slept"))

        wakes = threading.Event()

        def wake() -> None:
            wakes.set()
            old.signal(signal.SIGCONT)

        threading.Timer(0.3, wake).start()
        response = _outcome(lambda: get_registers(reader, "paused")["paused"])
        assert wakes.is_set(), "response of a stopped process"
        assert response in ("while it slept", "refused", "closed")

        written = _outcome(lambda: set_register(writer, "paused", "by the resumed node"))
    high_watermark = cluster.wait_until_level()
    value = cluster.at_leader(lambda wire: get_registers(wire, "paused"))["paused"]
    if written is None:
        assert value == "by the resumed node", "acknowledged, but lost"
    assert len({bytes_below(daemon.partition_directory, high_watermark) for daemon in cluster}) == 1


def test_leader_paused_under_load_loses_no_acknowledged_write(cluster: Cluster) -> None:
    with Workload(cluster.addresses) as load:
        wait_for("writes to flow", lambda: load.acknowledged > 100)
        old = cluster.leader()
        old.signal(signal.SIGSTOP)
        cluster.leader(besides=old.node_id)
        before = load.acknowledged
        wait_for("writes to flow again", lambda: load.acknowledged > before + 100)
        old.signal(signal.SIGCONT)
        before = load.acknowledged
        wait_for("writes to go on", lambda: load.acknowledged > before + 100)
    high_watermark = cluster.wait_until_level()
    for daemon in cluster:
        assert lost_writes(load, daemon.partition_directory, high_watermark) == {}


def test_graceful_stop_hands_over_without_waiting_for_a_timeout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the handover a follower would wait for its fetch timeout, which is longer than the test."""
    forever = "quorum.fetch.timeout.ms=1h\nconnections.max.idle.ms=2h\n"
    with running_cluster(tmp_path, extra=forever) as cluster:
        with Workload(cluster.addresses) as load:
            wait_for("writes to flow", lambda: load.acknowledged > 100)
            old = cluster.leader()
            stopped_at = time.monotonic()
            old.signal(signal.SIGTERM)
            cluster.leader(besides=old.node_id)
            took = time.monotonic() - stopped_at
            assert old.wait() == 0
            before = load.acknowledged
            wait_for("writes to go on", lambda: load.acknowledged > before + 100)
        high_watermark = cluster.leader_quorum().high_watermark
        for daemon in cluster.others(old):
            assert lost_writes(load, daemon.partition_directory, high_watermark) == {}
    with capsys.disabled():
        print(f"\nhanded over in {took:.3f} s")


def test_all_killed_at_once_keep_every_acknowledged_write(cluster: Cluster) -> None:
    with Workload(cluster.addresses) as load:
        for _ in range(2):
            before = load.acknowledged
            wait_for("writes to flow", lambda before=before: load.acknowledged > before + 200)
            for daemon in cluster:
                daemon.signal(signal.SIGKILL)
            for daemon in cluster:
                daemon.wait()
            cluster.start()
        before = load.acknowledged
        wait_for("writes to flow again", lambda: load.acknowledged > before + 100)
    high_watermark = cluster.wait_until_level()
    for daemon in cluster:
        assert lost_writes(load, daemon.partition_directory, high_watermark) == {}
    for writer in load.writers:
        values = cluster.at_leader(lambda wire, name=writer.name: get_registers(wire, name))
        value = int(values[writer.name])
        assert value not in writer.acknowledged[:-1], "an older acknowledged write hides the newest one"


def _outcome(call: Callable[[], Any]) -> Any:
    """The result of a call, or the kind of its failure."""
    try:
        return call()
    except Refused:
        return "refused"
    except OSError:
        return "closed"
