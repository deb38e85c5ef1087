"""`quorumd pipeline audit` of generated logs: records and bytes per second, and the whole cold command.

Three copies of a log are audited, with the same batches in different segments, with about 32 records per batch and
with one. In the same minute plain processes, one per core, read the same files and compute CRCs: an audit cannot be
faster, and other load slows down both. Copies that do not fit on the disk are hard links to the first one; the audit
reads and compares each. All copies of a `linked` log are hard links to the same files: the page cache then holds a
billion records of five voters, and the disk does not limit the audit.

Logs that exceed the page cache are read from the disk, once by the plain processes and once by the command; for them,
only the whole command is measured.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from crc32c import crc32c
from rich import box
from rich.console import Console
from rich.table import Table

from scripts.bench.processes import BenchError
from scripts.bench.source_pass import tree_cpu_seconds
from scripts.bench.summary import print_missed, update_json
from scripts.log_generator import LogShape, generate

COPIES = 3
LINKED_COPIES = 5
RECORDS = {32: 45_000_000, 1: 6_000_000}
"""The number of records of all copies, by records per batch."""
BILLION = 1_000_000_000
RECORD_BYTES = {32: 62, 1: 121}
"""The maximum bytes per record, by records per batch."""
SPARE_BYTES = 5 << 30
"""Free space to leave on the disk."""
SEGMENT_BYTES = 256 << 20
PIECE_BYTES = 4 << 20
TARGETS = {32: 25e6, 1: 3e6}
"""Records per second on two idle cores, by records per batch."""
BYTES_TARGET = 1.2e9
SAMPLE_INTERVAL_S = 0.1
COLD_TARGET_S = 60.0
"""Seconds of the whole command for a billion records."""
MEMORY_SHARE = 0.6
"""The fraction of the memory up to which files are read from the page cache."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The seconds of one audit in a warm session, and of plain reading in the same minute."""

    seconds: float
    plain_seconds: float


@dataclass(frozen=True, slots=True)
class Shape:
    """The logs of an audit and its times."""

    batch_records: int
    copies: int
    records: int
    bytes: int
    cold_seconds: float
    """Seconds of the whole command in a new process."""
    cold_cpu_seconds: float
    """CPU seconds of all processes of that command."""
    is_from_disk: bool
    turns: list[Turn]

    @property
    def seconds(self) -> float:
        return statistics.median(turn.seconds for turn in self.turns)

    @property
    def share(self) -> float:
        """The ratio of the rate of the audit to the rate of plain reading."""
        return statistics.median(turn.plain_seconds / turn.seconds for turn in self.turns)


