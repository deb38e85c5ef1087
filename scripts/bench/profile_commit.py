"""Prints the CPU time per request of each process under each kind of load, and where it is spent.

    python -m scripts.bench.profile_commit [--load isr-64] [--seconds 10] [--profiler perf]

The CPU time comes from /proc and is exact, also on a busy machine. A profiler samples the running daemons from
outside: perf shows the functions of compiled modules, of the interpreter and of the kernel; py-spy shows the
functions of interpreted modules.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import uvloop
from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.errors import RequestFailed
from scripts.bench.__main__ import BUILD, COMPILED, choose_package
from scripts.bench.broker_fleet import Fleet
from scripts.bench.members import Members
from scripts.bench.processes import BenchError, Process
from scripts.bench.profile_loads import LOADS, Counts, Work
from scripts.bench.quorumd_cluster import run_load

NODES = 3
SAMPLES_PER_SECOND = 400
WARM_UP_S = 1.0
SHOWN = 30
CONFIGS = {f"config-{in_flight}": in_flight for in_flight in (1, 16, 64, 256)}
_FRAME = re.compile(r"(?P<function>.+) \((?P<file>[^()]+?)(?::\d+)?\)$")
_PERF_ROW = re.compile(r"\s*([\d.]+)%\s+(\S+)\s+\[.\]\s+(.+)$")
PROPERTIES = {"broker.session.timeout.ms": "3600000"}


@dataclass(frozen=True, slots=True)
class Measured:
    """The CPU time per request under one load, in microseconds."""

    load: str
    requests: int
    partitions: int
    requests_per_second: float
    leader_us: float
    follower_us: float
    client_us: float
    functions_us: dict[str, dict[str, float]]
    """The time per function, by node; empty without a profiler."""


@click.command()
@click.option(
    "--load",
    "loads",
    type=click.Choice([*CONFIGS, *LOADS]),
    multiple=True,
    help="Measure this load; may be repeated. [default: all]",
)
@click.option("--seconds", default=5.0, show_default=True, help="Run each load for this time.")
@click.option("--profiler", type=click.Choice(["perf", "py-spy"]), help="Also print the costliest functions.")
@click.option(
    "--interpreted", is_flag=True, help="Measure the sources instead of the output of `make compile`."
)
@click.option("--package", type=click.Path(path_type=Path), help="Measure the quorumd in this directory.")
def main(
    loads: tuple[str, ...], seconds: float, profiler: str | None, interpreted: bool, package: Path | None
) -> None:
    """Load three daemons, print a table, and update build/bench/profile.json."""
    directory = (BUILD / "tmp-profile").resolve()
    console = Console(width=130)
    try:
        described = choose_package(Path.cwd() if interpreted else (package or COMPILED).resolve())
        measured = [measure(directory, load, seconds, profiler) for load in loads or [*CONFIGS, *LOADS]]
    except (BenchError, RequestFailed) as error:
        console.print(f"error: {error}", markup=False, style="red")
        sys.exit(1)
    table = Table(title=f"CPU time, quorumd {described}", box=box.SIMPLE_HEAD)
    for heading in (
        "load",
        "requests/s",
        "leader us/request",
        "us/partition",
        "follower us/request",
        "us/partition",
        "client us/request",
    ):
        table.add_column(heading, justify="right")
    for each in measured:
        share = each.requests / each.partitions if each.partitions else None
        table.add_row(
            each.load,
            f"{each.requests_per_second:,.0f}",
            f"{each.leader_us:,.1f}",
            f"{each.leader_us * share:.2f}" if share else "",
            f"{each.follower_us:,.1f}",
            f"{each.follower_us * share:.2f}" if share else "",
            f"{each.client_us:,.1f}",
        )
    console.print(table)
    for each in measured:
        for name, functions in each.functions_us.items():
            console.print(_functions(f"{each.load}, {name}: us of CPU per request", functions))
    report = {"quorumd": described, "loads": [asdict(each) for each in measured]}
    (BUILD / "profile.json").write_text(json.dumps(report, indent=2) + "\n")


def measure(directory: Path, load: str, seconds: float, profiler: str | None) -> Measured:
    """Start three nodes and run one load. Raises BenchError."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    members = Members(directory, NODES, NODES, PROPERTIES)
    try:
        for node_id in range(NODES):
            members.start(node_id)
        measured = uvloop.run(_measure(members, directory, load, seconds, profiler))
    finally:
        members.stop()
    shutil.rmtree(directory)
    return measured


