"""The speed of decoding logs in Spark, compared with the stock kafka-dump-log, on the same logs and two cores.

Commands, including the start of Java and Spark, are measured on a shorter and a longer log; the difference is the
cost per record with warm compilers. The tool prints text per record, which is discarded; Spark decodes columns and
reduces them to the largest offset. On a busy machine, compare CPU seconds.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.log.meta_properties import PARTITION_DIRECTORY
from quorumd.pipeline.tables.schemas import RECORDS
from scripts.log_generator import GeneratedLog, LogShape, generate
from tests.interop.stock_tools.claims import ClaimBroken, Step, expect
from tests.interop.stock_tools.tools import StockTools

DUMP = "kafka-dump-log"
USUAL = "Spark, 14 columns"
ALL = f"Spark, all {len(RECORDS.names)} columns"
SHARE = 12
"""The number of records of the longer log, as a multiple of the shorter log's."""
LESS_CPU = 2.0
"""The minimum ratio of the tool's CPU time per record to Spark's CPU time per record for 14 columns."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of elapsed time and of CPU time."""

    wall: float
    cpu: float


class Speed:
    """Claims about two logs of the same shape, and the costs of reading them in each round."""

    def __init__(
        self, tools: StockTools, directory: Path, records: int, rounds: int, report: Callable[[str], None]
    ) -> None:
        self._tools = tools
        self._directory = directory
        self._sizes = (records // SHARE, records)
        self._rounds = rounds
        self._report = report
        self._logs: dict[int, GeneratedLog] = {}
        self._costs: dict[tuple[str, int], list[Cost]] = {}

    def steps(self) -> list[Step]:
        return [
            ("the tool reads all records of a generated log without an error", self.count),
            (f"{USUAL}: a further record takes less than half of the CPU time of {DUMP}", self.measure),
        ]

    def count(self) -> str:
        for records in self._sizes:
            # The log has one segment, since the tool reads files and not directories.
            self._logs[records] = generate(
                self._directory / str(records), LogShape(records, segment_bytes=2**31 - 1)
            )
        log = self._logs[self._sizes[0]]
        output = self._tools.run(self._tools.dump_log, *_arguments(log))
        expect("records", len(re.findall(r"^\| offset: ", output, re.M)), log.end_offset)
        expect("invalid batches", output.count("isvalid: false"), 0)
        return f"{log.end_offset:,} records"

    def measure(self) -> str:
        for number in range(1, self._rounds + 1):
            for records, log in self._logs.items():
                self._add(DUMP, records, _dump(self._tools, log))
                self._add(USUAL, records, _decode(log, "usual"))
                self._add(ALL, records, _decode(log, "all"))
            self._report(f"speed: round {number} of {self._rounds}")
        further, dump = self.further(USUAL), self.further(DUMP)
        by_cpu, by_clock = dump.cpu / further.cpu, dump.wall / further.wall
        seen = f"{by_cpu:.1f} times less CPU time, {by_clock:.1f} times less elapsed time"
        if by_cpu < LESS_CPU:
            raise ClaimBroken(seen)
        return seen

    def further(self, name: str) -> Cost:
        """Return the cost per additional record of the longer log."""
        short, long = (self._best(name, records) for records in self._sizes)
        more = self._logs[self._sizes[1]].end_offset - self._logs[self._sizes[0]].end_offset
        return Cost((long.wall - short.wall) / more, (long.cpu - short.cpu) / more)

    def show(self, console: Console) -> None:
        """Print a table of the measurements, if there are any."""
        if not self._costs:
            return
        table = Table(title=f"Decoding a log, best of {self._rounds} rounds", box=box.SIMPLE_HEAD)
        table.add_column("", no_wrap=True)
        for records in self._sizes:
            table.add_column(f"{records:,}\nrecords s", justify="right")
            table.add_column("CPU s", justify="right")
        for heading in ("further\nrecord µs", "CPU µs", "faster than\nthe tool", "by CPU"):
            table.add_column(heading, justify="right")
        dump = self.further(DUMP)
        for name in (DUMP, USUAL, ALL):
            wholes = [self._best(name, records) for records in self._sizes]
            further = self.further(name)
            table.add_row(
                name,
                *(f"{seconds:.1f}" for whole in wholes for seconds in (whole.wall, whole.cpu)),
                *(f"{seconds * 1e6:.2f}" for seconds in (further.wall, further.cpu)),
                *(f"{dump.wall / further.wall:.1f}x", f"{dump.cpu / further.cpu:.1f}x"),
            )
        console.print(table)

    def _add(self, name: str, records: int, cost: Cost) -> None:
        self._costs.setdefault((name, records), []).append(cost)

    def _best(self, name: str, records: int) -> Cost:
        costs = self._costs[name, records]
        return Cost(min(cost.wall for cost in costs), min(cost.cpu for cost in costs))


def _arguments(log: GeneratedLog) -> tuple[str | Path, ...]:
    (segment,) = (log.directories[1] / PARTITION_DIRECTORY).glob("*.log")
    return ("--cluster-metadata-decoder", "--files", segment)


def _dump(tools: StockTools, log: GeneratedLog) -> Cost:
    began = time.perf_counter()
    child = subprocess.Popen(tools.command(tools.dump_log, *_arguments(log)), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    expect(f"exit code of {DUMP}", child.returncode, 0)
    return Cost(time.perf_counter() - began, used.ru_utime + used.ru_stime)


def _decode(log: GeneratedLog, columns: str) -> Cost:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "tests.interop.stock_tools.decode", str(log.directories[1]), columns],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - began
    expect(f"exit code of a decode in Spark: {done.stderr}", done.returncode, 0)
    printed = json.loads(done.stdout)
    expect("last offset in Spark", printed["last"], log.end_offset - 1)
    return Cost(seconds, printed["cpu_s"])
