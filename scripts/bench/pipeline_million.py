"""The data pipeline on a log of a million partitions: time and resident memory of the commands `history build` and
`plan make`, each from its start to its end, with all of its processes, after `quorumd pipeline warm`; and of
`history build` before it, as for a user's first history.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from scripts.bench.pipeline_commands import Cost, measure
from scripts.bench.summary import print_missed, update_json
from scripts.log_generator import LogShape, generate

SHAPE = LogShape(3_000_000, batch_records=1_000, topics=10_000, partitions=100, brokers=100)
SHORT_SHAPE = LogShape(2_000, topics=20, partitions=20, brokers=9)
HISTORY_TARGET_S = 15.0
PLAN_TARGET_S = 10.0
MEMORY_TARGET_MIB = 2048


@dataclass(slots=True)
class CommandsReport:
    """The costs of each command in each round."""

    partitions: int
    records: int
    first_history: list[Cost]
    """Without the archive of `quorumd pipeline warm`."""
    history: list[Cost]
    plan: list[Cost]
    load: float
    """The load average at the end, including this benchmark."""

    def missed(self) -> list[str]:
        """Return a sentence per missed target: the shortest time, and the largest memory, of all rounds."""
        found = []
        limits = (
            ("first history build", self.first_history, HISTORY_TARGET_S),
            ("history build", self.history, HISTORY_TARGET_S),
            ("plan make", self.plan, PLAN_TARGET_S),
        )
        for name, costs, limit_s in limits:
            wall_s, peak_mib = min(cost.wall_s for cost in costs), max(cost.peak_mib for cost in costs)
            if wall_s > limit_s:
                found.append(f"{name}: {wall_s:.1f} s, the target is {limit_s:g} s")
            if peak_mib > MEMORY_TARGET_MIB:
                found.append(f"{name}: {peak_mib:,.0f} MiB, the target is {MEMORY_TARGET_MIB:,} MiB")
        return found

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"missed": self.missed()}

    def write_json(self, path: Path) -> None:
        update_json(path, {"pipeline_million": self.as_json()})

    def print(self, console: Console) -> None:
        title = f"Commands on a log of {self.records:,} records and {self.partitions:,} partitions"
        table = Table(title=title, box=box.SIMPLE_HEAD)
        for heading in ("", "round", "seconds", "CPU seconds", "peak MiB"):
            table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
        rows = (
            ("first history build", self.first_history),
            ("history build", self.history),
            ("plan make", self.plan),
        )
        for name, costs in rows:
            for turn, cost in enumerate(costs, 1):
                figures = f"{cost.wall_s:.1f}", f"{cost.cpu_s:.1f}", f"{cost.peak_mib:,.0f}"
                table.add_row(name, str(turn), *figures)
        console.print(table)
        console.print(f"load of the machine: {self.load:.1f}")
        print_missed(console, self.missed())


def measure_commands(
    directory: Path, rounds: int, echo: Callable[[str], None], shape: LogShape = SHAPE
) -> CommandsReport:
    """Run both commands alternately, in a directory that is deleted afterwards. Raises BenchError."""
    shutil.rmtree(directory, ignore_errors=True)
    log = generate(directory / "log", shape)
    history, plan = (str(directory / name) for name in ("history", "plan"))
    added = f"{shape.brokers + 1}:rack-0,{shape.brokers + 2}:rack-1"
    costs: dict[str, list[Cost]] = {"first": [], "history": [], "plan": []}
    build = ["pipeline", "history", "build", "--from", f"1={log.directories[1]}", "--to", history]
    make = ["pipeline", "plan", "make", "--state", history, "--add", added, "--remove", "1,2", "--out", plan]
    echo("quorumd pipeline warm")
    cache = directory / "cache"
    measure(["pipeline", "warm"], cache)
    for turn in range(rounds):
        for name, with_cache in (("first", directory / "no-cache"), ("history", cache)):
            shutil.rmtree(history, ignore_errors=True)
            costs[name].append(measure(build, with_cache))
        shutil.rmtree(plan, ignore_errors=True)
        costs["plan"].append(measure(make, cache))
        latest = {name: runs[-1].wall_s for name, runs in costs.items()}
        echo(
            f"round {turn + 1} of {rounds}: first history {latest['first']:.1f} s, "
            f"history {latest['history']:.1f} s, plan {latest['plan']:.1f} s"
        )
    shutil.rmtree(directory)
    partitions = shape.topics * shape.partitions
    return CommandsReport(
        partitions, log.end_offset, costs["first"], costs["history"], costs["plan"], os.getloadavg()[0]
    )
