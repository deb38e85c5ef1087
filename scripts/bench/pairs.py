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


def measure_pairs(
    comparison: Comparison,
    package: str,
    start: tuple[Callable[[], QuorumdCluster], Callable[[], QuorumdCluster]],
    in_flight: Sequence[int],
    seconds: float,
    rounds: int,
    echo: Callable[[str], None],
) -> PairedReport:
    """Start both clusters and load them alternately. Raises BenchError; all started processes are stopped."""
    first = start[0]()
    try:
        second = start[1]()
        try:
            levels = [
                _level(comparison.names, first, second, each, seconds, rounds, echo) for each in in_flight
            ]
            second.check_replicas(VALUE_BYTES)
        finally:
            second.stop()
    finally:
        first.stop()
    return PairedReport(comparison, package, levels)


def _level(
    names: tuple[str, str],
    first: QuorumdCluster,
    second: QuorumdCluster,
    in_flight: int,
    seconds: float,
    rounds: int,
    echo: Callable[[str], None],
) -> PairedLevel:
    level, connections = PairedLevel(in_flight), min(in_flight, MAX_CONNECTIONS)
    turns = ((first, level.first), (second, level.second))
    for turn in range(rounds):
        for cluster, runs in turns if turn % 2 == 0 else turns[::-1]:
            runs.append(cluster.run(VALUE_BYTES, in_flight, connections, seconds))
        echo(
            f"{in_flight} in flight, round {turn + 1} of {rounds}, writes/s: "
            f"{names[0]} {level.first[-1].writes_per_second:,.0f}, "
            f"{names[1]} {level.second[-1].writes_per_second:,.0f}"
        )
    return level
