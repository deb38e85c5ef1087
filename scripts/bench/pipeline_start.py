"""Time to the first result of a data pipeline command, with and without the archive of `quorumd pipeline warm`: an
audit of a small log, from the start of the process to its end.

Both run in turns, each in new processes. The wall-clock time is the best of several runs; the CPU time of all
processes shows the effect of the archive on a busy machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from scripts.bench.processes import BenchError, children_cpu_seconds
from scripts.bench.summary import print_missed, update_json
from scripts.log_generator import LogShape, generate

RECORDS = 20_000
ROUNDS = 3
FIRST_RESULT_TARGET_S = 8.0
HELP_TARGET_S = 0.3


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall-clock seconds of one command, and CPU seconds of all its processes."""

    wall_s: float
    cpu_s: float


@dataclass(slots=True)
class StartReport:
    """The best of several runs of each command."""

    package: str
    cold: Timing
    warm: Timing
    help: Timing
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
            name: asdict(value) if isinstance(value, Timing) else value
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
    cache = {name: str((directory / name).resolve()) for name in ("cold", "warm")}
    echo("quorumd pipeline warm")
    archive = _run(["pipeline", "warm"], cache["warm"])
    took: dict[str, list[Timing]] = {"cold": [], "warm": [], "help": []}
    for turn in range(rounds):
        took["help"].append(_run(["--help"], cache["cold"]))
        for name in ("cold", "warm"):
            took[name].append(_run(["pipeline", "audit", f"1={log}"], cache[name]))
        latest = {name: runs[-1].wall_s for name, runs in took.items()}
        echo(f"round {turn + 1} of {rounds}: {latest['cold']:.1f} s cold, {latest['warm']:.1f} s warm")
    shutil.rmtree(directory)
    best = {
        name: Timing(min(t.wall_s for t in runs), min(t.cpu_s for t in runs)) for name, runs in took.items()
    }
    return StartReport(package, best["cold"], best["warm"], best["help"], archive.wall_s)


def _run(arguments: list[str], cache: str) -> Timing:
    command = [sys.executable, "-m", "quorumd", *arguments]
    environment = os.environ | {"XDG_CACHE_HOME": cache}
    began, used = time.monotonic(), children_cpu_seconds()
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        errors = re.sub(r"\s+", " ", done.stderr).strip()
        raise BenchError(f"quorumd {' '.join(arguments)} failed: {errors}")
    return Timing(time.monotonic() - began, children_cpu_seconds() - used)
