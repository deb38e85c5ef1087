"""Speed of the Spark source: records with all columns, with fourteen and with four, batches, and a stream.

Every record is decoded, and every column of the schema passes through Java row by row: Spark does not prune columns
of a Python source. The query selects the largest offset, which adds little work. It is measured on one core, to which
the whole tree of processes is limited, and on two cores, and compared with `log dump`, which is one process. A stream
is measured over its whole backlog, including micro-batches and checkpoints. On a busy machine compare records per CPU
second.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.pipeline.tables.schemas import RECORDS as RECORDS_TABLE
from scripts.bench.processes import BenchError
from scripts.bench.source_pass import STREAMS
from scripts.bench.summary import print_missed, update_json
from scripts.log_generator import LogShape, generate

PROGRAM = Path(__file__).with_name("source_pass.py").resolve()
RECORDS = 12_000_000
"""Enough records to make the start of a query, half a second, negligible."""
CORES = (1, 2)
STREAMED_RECORDS = 1_500_000
DUMPED_RECORDS = 100_000
QUESTIONS = {
    "records": f"records, all {len(RECORDS_TABLE.names)} columns",
    "packed": "the same, lists packed",
    "usual": "records, 14 columns",
    "columns": "records, 4 columns",
    "batches": "batches, CRCs computed",
    "stream": "stream of all columns to Parquet",
    "usual_stream": "stream of 14 columns to Parquet",
}
TARGETS = {"usual": 2.5e6, "usual_stream": 250e3}
"""Records per second on two idle cores, with the columns of most queries."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Records per second of wall-clock time, and of CPU time."""

    wall: float
    cpu: float


@dataclass(slots=True)
class SourceReport:
    package: str
    records: int
    bytes: int
    rates: dict[int, dict[str, Rate]]
    """Rates by cores and query."""
    dump: float
    """Records per second of `log dump`."""

    def missed(self) -> list[str]:
        """Return a sentence per missed target."""
        both = self.rates[max(self.rates)]
        return [
            f"{QUESTIONS[name]}: {both[name].wall / 1e6:.2f} million records per second, "
            f"the target is {target / 1e6:g} million on two idle cores"
            for name, target in TARGETS.items()
            if both[name].wall < target
        ]

    def as_json(self) -> dict[str, Any]:
        rates = {
            str(cores): {name: asdict(rate) for name, rate in rates.items()}
            for cores, rates in self.rates.items()
        }
        figures = {"records": self.records, "bytes": self.bytes, "rates": rates, "log_dump": self.dump}
        return {"quorumd": self.package, **figures, "missed": self.missed()}

    def write_json(self, path: Path) -> None:
        update_json(path, {"pipeline_source": self.as_json()})

    def print(self, console: Console) -> None:
        table = Table(title=f"Reading {self.records:,} records through Spark", box=box.SIMPLE_HEAD)
        table.add_column("")
        headings = (
            "1 core\nMrec/s",
            "2 cores\nMrec/s",
            "2 cores\nMB/s",
            "2 cores\nover 1",
            "per CPU s\nMrec",
            "2 cores over\nlog dump",
        )
        for heading in headings:
            table.add_column(heading, justify="right", no_wrap=True)
        one, both = self.rates[min(self.rates)], self.rates[max(self.rates)]
        for name, title in QUESTIONS.items():
            table.add_row(
                title,
                f"{one[name].wall / 1e6:.2f}",
                f"{both[name].wall / 1e6:.2f}",
                f"{both[name].wall * self.bytes / self.records / 1e6:,.0f}",
                f"{both[name].wall / one[name].wall:.2f}x",
                f"{both[name].cpu / 1e6:.2f}",
                f"{both[name].wall / self.dump:.1f}x",
            )
        console.print(table)
        console.print(f"log dump, one process: {self.dump / 1e6:.3f} Mrec/s; quorumd: {self.package}")
        print_missed(console, self.missed())


def measure_source(
    directory: Path,
    package: str,
    rounds: int,
    echo: Callable[[str], None],
    records: int = RECORDS,
    cores_of_passes: Sequence[int] = CORES,
) -> SourceReport:
    """Run all measurements. Raises BenchError."""
    shutil.rmtree(directory, ignore_errors=True)
    echo(f"{records:,} records")
    log = generate(directory / "log", LogShape(records, segment_bytes=32 << 20))
    streamed = generate(
        directory / "streamed", LogShape(min(records, STREAMED_RECORDS), segment_bytes=32 << 20)
    )
    small = generate(directory / "dumped", LogShape(min(records, DUMPED_RECORDS), segment_bytes=1 << 30))
    rates: dict[int, dict[str, Rate]] = {}
    for cores in cores_of_passes:
        passes = _passes(directory, cores, rounds)
        rates[cores] = {
            name: Rate(read / each["seconds"], read / each["cpu_seconds"])
            for name, each in passes.items()
            for read in [streamed.end_offset if name in STREAMS else log.end_offset]
        }
        echo(f"on {cores} of the cores: {rates[cores]['records'].wall:,.0f} records/s with all columns")
    dump = small.end_offset / (_dump_seconds(small.directories[1]) - _dump_seconds(None))
    shutil.rmtree(directory)
    return SourceReport(package, log.end_offset, log.size, rates, dump)


def _passes(directory: Path, cores: int, rounds: int) -> dict[str, Any]:
    job = {
        "log": str((directory / "log" / "node-1").resolve()),
        "streamed": str((directory / "streamed" / "node-1").resolve()),
        "to": str((directory / "to").resolve()),
        "cores": cores,
        "repeat": max(1, min(rounds, 3)),
    }
    done = subprocess.run([sys.executable, str(PROGRAM), json.dumps(job)], capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"source_pass failed: {done.stdout}{done.stderr}")
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def _dump_seconds(directory: Path | None) -> float:
    """Return the elapsed seconds of `log dump`, or of the start of the command without a directory."""
    arguments = ["log", "dump", "--help"] if directory is None else ["log", "dump", str(directory)]
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "quorumd", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise BenchError(f"log dump failed: {done.stderr}")
    return time.perf_counter() - began