async def _measure(
    members: Members, directory: Path, load: str, seconds: float, profiler: str | None
) -> Measured:
    async with members.admin() as admin:
        leader_id = (await admin.describe_quorum()).leader_id
        nodes = {
            "leader": members.processes[leader_id],
            "follower": members.processes[(leader_id + 1) % NODES],
        }
        if load in CONFIGS:
            return await _sampled(load, _configs(members, CONFIGS[load]), nodes, directory, seconds, profiler)
        kind = LOADS[load]
        cluster_id = (await admin.describe_cluster()).cluster_id
        fleet = await Fleet.register(*members.addresses[leader_id], cluster_id, kind.brokers)
        try:
            work = await kind.prepare(fleet, admin)
            return await _sampled(load, work, nodes, directory, seconds, profiler)
        finally:
            fleet.close()


def _configs(members: Members, in_flight: int) -> Work:
    async def work(seconds: float) -> Counts:
        before = await asyncio.to_thread(lambda: members.describe().high_watermark)
        await asyncio.to_thread(run_load, members.addresses, 200, in_flight, min(in_flight, 4), seconds)
        after = await asyncio.to_thread(lambda: members.describe().high_watermark)
        return Counts(after - before, 0)

    return work


async def _sampled(
    load: str, work: Work, nodes: Mapping[str, Process], directory: Path, seconds: float, profiler: str | None
) -> Measured:
    await work(WARM_UP_S)
    before = {name: node.cpu_seconds() for name, node in nodes.items()}
    stacks = {name: directory / f"{name}.{profiler}" for name in nodes if profiler}
    samplers = [_start_sampler(str(profiler), nodes[name], path, seconds) for name, path in stacks.items()]
    client_before = _client_seconds()
    counts = await work(seconds)
    client_us = (_client_seconds() - client_before) * 1e6 / max(1, counts.requests)
    used_us = {name: (node.cpu_seconds() - before[name]) * 1e6 for name, node in nodes.items()}
    for sampler in samplers:
        if await asyncio.to_thread(sampler.wait, 120):
            raise BenchError(f"the profiler failed; it needs permission to trace processes: {sampler.args!r}")
    per_request = {name: us / max(1, counts.requests) for name, us in used_us.items()}
    read = _read_perf if profiler == "perf" else _read_py_spy
    functions = {name: _scaled(read(path), per_request[name]) for name, path in stacks.items()}
    rate = counts.requests / seconds
    leader_us, follower_us = per_request["leader"], per_request["follower"]
    return Measured(
        load, counts.requests, counts.partitions, rate, leader_us, follower_us, client_us, functions
    )


def _client_seconds() -> float:
    """The CPU time of this process, and of its ended subprocesses, one of which sends the config writes."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _start_sampler(profiler: str, process: Process, output: Path, seconds: float) -> subprocess.Popen[bytes]:
    program = shutil.which(profiler) or shutil.which(profiler, path=str(Path(sys.executable).parent))
    if program is None:
        raise BenchError(f"{profiler} is not installed")
    duration, rate = str(max(1, int(seconds))), str(SAMPLES_PER_SECOND)
    commands = {
        "perf": ["record", "-q", "-F", rate, "-p", str(process.pid), "-o", str(output), "--", "sleep", duration],
        "py-spy": ["record", "--pid", str(process.pid), "--duration", duration, "--threads", "--rate", rate,
                   "--format", "raw", "--output", str(output), "--nonblocking"],
    }  # fmt: skip
    command = [program, *commands[profiler]]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _scaled(samples: Mapping[str, float], total_us: float) -> dict[str, float]:
    us_per_sample = total_us / max(1.0, sum(samples.values()))
    costliest = sorted(samples.items(), key=lambda pair: -pair[1])[:SHOWN]
    return {name: round(count * us_per_sample, 2) for name, count in costliest}


def _read_perf(output: Path) -> Mapping[str, float]:
    command = [
        "perf",
        "report",
        "-i",
        str(output),
        "--stdio",
        "--no-children",
        "--sort",
        "dso,symbol",
        "-g",
        "none",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    rows = (_PERF_ROW.match(line) for line in done.stdout.splitlines())
    return {f"{row[3].strip()} ({row[2][:24]})": float(row[1]) for row in rows if row}


def _read_py_spy(output: Path) -> Mapping[str, float]:
    """Return samples by the innermost function of quorumd: it includes the time of libraries and the kernel."""
    samples: Counter[str] = Counter()
    for line in output.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        samples[_owner(stack)] += int(count)
    return samples


def _owner(stack: str) -> str:
    for frame in reversed(stack.split(";")):
        parsed = _FRAME.match(frame)
        if parsed and (inside := parsed["file"].rpartition("quorumd/")[2]) != parsed["file"]:
            if inside == "runtime/daemon.py":
                break
            return f"{parsed['function']} ({inside})"
    return "event loop and sockets (uvloop)"


def _functions(title: str, functions: Mapping[str, float]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD)
    table.add_column("function", overflow="fold")
    table.add_column("us", justify="right")
    for name, us in functions.items():
        table.add_row(name, f"{us:.2f}")
    return table


if __name__ == "__main__":
    main()
