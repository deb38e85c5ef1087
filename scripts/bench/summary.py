"""Results of commit measurements: values, ratios, targets, tables and JSON."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

RATIO_TARGETS = {1: 1.2, 64: 2.0, 256: 2.0}
"""The target ratio of quorumd's committed writes per second to etcd's, by writes in flight."""
MEMORY_TARGET_MIB = 60.0
COLD_START_TARGET_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Latencies in milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, samples_ms: list[float]) -> Latency:
        ordered = sorted(samples_ms)
        if not ordered:
            return cls(0, 0.0, 0.0)
        last = len(ordered) - 1
        return cls(len(ordered), ordered[last // 2], ordered[round(last * 0.99)])


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a system under load. Every counted write is committed."""

    writes_per_second: float
    latency: Latency
    connections: int


@dataclass(slots=True)
class Level:
    """Rounds of both systems, in pairs, at one number of writes in flight."""

    in_flight: int
    etcd: list[Run] = field(default_factory=list)
    quorumd: list[Run] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """The ratio of quorumd to etcd per pair of adjacent runs; other load affects both runs of a pair."""
        return [
            ours.writes_per_second / theirs.writes_per_second
            for ours, theirs in zip(self.quorumd, self.etcd, strict=True)
        ]

    @property
    def target(self) -> float | None:
        return RATIO_TARGETS.get(self.in_flight)

    def as_json(self) -> dict[str, Any]:
        ratios = self.ratios
        return {
            "in_flight": self.in_flight,
            "etcd": _runs_as_json(self.etcd),
            "quorumd": _runs_as_json(self.quorumd),
            "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
            "target": self.target,
        }


@dataclass(slots=True)
class Report:
    machine: dict[str, Any]
    package: str
    """Description of the measured package, compiled or interpreted."""
    disk: Latency
    levels: list[Level]
    memory_mib: dict[str, float]
    cold_start_seconds: list[float]

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "quorumd": self.package,
            "fdatasync": asdict(self.disk),
            "levels": [level.as_json() for level in self.levels],
            "resident_mib": self.memory_mib,
            "cold_start_seconds": self.cold_start_seconds,
            "missed": self.missed(),
        }

    def missed(self) -> list[str]:
        """Return a sentence per missed target."""
        sentences = []
        for level in self.levels:
            ratio = statistics.median(level.ratios)
            if level.target is not None and ratio < level.target:
                sentences.append(
                    f"{level.in_flight} in flight: {ratio:.2f} x etcd, the target is {level.target} x"
                )
        largest = max(self.memory_mib.values())
        if largest > MEMORY_TARGET_MIB:
            sentences.append(f"a daemon uses {largest:.1f} MiB, the target is {MEMORY_TARGET_MIB:.0f} MiB")
        start = statistics.median(self.cold_start_seconds)
        if start > COLD_START_TARGET_SECONDS:
            sentences.append(
                f"cold start takes {start:.2f} s, the target is {COLD_START_TARGET_SECONDS:.0f} s"
            )
        return sentences

    def write_json(self, path: Path) -> None:
        update_json(path, self.as_json())

    def print(self, console: Console) -> None:
        title = "Committed writes of 200 bytes, three nodes on loopback, median of the rounds"
        table = Table(title=title, box=box.SIMPLE_HEAD)
        headings = ["in flight"]
        for system in ("etcd", "quorumd"):
            headings += [f"{system}\nwrites/s", "\np50 ms", "\np99 ms"]
        for heading in (*headings, "ratio\n(min to max)", "target"):
            table.add_column(heading, justify="right", no_wrap=True)
        for level in self.levels:
            ratios = level.ratios
            table.add_row(
                str(level.in_flight),
                *_cells(level.etcd),
                *_cells(level.quorumd),
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
                "" if level.target is None else f"{level.target}",
            )
        console.print(table)
        console.print(f"quorumd: {self.package}")
        disk = self.disk
        console.print(
            f"bare disk: fdatasync of a 250-byte append p50 {disk.p50_ms:.3f} ms, p99 {disk.p99_ms:.3f} ms"
        )
        memory = ", ".join(f"{name} {mib:.1f}" for name, mib in self.memory_mib.items())
        console.print(f"resident memory after the run, MiB: {memory} (target {MEMORY_TARGET_MIB:.0f})")
        starts = ", ".join(f"{seconds:.2f}" for seconds in self.cold_start_seconds)
        console.print(f"cold start to the first commit, s: {starts} (target {COLD_START_TARGET_SECONDS:.0f})")
        print_missed(console, self.missed())


def print_missed(console: Console, missed: list[str]) -> None:
    """Print the missed targets, one sentence each, or that all targets were reached."""
    for sentence in missed:
        console.print(f"[red]missed[/red]: {sentence}")
    if not missed:
        console.print("[green]every target reached[/green]")


def update_json(path: Path, values: dict[str, Any]) -> None:
    """Update the JSON object in a file, keeping its other keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(stored | values, indent=2) + "\n")


def _medians(runs: list[Run]) -> tuple[float, float, float]:
    return (
        statistics.median(run.writes_per_second for run in runs),
        statistics.median(run.latency.p50_ms for run in runs),
        statistics.median(run.latency.p99_ms for run in runs),
    )


def _cells(runs: list[Run]) -> tuple[str, str, str]:
    writes, p50, p99 = _medians(runs)
    return f"{writes:,.0f}", f"{p50:.2f}", f"{p99:.2f}"


def _runs_as_json(runs: list[Run]) -> dict[str, Any]:
    writes, p50, p99 = _medians(runs)
    return {
        "writes_per_second": writes,
        "p50_ms": p50,
        "p99_ms": p99,
        "min_writes_per_second": min(run.writes_per_second for run in runs),
        "max_writes_per_second": max(run.writes_per_second for run in runs),
        "rounds": [asdict(run) for run in runs],
    }