@dataclass(slots=True)
class AuditReport:
    shapes: list[Shape]

    def missed(self) -> list[str]:
        """Return a sentence per missed target."""
        found = []
        for shape in self.shapes:
            if shape.records >= BILLION and shape.cold_seconds > COLD_TARGET_S:
                took = f"{shape.records:,} records cold in {shape.cold_seconds:.1f} s"
                found.append(f"{took}, the target is {COLD_TARGET_S:.0f} s")
            if shape.is_from_disk:
                # The other targets are for audits that the cores limit, not the disk.
                continue
            rate, target = shape.records / shape.seconds, TARGETS[shape.batch_records]
            if rate < target:
                at = f"at {shape.batch_records} per batch"
                found.append(f"{rate / 1e6:.1f} M records/s {at}, the target is {target / 1e6:.0f} M")
            if shape.batch_records > 1 and (speed := shape.bytes / shape.seconds) < BYTES_TARGET:
                found.append(f"{speed / 1e9:.2f} GB/s, the target is {BYTES_TARGET / 1e9} GB/s")
        return found

    def write_json(self, path: Path) -> None:
        update_json(
            path, {"audit": {"shapes": [asdict(each) for each in self.shapes], "missed": self.missed()}}
        )

    def print(self, console: Console) -> None:
        table = Table(title="quorumd pipeline audit on Spark, all cores of this machine", box=box.SIMPLE_HEAD)
        for heading in (
            "records\nper batch",
            "copies",
            "records",
            "GB",
            "audit s",
            "M records/s",
            "target",
            "GB/s",
            "of plain\nread + CRC",
            "command,\ncold, s",
            "its CPU s",
        ):
            table.add_column(heading, justify="right", no_wrap=True)
        for shape in self.shapes:
            table.add_row(
                str(shape.batch_records),
                str(shape.copies),
                f"{shape.records:,}",
                f"{shape.bytes / 1e9:.2f}",
                f"{shape.seconds:.2f}",
                f"{shape.records / shape.seconds / 1e6:.1f}",
                f"{TARGETS[shape.batch_records] / 1e6:.0f}",
                f"{shape.bytes / shape.seconds / 1e9:.2f}",
                f"{shape.share:.0%}",
                f"{shape.cold_seconds:.1f}",
                f"{shape.cold_cpu_seconds:.1f}",
            )
        console.print(table)
        for shape in self.shapes:
            if shape.is_from_disk:
                speed = shape.bytes / shape.turns[0].plain_seconds / 1e9
                console.print(
                    f"{shape.bytes / 1e9:.1f} GB from the disk, which plain processes read at {speed:.2f} GB/s"
                )
        print_missed(console, self.missed())


def measure_audit(
    directory: Path,
    rounds: int,
    echo: Callable[[str], None],
    records: int | None = None,
    linked: bool = False,
    sizes: Mapping[int, int] = RECORDS,
) -> AuditReport:
    """Run all audits. Raises BenchError.

    `records` replaces the number of records at 32 per batch; with `linked`, the copies of that log are hard links.
    """
    shapes = []
    for batch_records, usual in sizes.items():
        requested = records if batch_records > 1 else None
        wanted = usual if requested is None else requested
        shutil.rmtree(directory, ignore_errors=True)
        copies = _copies(directory, wanted, batch_records, requested is not None and linked, echo)
        directories, count, size = copies.directories, copies.records, copies.bytes
        is_from_disk = copies.distinct_bytes > _memory_bytes() * MEMORY_SHARE
        if is_from_disk:
            echo(f"reading {size / 1e9:.1f} GB from the disk")
            with ProcessPoolExecutor(os.cpu_count()) as pool:
                _forget(directories)
                plain = _plain_seconds(directories, pool)
            _forget(directories)
        echo(f"auditing {len(directories)} copies, {size / 1e9:.1f} GB")
        cold, cpu = _command(directories)
        turns = [Turn(cold, plain)] if is_from_disk else _turns(directories, rounds)
        shapes.append(Shape(batch_records, len(directories), count, size, cold, cpu, is_from_disk, turns))
        shape = shapes[-1]
        echo(f"{count / shape.seconds / 1e6:.1f} M records/s, cold command {cold:.1f} s")
    shutil.rmtree(directory, ignore_errors=True)
    return AuditReport(shapes)


@dataclass(frozen=True, slots=True)
class _Copies:
    """The copies of a generated log."""

    directories: dict[int, Path]
    """The data directories, by node."""
    records: int
    bytes: int
    distinct_bytes: int
    """The bytes on the disk: hard links to the same file count once."""


