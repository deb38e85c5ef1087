"""A leader that is paused, stopped gracefully, or lost together with everybody else."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.daemons import FETCH_TIMEOUT_MS, Cluster, wait_for
from tests.support.log_files import bytes_below
from tests.support.requests import Refused, get_configs, set_config
from tests.support.wire import Wire
from tests.support.workload import Workload, lost_writes


def test_paused_leader_answers_nothing_stale_when_it_wakes(cluster: Cluster) -> None:
    """SIGSTOP: the others elect; what was asked of the paused one is answered right, or not at all."""
    old = cluster.leader()
    with old.connect() as wire:
        set_config(wire, "paused", "value", "before")
    reader, writer = old.connect(), old.connect()
    with reader, writer:
        get_configs(reader, "paused")
        old.signal(signal.SIGSTOP)
        new = cluster.leader(besides=old.node_id)
        with new.connect() as wire:
            set_config(wire, "paused", "value", "while it slept")

        wakes_at = time.monotonic() + 0.3
        threading.Timer(0.3, os.kill, (old.pid, signal.SIGCONT)).start()
        answer = _outcome(lambda: get_configs(reader, "paused")["value"])
        assert time.monotonic() >= wakes_at, "answered while it was stopped"
        assert answer in ("while it slept", "refused", "closed")

        written = _outcome(lambda: set_config(writer, "paused", "value", "by the one that woke"))
    high_watermark = cluster.wait_until_level()
    with cluster.leader().connect() as wire:
        value = get_configs(wire, "paused")["value"]
    if written is None:
        assert value == "by the one that woke", "acknowledged, and not there"
    assert len({bytes_below(daemon.log_folder, high_watermark) for daemon in cluster}) == 1


def test_leader_paused_under_load_loses_nothing(cluster: Cluster) -> None:
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
        assert lost_writes(load, daemon.log_folder, high_watermark) == {}


def test_graceful_stop_hands_over_without_waiting_for_a_timeout(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
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
    with capsys.disabled():
        print(f"\nhanded over in {took:.3f} s")
    # A follower that noticed by itself would wait for its whole fetch timeout.
    assert took < FETCH_TIMEOUT_MS / 1000
    high_watermark = cluster.leader().asked().high_watermark
    for daemon in cluster.others(old):
        assert lost_writes(load, daemon.log_folder, high_watermark) == {}


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
        wait_for("writes to flow after all", lambda: load.acknowledged > before + 100)
    high_watermark = cluster.wait_until_level()
    for daemon in cluster:
        assert lost_writes(load, daemon.log_folder, high_watermark) == {}
    with Wire(cluster[1].address) as wire:
        for writer in load.writers:
            value = int(get_configs(wire, writer.name)["value"])
            assert value not in writer.acknowledged[:-1], "an older acknowledged write hides the newest one"


def _outcome(call: Callable[[], Any]) -> Any:
    """What a call returned, or how it failed."""
    try:
        return call()
    except Refused:
        return "refused"
    except OSError:
        return "closed"
