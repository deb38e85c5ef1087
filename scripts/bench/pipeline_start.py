"""Time to the first result of a data pipeline command, with and without the archive of `quorumd pipeline warm`: an
audit of a small log, from the start of the process to its end.

Both run in turns, each in new processes. The wall-clock time is the best of several runs; the CPU time of all
processes shows the effect of the archive on a busy machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from scripts.bench.pipeline_commands import Cost, measure
from scripts.bench.summary import print_missed, update_json
from scripts.log_generator import LogShape, generate

RECORDS = 20_000
ROUNDS = 3
FIRST_RESULT_TARGET_S = 8.0
HELP_TARGET_S = 0.3


@dataclass(slots=True)
class StartReport:
    """The best of several runs of each command."""

    package: str
    cold: Cost
    warm: Cost
    help: Cost
    """`quorumd --help`: the cost of a command without the pipeline."""
    archive_s: float
    """Seconds of `quorumd pipeline warm`."""

    def missed(self) -> list[str]:
        """Return a sentence per missed target."""
        found = []
        if self.warm.wall_s > FIRST_RESULT_TARGET_S:
            found.append(
                f"an audit of {RECORDS:,} records took {self.warm.wall_s:.1f} s, "
                f"the target is {FIRST_RESULT_TARGET_S:g} s"
            )
        if self.help.wall_s > HELP_TARGET_S:
            found.append(f"quorumd --help took {self.help.wall_s:.2f} s, the target is {HELP_TARGET_S:g} s")
        return found

    def as_json(self) -> dict[str, Any]:
        return {"quorumd": self.package, "missed": self.missed()} | {
            name: asdict(value) if isinstance(value, Cost) else value
            for name, value in (("cold", self.cold), ("warm", self.warm), ("help", self.help))
        }

    def write_json(self, path: Path) -> None:
        update_json(path, {"pipeline_start": self.as_json() | {"archive_s": self.archive_s}})

    def print(self, console: Console) -> None:
        table = Table(title=f"From command to result: an audit of {RECORDS:,} records", box=box.SIMPLE_HEAD)
        for heading in ("", "seconds", "CPU seconds"):
            table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
        for name, took in (
            ("without an archive", self.cold),
            ("after quorumd pipeline warm", self.warm),
            ("quorumd --help", self.help),
        ):
            table.add_row(name, f"{took.wall_s:.2f}", f"{took.cpu_s:.2f}")
        console.print(table)
        console.print(f"quorumd pipeline warm: {self.archive_s:.1f} s; quorumd: {self.package}")
        print_missed(console, self.missed())


def measure_start(
    directory: Path, package: str, echo: Callable[[str], None], rounds: int = ROUNDS
) -> StartReport:
    """Run all measurements. Raises BenchError."""
    shutil.rmtree(directory, ignore_errors=True)
    log = generate(directory / "log", LogShape(RECORDS, nodes=1)).directories[1].resolve()
    cold, warm = directory / "cold", directory / "warm"
    echo("quorumd pipeline warm")
    archive = measure(["pipeline", "warm"], warm)
    costs: dict[str, list[Cost]] = {"cold": [], "warm": [], "help": []}
    for turn in range(rounds):
        costs["help"].append(measure(["--help"], cold))
        for name, cache in (("cold", cold), ("warm", warm)):
            costs[name].append(measure(["pipeline", "audit", f"1={log}"], cache))
        latest = {name: runs[-1].wall_s for name, runs in costs.items()}
        echo(f"round {turn + 1} of {rounds}: {latest['cold']:.1f} s cold, {latest['warm']:.1f} s warm")
    shutil.rmtree(directory)
    best = {name: _best(runs) for name, runs in costs.items()}
    return StartReport(package, best["cold"], best["warm"], best["help"], archive.wall_s)


def _best(costs: list[Cost]) -> Cost:
    """Return the least of each figure."""
    return Cost(*(min(figures) for figures in zip(*map(astuple, costs), strict=True)))