def _copies(
    directory: Path, records: int, batch_records: int, linked: bool, echo: Callable[[str], None]
) -> _Copies:
    """Generate the copies of a log. Raises BenchError if the disk has no space for one copy."""
    copies = LINKED_COPIES if linked else COPIES
    each = -(-records // copies)
    directory.mkdir(parents=True)
    room = (shutil.disk_usage(directory).free - SPARE_BYTES) // (each * RECORD_BYTES[batch_records])
    if room < 1:
        raise BenchError(f"no space for one copy of {each:,} records on the disk of {directory}")
    own = 1 if linked else min(copies, room)

    parsed = 0

    def written(end_offset: int) -> None:
        nonlocal parsed
        if end_offset * 10 // each > parsed:
            parsed = end_offset * 10 // each
            echo(f"generated {end_offset:,} of {each:,} records, {batch_records} per batch, {own} copies")

    shape = LogShape(each, batch_records, segment_bytes=SEGMENT_BYTES, nodes=own)
    log = generate(directory, shape, written)
    directories = dict(log.directories)
    for node in range(own + 1, copies + 1):
        directories[node] = directory / f"node-{node}"
        shutil.copytree(directories[1], directories[node], copy_function=os.link)
    return _Copies(directories, copies * log.end_offset, copies * log.size, own * log.size)


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _forget(directories: Mapping[int, Path]) -> None:
    """Drop these files from the page cache."""
    for path in _logs(directories):
        with open(path, "rb+", buffering=0) as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _logs(directories: Mapping[int, str] | Mapping[int, Path]) -> list[str]:
    return sorted(str(path) for directory in directories.values() for path in Path(directory).rglob("*.log"))


def _command(directories: Mapping[int, Path]) -> tuple[float, float]:
    """Run the audit as a command; return its wall-clock and CPU seconds."""
    nodes = [f"{node}={path}" for node, path in directories.items()]
    began, used = time.monotonic(), 0.0
    command = [sys.executable, "-m", "quorumd", "pipeline", "audit", *nodes, "--no-progress"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while process.poll() is None:
        # Spark does not wait for its workers, so the CPU time of ended children does not include them.
        used = max(used, tree_cpu_seconds(process.pid))
        time.sleep(SAMPLE_INTERVAL_S)
    seconds = time.monotonic() - began
    output = process.communicate()[0]
    if process.returncode:
        raise BenchError(f"the audit ended with exit code {process.returncode}: {output}")
    return seconds, used


def _turns(directories: Mapping[int, Path], rounds: int) -> list[Turn]:
    """Run audits in a separate process, which ends with its session."""
    nodes = [f"{node}={path}" for node, path in directories.items()]
    command = [sys.executable, "-m", "scripts.bench.pipeline_audit", "--rounds", str(rounds), *nodes]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    if done.returncode:
        raise BenchError(f"the audits failed: {done.stderr}")
    return [Turn(**turn) for turn in json.loads(done.stdout)]


def read_plain(paths: list[str]) -> int:
    """Read files and compute CRCs of their bytes, which is the minimum work of an audit; return the bytes."""
    size = 0
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while data := file.read(PIECE_BYTES):
                crc32c(data)
                size += len(data)
    return size


def _plain_seconds(directories: Mapping[int, str] | Mapping[int, Path], pool: ProcessPoolExecutor) -> float:
    paths = _logs(directories)
    cores = os.cpu_count() or 1
    began = time.monotonic()
    list(pool.map(read_plain, [paths[core::cores] for core in range(cores)]))
    return time.monotonic() - began


@click.command()
@click.option("--rounds", default=3, show_default=True)
@click.argument("directories", nargs=-1, required=True)
def main(rounds: int, directories: tuple[str, ...]) -> None:
    """Audit these directories repeatedly in one session and print the rounds as JSON."""
    from quorumd.pipeline.audit.audit import audit
    from quorumd.pipeline.copies.log_files import parse_directories
    from quorumd.pipeline.spark.session import spark_session

    by_node = parse_directories(",".join(directories))
    turns: list[dict[str, Any]] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        # Fork the workers now: workers forked later would keep open the pipe whose end stops Java.
        _plain_seconds(by_node, pool)
        with spark_session(profile="thin") as session:
            audit(session, by_node)
            for _ in range(rounds):
                began = time.monotonic()
                audit(session, by_node)
                seconds = time.monotonic() - began
                turns.append(asdict(Turn(seconds, _plain_seconds(by_node, pool))))
    click.echo(json.dumps(turns))


if __name__ == "__main__":
    main()
