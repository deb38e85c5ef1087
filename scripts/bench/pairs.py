"""Committed writes of two clusters of quorumd that are loaded alternately, and the ratio of their rates."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from scripts.bench.quorumd_cluster import QuorumdCluster
from scripts.bench.summary import Run, print_missed, update_json

MAX_CONNECTIONS = 16
VALUE_BYTES = 200


@dataclass(slots=True)
class PairedLevel:
    """Rounds of both clusters, in pairs, at one number of writes in flight."""

    in_flight: int
    first: list[Run] = field(default_factory=list)
    second: list[Run] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """The ratios of the writes per second of the second cluster to the first, in adjacent runs."""
        pairs = zip(self.second, self.first, strict=True)
        return [second.writes_per_second / first.writes_per_second for second, first in pairs]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)


class Comparison(NamedTuple):
    """Two clusters that a part compares."""

    part: str
    title: str
    names: tuple[str, str]
    """The names of the clusters."""
    target: float
    """The least ratio of the second cluster to the first."""


@dataclass(slots=True)
class PairedReport:
    comparison: Comparison
    package: str
    """Description of the measured package."""
    levels: list[PairedLevel]

    def as_json(self) -> dict[str, Any]:
        levels = [asdict(level) | {"ratio": level.ratio} for level in self.levels]
        comparison = self.comparison
        return {
            "quorumd": self.package,
            "names": comparison.names,
            "levels": levels,
            "target": comparison.target,
            "missed": self.missed(),
        }

    def missed(self) -> list[str]:
        """Return a sentence per missed target."""
        (first, second), target = self.comparison.names, self.comparison.target
        return [
            f"{level.in_flight} in flight: {second} has {level.ratio:.2f} x {first}, the target is {target} x"
            for level in self.levels
            if level.ratio < target
        ]

    def write_json(self, path: Path) -> None:
        update_json(path, {self.comparison.part: self.as_json()})

    def print(self, console: Console) -> None:
        table = Table(title=self.comparison.title, box=box.SIMPLE_HEAD)
        first, second = self.comparison.names
        headings = (f"{first}/s", f"{second}/s", "x", "min", "max", f"{first} p99 ms", f"{second} p99 ms")
        for heading in ("in flight", *headings):
            table.add_column(heading, justify="right", no_wrap=True)
        middle = statistics.median
        for level in self.levels:
            table.add_row(
                f"{level.in_flight}",
                f"{middle(run.writes_per_second for run in level.first):,.0f}",
                f"{middle(run.writes_per_second for run in level.second):,.0f}",
                f"{level.ratio:.2f}",
                f"{min(level.ratios):.2f}",
                f"{max(level.ratios):.2f}",
                f"{middle(run.latency.p99_ms for run in level.first):.2f}",
                f"{middle(run.latency.p99_ms for run in level.second):.2f}",
            )
        console.print(table)
        console.print(f"quorumd: {self.package}")
        print_missed(console, self.missed())


Start = Callable[[Path], QuorumdCluster]
"""Starts a cluster in a directory."""


def measure_pairs(
    comparison: Comparison,
    package: str,
    directory: Path,
    start: tuple[Start, Start],
    in_flight: Sequence[int],
    seconds: float,
    rounds: int,
    echo: Callable[[str], None],
) -> PairedReport:
    """Load both clusters alternately. Raises BenchError; all started processes are stopped.

    Each round has new processes, since the speed of the same daemon differs by 5 % from one start to the next.
    """
    levels = [PairedLevel(each) for each in in_flight]
    for turn in range(rounds):
        first = start[0](directory / f"{comparison.names[0]}-{turn + 1}")
        try:
            second = start[1](directory / f"{comparison.names[1]}-{turn + 1}")
            try:
                for level in levels:
                    _run_both(level, (first, second), turn % 2 == 1, seconds)
                    echo(
                        f"round {turn + 1} of {rounds}, {level.in_flight} in flight, writes/s: "
                        f"{comparison.names[0]} {level.first[-1].writes_per_second:,.0f}, "
                        f"{comparison.names[1]} {level.second[-1].writes_per_second:,.0f}"
                    )
                second.check_replicas(VALUE_BYTES)
            finally:
                second.stop()
        finally:
            first.stop()
    return PairedReport(comparison, package, levels)


def _run_both(
    level: PairedLevel, clusters: tuple[QuorumdCluster, QuorumdCluster], is_reversed: bool, seconds: float
) -> None:
    connections = min(level.in_flight, MAX_CONNECTIONS)
    turns = list(zip(clusters, (level.first, level.second), strict=True))
    for cluster, runs in reversed(turns) if is_reversed else turns:
        runs.append(cluster.run(VALUE_BYTES, level.in_flight, connections, seconds))
