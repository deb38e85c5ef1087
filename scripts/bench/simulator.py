"""Speed of the simulator: five voters under load, all invariants checked, one process with one thread.

Targets use CPU time; wall-clock time depends on other load of the machine. `reference_ns` measures the speed of
Python on the machine in each round.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from scripts.bench.processes import BenchError
from scripts.bench.summary import update_json

PROGRAM = Path(__file__).with_name("simulate_load.py")
SPEED_TARGET = 20.0
"""Virtual seconds per second of CPU time."""


@dataclass(frozen=True, slots=True)
class Load:
    """A load: clients with pauses of at most `think_ms`, and the seeds of one round."""

    name: str
    clients: int
    think_ms: tuple[float, float]
    faults: bool
    safety_ms: float
    """Virtual time of one seed before the liveness phase."""
    seeds: int
    target: float | None = None


USUAL = (3, (5.0, 80.0))
"""The load of a seed whose options are not drawn (`WorkloadOptions`)."""
BUSY = (6, (2.0, 8.0))
HEAVY = (16, (0.5, 2.0))
LOADS = (
    Load("usual", *USUAL, faults=False, safety_ms=30_000.0, seeds=1, target=SPEED_TARGET),
    Load("usual", *USUAL, faults=True, safety_ms=15_000.0, seeds=2, target=SPEED_TARGET),
    Load("busy", *BUSY, faults=False, safety_ms=10_000.0, seeds=1),
    Load("busy", *BUSY, faults=True, safety_ms=5_000.0, seeds=2),
    Load("heavy", *HEAVY, faults=False, safety_ms=5_000.0, seeds=1),
    Load("heavy", *HEAVY, faults=True, safety_ms=2_500.0, seeds=2),
)


@dataclass(frozen=True, slots=True)
class Round:
    """The output of `simulate_load`."""

    cpu_seconds: float
    wall_seconds: float
    virtual_seconds: float
    events: int
    writes: int
    """The number of acknowledged writes."""
    operations: int
    reference_ns: float

    @property
    def speed(self) -> float:
        """Virtual seconds per second of CPU time."""
        return self.virtual_seconds / self.cpu_seconds


@dataclass(slots=True)
class LoadResult:
    """The results of one load. Every round simulates the same seeds, so that only times differ."""

    load: Load
    rounds: list[Round] = field(default_factory=list)

    @property
    def speed(self) -> float:
        return statistics.median(each.speed for each in self.rounds)

    @property
    def wall_speed(self) -> float:
        return statistics.median(each.virtual_seconds / each.wall_seconds for each in self.rounds)

    @property
    def events_per_second(self) -> float:
        """Simulated events per second of CPU time."""
        return statistics.median(each.events / each.cpu_seconds for each in self.rounds)

    @property
    def writes_per_second(self) -> float:
        """Acknowledged writes per virtual second."""
        return self.rounds[0].writes / self.rounds[0].virtual_seconds

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self.load),
            "writes_per_virtual_second": self.writes_per_second,
            "times_real_time": self.speed,
            "times_real_time_by_wall_clock": self.wall_speed,
            "events_per_cpu_second": self.events_per_second,
            "microseconds_per_event": 1e6 / self.events_per_second,
            "rounds": [asdict(each) for each in self.rounds],
        }


@dataclass(slots=True)
class SimulatorReport:
    package: str
    """Description of the measured package."""
    results: list[LoadResult]

    def as_json(self) -> dict[str, Any]:
        return {
            "quorumd": self.package,
            "loads": [result.as_json() for result in self.results],
            "missed": self.missed(),
        }

    def missed(self) -> list[str]:
        """Return a sentence per missed target."""
        return [
            f"simulator, {result.load.name} load{' and faults' if result.load.faults else ''}: {result.speed:.1f} x "
            f"real time, the target is {result.load.target:.0f} x"
            for result in self.results
            if result.load.target is not None and result.speed < result.load.target
        ]

    def write_json(self, path: Path) -> None:
        update_json(path, {"simulator": self.as_json()})

    def print(self, console: Console) -> None:
        title = "Simulator, five voters, every invariant checked, one core, median of the rounds"
        table = Table(title=title, box=box.SIMPLE_HEAD)
        headings = ("load", "writes per\nvirtual s", "x real time\n(min to max)", "by wall\nclock",
                    "events per\nCPU s", "µs per\nevent", "target")  # fmt: skip
        for heading in headings:
            table.add_column(heading, justify="left" if heading == "load" else "right", no_wrap=True)
        for result in self.results:
            load, speeds = result.load, [each.speed for each in result.rounds]
            table.add_row(
                f"{load.name}, all faults" if load.faults else load.name,
                f"{result.writes_per_second:,.0f}",
                f"{result.speed:.1f} ({min(speeds):.1f} to {max(speeds):.1f})",
                f"{result.wall_speed:.1f}",
                f"{result.events_per_second:,.0f}",
                f"{1e6 / result.events_per_second:.1f}",
                "" if load.target is None else f"{load.target:.0f}",
            )
        console.print(table)
        for name, (clients, (shortest, longest)) in (("usual", USUAL), ("busy", BUSY), ("heavy", HEAVY)):
            console.print(
                f"{name}: {clients} clients that pause {shortest:g} to {longest:g} ms between operations"
            )
        reference = statistics.median(each.reference_ns for result in self.results for each in result.rounds)
        console.print(f"quorumd: {self.package}; one turn of an empty Python loop took {reference:.0f} ns")
        for sentence in self.missed():
            console.print(f"[red]missed[/red]: {sentence}")


def measure_simulator(
    package: str, rounds: int, echo: Callable[[str], None], loads: Sequence[Load] = LOADS
) -> SimulatorReport:
    """Run all loads `rounds` times, one after the other. Raises BenchError."""
    results = [LoadResult(load) for load in loads]
    for turn in range(rounds):
        for result in results:
            result.rounds.append(simulate(result.load))
        speeds = ", ".join(f"{result.rounds[-1].speed:.1f}" for result in results)
        echo(f"simulator, round {turn + 1} of {rounds}, x real time: {speeds}")
    return SimulatorReport(package, results)


def simulate(load: Load) -> Round:
    """Run one round in a separate process. Raises BenchError with its output if it fails."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(asdict(load))], capture_output=True, text=True
    )
    if done.returncode:
        raise BenchError(f"the simulation of the {load.name} load failed: {done.stderr.strip()}")
    return Round(**json.loads(done.stdout))
