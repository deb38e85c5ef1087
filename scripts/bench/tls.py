"""Committed writes of three daemons with mutual TLS between the nodes, and of three daemons without TLS.

Both clusters are loaded in turns, over connections without TLS: only replication is encrypted.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from scripts.bench.pairs import Comparison, PairedReport, measure_pairs
from scripts.bench.quorumd_cluster import QuorumdCluster

IN_FLIGHT = (1, 16, 64)
COMPARISON = Comparison("tls", "Commits of three daemons, nodes with mutual TLS", ("plain", "TLS"), 0.75)


def measure_tls(
    directory: Path, package: str, seconds: float, rounds: int, echo: Callable[[str], None]
) -> PairedReport:
    """Run all measurements. Raises BenchError; all started processes are stopped."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    echo("starting three quorumd daemons without and three with TLS")
    start = (QuorumdCluster, lambda nodes: QuorumdCluster(nodes, is_encrypted=True))
    report = measure_pairs(COMPARISON, package, directory.resolve(), start, IN_FLIGHT, seconds, rounds, echo)
    shutil.rmtree(directory)
    return report
