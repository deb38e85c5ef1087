"""Snapshots of real processes: building, start from a snapshot, and deletion of the log below it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.support.processes import full_disk
from tests.support.processes.daemons import Cluster, Daemon, run_quorumd, wait_for
from tests.support.processes.fixtures import running_cluster, without_traceback
from tests.support.processes.requests import get_registers, set_register

EXTRA = (
    "metadata.log.segment.bytes=64KiB\n"
    "metadata.log.max.record.bytes.between.snapshots=100KiB\n"
    "metadata.max.retention.bytes=200KiB\n"
)
VALUE = "x" * 5000
REGISTERS = 200
"""Maximum number of writes of a test before it counts snapshots."""
PATIENT_S = 900.0
"""Timeout for builders, whose low priority gives them little of a busy machine."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Cluster]:
    """A quorum of one voter with a small log."""
    with running_cluster(tmp_path, size=1, extra=EXTRA) as started:
        yield started


def write(daemon: Daemon, first: int, count: int) -> None:
    with daemon.connect() as wire:
        for number in range(first, first + count):
            set_register(wire, f"c{number}", f"{number} {VALUE}")


def configs(daemon: Daemon) -> dict[str, str]:
    with daemon.connect() as wire:
        return get_registers(wire, *(f"c{number}" for number in range(REGISTERS)))


def snapshots(daemon: Daemon) -> list[Path]:
    return sorted(daemon.partition_directory.glob("[0-9]*-[0-9]*.checkpoint"))


def segments(daemon: Daemon) -> list[Path]:
    return sorted(daemon.partition_directory.glob("*.log"))


def builders(daemon: Daemon) -> list[int]:
    """Pids of the node's running builders."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"quorumd.runtime.job_process" in (entry / "cmdline").read_bytes():
                parent = int((entry / "stat").read_text().rpartition(") ")[2].split()[1])
                if parent == daemon.pid:
                    found.append(int(entry.name))
        except OSError:
            continue
    return found


def stopped_builder(daemon: Daemon) -> int:
    """Stop a running builder and return its pid; if it ends before that, wait for the next one."""

    def look() -> int | None:
        for builder in builders(daemon):
            os.kill(builder, signal.SIGSTOP)
            return builder
        if snapshots(daemon):
            write(daemon, 0, 1)
        return None

    return wait_for("a builder", look, PATIENT_S)


def test_log_stays_small_and_a_restart_keeps_all_metadata(node: Cluster) -> None:
    daemon = node[1]
    write(daemon, 0, 60)
    wait_for("a snapshot", lambda: snapshots(daemon), PATIENT_S)
    write(daemon, 60, 60)
    first = segments(daemon)[0]
    wait_for("the deletion of the first segment", lambda: not first.exists(), PATIENT_S)
    before = configs(daemon)
    assert before == {f"c{number}": f"{number} {VALUE}" for number in range(120)}
    daemon.kill()
    assert segments(daemon)[0].name > f"{0:020d}.log"
    types = [record["type"] for record in records_in(snapshots(daemon)[-1])]
    assert types[0] == "SnapshotHeaderRecord"
    assert types[-1] == "SnapshotFooterRecord"
    assert types.count("ConfigRecord") >= 20
    daemon.start()
    node.leader()
    assert configs(daemon) == before
    write(daemon, 200, 1)


def test_snapshot_on_demand_next_to_a_running_node(node: Cluster) -> None:
    daemon = node[1]
    write(daemon, 0, 5)
    result = wait_for("a snapshot", lambda: _built_on_demand(daemon), PATIENT_S)
    assert Path(result["path"]).stat().st_size == result["size"]
    metrics = f"quorumd_snapshot_end_offset {float(result['endOffset'])}"
    wait_for("the node to find the snapshot", lambda: metrics in _metrics(daemon))


def _built_on_demand(daemon: Daemon) -> dict[str, object] | None:
    """Build a snapshot on demand; None until the node's files record the commit of the five writes."""
    done = run_quorumd("snapshot", "--config", daemon.config, "--output", "json", timeout=PATIENT_S)
    built = json.loads(done.stdout) if done.returncode == 0 else None
    if built is None or len([record for record in records_in(Path(built["path"])) if _written(record)]) < 5:
        return None
    return built


def records_in(snapshot: Path) -> list[dict[str, Any]]:
    dumped = run_quorumd("log", "dump", "--output", "json", snapshot)
    assert dumped.returncode == 0, dumped.stderr
    return [record for row in json.loads(dumped.stdout) for record in row.get("records", ())]


def _written(record: dict[str, Any]) -> bool:
    return record["type"] == "ConfigRecord" and record["data"]["name"] == "metrics"


def _metrics(daemon: Daemon) -> str:
    with urlopen(f"http://127.0.0.1:{daemon.http_port}/metrics", timeout=PATIENT_S) as response:
        text: str = response.read().decode()
        return text


def test_killed_builder_costs_only_its_snapshot(node: Cluster) -> None:
    daemon = node[1]
    write(daemon, 0, 60)
    builder = stopped_builder(daemon)
    os.kill(builder, signal.SIGKILL)
    wait_for("the failure in the log", lambda: "no snapshot was built" in daemon.log_text())
    assert "signal 9" in daemon.log_text()
    wait_for("the removal of its files", lambda: not list(daemon.partition_directory.glob("*.building")))
    write(daemon, 60, 1)
    assert "quorumd_snapshot_build_failures_total 1.0" in _metrics(daemon)
    wait_for("the next attempt", lambda: snapshots(daemon), PATIENT_S)


def test_builder_ends_with_its_node(node: Cluster) -> None:
    daemon = node[1]
    write(daemon, 0, 60)
    builder = stopped_builder(daemon)
    daemon.kill()
    os.kill(builder, signal.SIGCONT)
    wait_for("the builder to end", lambda: not Path(f"/proc/{builder}").exists(), PATIENT_S)
    daemon.start()
    node.leader()
    assert len(configs(daemon)) == 60


def test_full_disk_delays_the_snapshot(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, size=1, extra=EXTRA)
    daemon = cluster[1]
    full = daemon.config.with_name("full")
    shim = str(Path(next(iter(full_disk.__path__))))
    try:
        daemon.start({"PYTHONPATH": shim, "FULL_DISK_WHILE_EXISTS": str(full)})
        cluster.leader()
        with without_traceback(cluster):
            write(daemon, 0, 60)
            full.touch()
            wait_for(
                "the failure in the log", lambda: "disk full: the snapshot" in daemon.log_text(), PATIENT_S
            )
            assert snapshots(daemon) == []
            full.unlink()
            wait_for("the next attempt", lambda: snapshots(daemon), PATIENT_S)
            assert len(configs(daemon)) == 60
    finally:
        cluster.stop()


def test_damaged_snapshot_is_quarantined_at_the_start(node: Cluster) -> None:
    daemon = node[1]
    write(daemon, 0, 60)
    newest = wait_for("a snapshot", lambda: snapshots(daemon), PATIENT_S)[-1]
    daemon.kill()
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    daemon.start()
    node.leader()
    assert len(configs(daemon)) == 60
    assert f"{newest.name}.corrupt" in daemon.log_text()
    assert newest.with_name(newest.name + ".corrupt").exists()
