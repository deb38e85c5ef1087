"""Speed of the data pipeline writing the history of a log to Parquet on Spark, with one core and with two, and the
delay from a write to the log to a history that follows it."""

from __future__ import annotations

import os
import shutil
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.log.meta_properties import PARTITION_DIRECTORY
from quorumd.pipeline.history.build import build
from quorumd.pipeline.history.tables import read_manifest
from quorumd.pipeline.spark.session import spark_context
from scripts.bench.source_pass import tree_cpu_seconds
from scripts.bench.summary import print_missed, update_json
from scripts.log_generator import LogShape, chunks, generate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

RECORDS = 4_000_000
WARM_UP = 200_000
RATE_TARGET = 400_000.0
"""Records per second on two cores, all tables included."""
DELAY_TARGET_S = 2.5
APPENDS = 12
WAIT_TIMEOUT_S = 60.0


@dataclass(slots=True)
class HistoryReport:
    records: int
    rates: dict[int, float]
    """Records per second by number of cores, in the best round."""
    cpu_rate: float
    """Records per CPU second of all processes with two cores, in the best round; other load hardly affects it."""
    parquet_bytes: float
    """Bytes per record in all tables."""
    log_bytes: float
    """Bytes per record in the log."""
    delays_s: list[float]
    """Time from the write of a batch to its presence in the history."""
    load: float
    """The load average at the end, including this benchmark."""

    def missed(self) -> list[str]:
        """Return a sentence per missed target."""
        found = []
        if self.rates[2] < RATE_TARGET:
            found.append(f"history: {self.rates[2]:,.0f} records/s, the target is {RATE_TARGET:,.0f}")
        if statistics.median(self.delays_s) >= DELAY_TARGET_S:
            median = statistics.median(self.delays_s)
            found.append(
                f"history: records are visible after {median:.1f} s, the target is {DELAY_TARGET_S} s"
            )
        return found

    def write_json(self, path: Path) -> None:
        update_json(path, {"pipeline_history": asdict(self) | {"missed": self.missed()}})

    def print(self, console: Console) -> None:
        table = Table(title="The history of a log to Parquet, on Spark", box=box.SIMPLE_HEAD)
        headings = (
            "records",
            "1 core\nrecords/s",
            "2 cores\nrecords/s",
            "2 cores\nover 1",
            "records per\nCPU s",
            "log\nB/record",
            "Parquet\nB/record",
            "visible after\nmedian s",
        )
        for heading in headings:
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_row(
            f"{self.records:,}",
            f"{self.rates[1]:,.0f}",
            f"{self.rates[2]:,.0f}",
            f"{self.rates[2] / self.rates[1]:.2f}x",
            f"{self.cpu_rate:,.0f}",
            f"{self.log_bytes:.1f}",
            f"{self.parquet_bytes:.1f}",
            f"{statistics.median(self.delays_s):.2f}",
        )
        console.print(table)
        console.print(f"load of the machine: {self.load:.1f}")
        print_missed(console, self.missed())


def measure_history(
    directory: Path, rounds: int, echo: Callable[[str], None], records: int = RECORDS
) -> HistoryReport:
    """Run all measurements in a directory that is deleted afterwards."""
    shutil.rmtree(directory, ignore_errors=True)
    log = generate(directory / "log", LogShape(records))
    small = generate(directory / "small", LogShape(min(records, WARM_UP)))
    source, warm_up = ({"path": f"1={each.directories[1]}"} for each in (log, small))
    rates, size, cpu_rate = {}, 0, 0.0
    for cores in (1, 2):
        with _on_cores(cores), spark_context(f"local[{cores}]", "thin") as context:
            build(context, warm_up, directory / "warm-up")
            seconds, cpu_seconds = [], []
            for turn in range(rounds):
                history = directory / f"history-{cores}-{turn}"
                began, cpu = time.monotonic(), tree_cpu_seconds(os.getpid())
                build(context, source, history)
                seconds.append(time.monotonic() - began)
                cpu_seconds.append(tree_cpu_seconds(os.getpid()) - cpu)
                size = sum(file.stat().st_size for file in history.rglob("*.parquet"))
                shutil.rmtree(history)
            rates[cores], cpu_rate = log.end_offset / min(seconds), log.end_offset / min(cpu_seconds)
            echo(f"history, {cores} cores: {rates[cores]:,.0f} records/s")
            shutil.rmtree(directory / "warm-up")
            if cores == 2:
                delays = _delays(context, directory / "growing")
                echo(f"history, followed: visible after {statistics.median(delays):.2f} s")
    shutil.rmtree(directory)
    load = os.getloadavg()[0]
    sizes = size / log.end_offset, log.size / log.end_offset
    return HistoryReport(log.end_offset, rates, cpu_rate, *sizes, delays, load)


@contextmanager
def _on_cores(count: int) -> Iterator[None]:
    """Restrict this process and its children, Java and the Python workers, to `count` cores while the block runs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _delays(context: SparkContext, directory: Path) -> list[float]:
    """Return the seconds from the write of some batches to their presence in the history of a followed log."""
    log = directory / "log" / PARTITION_DIRECTORY
    log.mkdir(parents=True)
    parts = list(chunks(LogShape(20_000, epoch_records=1_000)))[: APPENDS + 2]
    segment = log / f"{0:020d}.log"
    segment.write_bytes(parts[0].data)
    stop = threading.Event()
    arguments = (context, {"path": f"1={directory / 'log'}"}, directory / "history", True, stop)
    follower = threading.Thread(target=build, args=arguments)
    follower.start()
    delays = []
    try:
        _seen(directory / "history", parts[0].end_offset)
        for part in parts[1:]:
            with segment.open("ab") as stream:
                stream.write(part.data)
            delays.append(_seen(directory / "history", part.end_offset))
    finally:
        stop.set()
        follower.join()
    # The first one after the start is slower.
    return delays[1:]


def _seen(history: Path, offset: int) -> float:
    began = time.monotonic()
    while time.monotonic() - began < WAIT_TIMEOUT_S:
        manifest = read_manifest(history)
        if manifest is not None and manifest.end >= offset:
            break
        time.sleep(0.02)
    return time.monotonic() - began
