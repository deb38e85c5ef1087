"""Committed writes of three daemons whose nodes speak mutual TLS to each other, beside the same daemons without.

Both clusters stay up and are loaded in turns, over connections without TLS: only replication is encrypted.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from scripts.bench.quorumd_cluster import QuorumdCluster
from scripts.bench.summary import Run, print_missed, update_json

IN_FLIGHT = (1, 16, 64)
MAX_CONNECTIONS = 16
VALUE_BYTES = 200
TARGET = 0.75
"""Writes per second with TLS by those without."""


@dataclass(slots=True)
class TlsLevel:
    """Rounds of both clusters, in pairs, at one number of writes in flight."""

    in_flight: int
    plain: list[Run] = field(default_factory=list)
    encrypted: list[Run] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median of the ratios of adjacent runs."""
        pairs = zip(self.encrypted, self.plain, strict=True)
        return statistics.median(ours.writes_per_second / theirs.writes_per_second for ours, theirs in pairs)


@dataclass(slots=True)
class TlsReport:
    package: str
    """Description of the measured package."""
    levels: list[TlsLevel]

    def as_json(self) -> dict[str, Any]:
        levels = [asdict(level) | {"ratio": level.ratio} for level in self.levels]
        return {"quorumd": self.package, "levels": levels, "target": TARGET, "missed": self.missed()}

    def missed(self) -> list[str]:
        """One sentence per missed target."""
        return [
            f"{level.in_flight} in flight: {level.ratio:.2f} x without TLS, the target is {TARGET} x"
            for level in self.levels
            if level.ratio < TARGET
        ]

    def write_json(self, path: Path) -> None:
        update_json(path, {"tls": self.as_json()})

    def print(self, console: Console) -> None:
        table = Table(title="Commits of three daemons, nodes with mutual TLS", box=box.SIMPLE_HEAD)
        for heading in ("in flight", "plain/s", "TLS/s", "x", "plain p99 ms", "TLS p99 ms"):
            table.add_column(heading, justify="right", no_wrap=True)
        middle = statistics.median
        for level in self.levels:
            table.add_row(
                f"{level.in_flight}",
                f"{middle(run.writes_per_second for run in level.plain):,.0f}",
                f"{middle(run.writes_per_second for run in level.encrypted):,.0f}",
                f"{level.ratio:.2f}",
                f"{middle(run.latency.p99_ms for run in level.plain):.2f}",
                f"{middle(run.latency.p99_ms for run in level.encrypted):.2f}",
            )
        console.print(table)
        console.print(f"quorumd: {self.package}")
        print_missed(console, self.missed())


def measure_tls(
    directory: Path, package: str, seconds: float, rounds: int, echo: Callable[[str], None]
) -> TlsReport:
    """Run all measurements. Raises BenchError; all started processes are stopped."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    echo("starting three quorumd daemons without and three with TLS")
    plain = QuorumdCluster(directory.resolve() / "plain")
    try:
        encrypted = QuorumdCluster(directory.resolve() / "tls", is_encrypted=True)
        try:
            levels = [_level(plain, encrypted, each, seconds, rounds, echo) for each in IN_FLIGHT]
            encrypted.check_replicas(VALUE_BYTES)
        finally:
            encrypted.stop()
    finally:
        plain.stop()
    shutil.rmtree(directory)
    return TlsReport(package, levels)


def _level(
    plain: QuorumdCluster,
    encrypted: QuorumdCluster,
    in_flight: int,
    seconds: float,
    rounds: int,
    echo: Callable[[str], None],
) -> TlsLevel:
    level, connections = TlsLevel(in_flight), min(in_flight, MAX_CONNECTIONS)
    for turn in range(rounds):
        level.plain.append(plain.run(VALUE_BYTES, in_flight, connections, seconds))
        level.encrypted.append(encrypted.run(VALUE_BYTES, in_flight, connections, seconds))
        rates = level.plain[-1].writes_per_second, level.encrypted[-1].writes_per_second
        echo(
            f"{in_flight} in flight, round {turn + 1} of {rounds}, writes/s: "
            f"plain {rates[0]:,.0f}, TLS {rates[1]:,.0f}"
        )
    return level
