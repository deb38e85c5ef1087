"""The short form of every benchmark that needs neither etcd nor Java."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.bench.quorumd_cluster import QuorumdCluster

ROOT = Path(__file__).resolve().parents[3]
HANGS_AFTER_S = 1_100
"""Far longer than any part takes, on a machine with other load too."""
PARTS = (
    "simulator",
    "replacement",
    "tls",
    "before",
    "snapshots",
    "kafka-controllers",
    "partitions",
    "million",
    "large-log",
    "soak",
    "brokers",
    "pipeline-decode",
    "pipeline-plan",
)


@pytest.mark.parametrize("part", PARTS)
def test_benchmark_prints_its_figures(part: str) -> None:
    command = [sys.executable, "-m", "scripts.bench", "--short", "--interpreted", "--only", part]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "quorumd: interpreted" in done.stdout
    assert "written to build/bench/short.json" in done.stdout


def test_commit_load_of_quorumd_and_its_check_need_no_etcd(tmp_path: Path) -> None:
    cluster = QuorumdCluster(tmp_path / "quorumd")
    try:
        assert cluster.run(100, 4, 1, 0.2).latency.count
        cluster.check_replicas(100)
    finally:
        cluster.stop()
