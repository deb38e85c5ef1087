"""Speed of the data pipeline on a log without Spark (batches, batches with CRC checks, records as Arrow columns),
compared with `log dump`, which decodes one record at a time.

Logs with 1, 32 and 1,000 records per batch are generated, large enough for several pieces. Each figure is the best
pass of a separate process. Rates and ratios use the CPU time of one core, which other load hardly affects; two
parallel processes are measured in wall-clock time.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
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

PROGRAM = Path(__file__).with_name("decode_pass.py").resolve()
SHAPES = {"one": 1, "mix": 32, "bulk": 1_000}
"""Records per batch."""
RECORDS = 400_000
DUMPED_RECORDS = 60_000
REPEAT = 5
RATIO_TARGET = 10.0
"""The target ratio of decoded records per second to records per second of `log dump`."""
DECODE_TARGET = 3.0e6
"""Decoded records per second of `mix`."""
SCAN_TARGET = 2.0e9
"""Scanned bytes per second of `mix`, with CRC checks."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Rates of one process per CPU second."""

    records: float
    bytes: float

    @classmethod
    def of(cls, parsed: dict[str, Any]) -> Rate:
        return cls(parsed["records"] / parsed["cpu_seconds"], parsed["bytes"] / parsed["cpu_seconds"])


@dataclass(slots=True)
class ShapeFigures:
    """Figures of one log."""

    batch_records: int
    """Records per batch."""
    headers: Rate
    scan: Rate
    decode: Rate
    ids: Rate
    dump: float
    """Records per second of `log dump`."""
    rows: float
    """Records per second of `log dump --output jsonl`."""
    scaling: float
    """The ratio of the records per second of two processes to one process."""

    @property
    def ratio(self) -> float:
        return self.decode.records / self.dump


@dataclass(slots=True)
class DecodeReport:
    package: str
    """Description of the measured package."""
    shapes: dict[str, ShapeFigures]

    def missed(self) -> list[str]:
        """Return a sentence per missed target."""
        found = [
            f"{name}: decoding is {figures.ratio:.1f} times `log dump`, the target is {RATIO_TARGET:g}"
            for name, figures in self.shapes.items()
            if figures.ratio < RATIO_TARGET
        ]
        mix = self.shapes["mix"]
        if mix.decode.records < DECODE_TARGET:
            found.append(
                f"mix: {mix.decode.records / 1e6:.2f} million records decoded per second, "
                f"the target is {DECODE_TARGET / 1e6:g} million"
            )
        if mix.scan.bytes < SCAN_TARGET:
            found.append(
                f"mix: {mix.scan.bytes / 1e9:.2f} GB scanned per second, the target is {SCAN_TARGET / 1e9:g} GB"
            )
        return found

    def as_json(self) -> dict[str, Any]:
        shapes = {name: asdict(figures) | {"ratio": figures.ratio} for name, figures in self.shapes.items()}
        return {"quorumd": self.package, **shapes, "missed": self.missed()}

    def write_json(self, path: Path) -> None:
        update_json(path, {"pipeline_decode": self.as_json()})

    def print(self, console: Console) -> None:
        table = Table(
            title="Reading a log as the pipeline does, without Spark, on one core", box=box.SIMPLE_HEAD
        )
        rates = (
            "headers\nGB/s",
            "with CRC\nGB/s",
            "4 columns\nMrec/s",
            "records\nMrec/s",
        )
        dumps = ("log dump\nMrec/s", "jsonl\nMrec/s", "records /\nlog dump", "2 at once\nover 1")
        for heading in ("records\nper batch", *rates, *dumps):
            table.add_column(heading, justify="right", no_wrap=True)
        for figures in self.shapes.values():
            table.add_row(
                f"{figures.batch_records:,}",
                f"{figures.headers.bytes / 1e9:.2f}",
                f"{figures.scan.bytes / 1e9:.2f}",
                f"{figures.ids.records / 1e6:.2f}",
                f"{figures.decode.records / 1e6:.2f}",
                f"{figures.dump / 1e6:.2f}",
                f"{figures.rows / 1e6:.2f}",
                f"{figures.ratio:.1f}x",
                f"{figures.scaling:.2f}x",
            )
        console.print(table)
        console.print(f"quorumd: {self.package}")
        print_missed(console, self.missed())


def measure_decode(
    directory: Path,
    package: str,
    echo: Callable[[str], None],
    records: int = RECORDS,
    dumped: int = DUMPED_RECORDS,
    repeat: int = REPEAT,
) -> DecodeReport:
    """Run all measurements. Raises BenchError."""
    shutil.rmtree(directory, ignore_errors=True)
    shapes = {}
    for name, batch_records in SHAPES.items():
        echo(f"{records:,} records, {batch_records:,} per batch")
        file = _log(directory / name, records, batch_records)
        small = _log(directory / f"{name}-dumped", dumped, batch_records)
        passes = {do: _pass(file, do, repeat) for do in ("headers", "scan", "decode", "ids")}
        shapes[name] = ShapeFigures(
            batch_records,
            **{do: Rate.of(parsed) for do, parsed in passes.items()},
            dump=_dump(small, "text"),
            rows=_dump(file, "jsonl"),
            scaling=_scaling(file, repeat),
        )
        figures = shapes[name]
        echo(f"{figures.decode.records:,.0f} records/s decoded, {figures.ratio:.1f} times `log dump`")
    shutil.rmtree(directory)
    return DecodeReport(package, shapes)


def _log(directory: Path, records: int, batch_records: int) -> Path:
    (file,) = (
        generate(directory, LogShape(records, batch_records, segment_bytes=1 << 30))
        .directories[1]
        .rglob("*.log")
    )
    return file


def _pass(file: Path, do: str, repeat: int) -> dict[str, Any]:
    return _ended(_start(file, do, repeat))


def _start(file: Path, do: str, repeat: int) -> subprocess.Popen[str]:
    job = json.dumps({"do": do, "file": str(file.resolve()), "repeat": repeat})
    command = [sys.executable, str(PROGRAM), job]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate()
    if process.returncode:
        raise BenchError(f"decode_pass failed: {out}{err}")
    parsed: dict[str, Any] = json.loads(out)
    return parsed


def _scaling(file: Path, repeat: int) -> float:
    """Return the throughput of two processes relative to one."""
    alone = _pass(file, "decode", repeat)["seconds"]
    pair = [_start(file, "decode", repeat) for _ in range(2)]
    return float(2 * alone / max(_ended(process)["seconds"] for process in pair))


def _dump(file: Path, output: str) -> float:
    """Return the records of `log dump` per second of CPU time, without the start of the command."""
    nothing = file.with_name(f"{0:020d}.checkpoint.part")
    nothing.touch()
    seconds = _dump_seconds(file, output) - _dump_seconds(nothing, output)
    return float(_pass(file, "headers", 1)["records"] / seconds)


def _dump_seconds(file: Path, output: str) -> float:
    before = children_cpu_seconds()
    command = [sys.executable, "-m", "quorumd", "log", "dump", "--output", output, str(file.resolve())]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise BenchError(f"log dump failed: {done.stderr}")
    return children_cpu_seconds() - before
