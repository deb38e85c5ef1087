"""`quorumd bench` against processes: it survives a change of the leader, and Ctrl-C shows its measurements."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from typing import Any

from quorumd.cli.options import addresses
from quorumd.client.admin import AdminClient
from quorumd.client.load import WARM_UP_S, resource_name
from quorumd.protocol.config_resource_type import ConfigResourceType
from tests.support.processes.daemons import PATIENCE_S, QUICK, Cluster, wait_for
from tests.support.processes.requests import set_register

PROPERTIES = QUICK


def _bench(cluster: Cluster, seconds: int) -> subprocess.Popen[str]:
    """Start a run and wait until it writes."""
    before = cluster.leader_quorum().high_watermark
    words = ["--duration", f"{seconds}s", "--in-flight", "4", "--output", "json"]
    command = [sys.executable, "-m", "quorumd", "bench", "--bootstrap-server", cluster.bootstrap, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for("the load", lambda: cluster.leader_quorum().high_watermark > before + 200)
    return process


def _left_behind(cluster: Cluster) -> list[str]:
    """Resources of the load that still have configs."""

    async def describe() -> list[str]:
        async with AdminClient(addresses(cluster.bootstrap)) as admin:
            names = [resource_name(0, slot) for slot in range(5)]
            return [
                name
                for name in names
                if await admin.describe_configs(ConfigResourceType.CLIENT_METRICS, name)
            ]

    return asyncio.run(describe())


def _outcome(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in err
    (row,) = json.loads(out)
    return process.returncode, row, err


def test_load_continues_when_the_leader_is_killed(own_cluster: Cluster) -> None:
    own_cluster.at_leader(lambda wire: set_register(wire, "bench", "1"))
    process = _bench(own_cluster, 5)
    time.sleep(2 * WARM_UP_S)  # the warm-up is not measured
    own_cluster.leader().kill()
    code, row, _ = _outcome(process)
    assert code == 0
    assert row["writes"] > 200
    assert row["reconnections"] >= 1
    assert row["failed"] <= 4 * (row["reconnections"] + 1)
    assert row["longestPauseMs"] >= 10
    assert _left_behind(own_cluster) == []


def test_interrupted_bench_shows_its_measurements_and_deletes_its_configs(cluster: Cluster) -> None:
    process = _bench(cluster, 1000)
    time.sleep(2 * WARM_UP_S)
    assert _left_behind(cluster) == [f"quorumd-load-0-{slot}" for slot in range(4)]
    process.send_signal(signal.SIGINT)
    code, row, err = _outcome(process)
    assert code == 130
    assert row["seconds"] < 1000
    assert row["writes"] > 0
    assert err.splitlines()[-1] == "error: interrupted"
    assert _left_behind(cluster) == []
