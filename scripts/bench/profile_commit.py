"""Profiles the CPU time of a committed write on the leader and on a follower.

    python -m scripts.bench.profile_commit [--in-flight 64] [--seconds 10]

py-spy samples the running daemons from outside, without instrumentation. The CPU time per write comes from /proc and
is exact; the samples divide it. A sample belongs to the innermost frame of quorumd's own code: library and kernel
time of `runtime/network` counts as `runtime/network`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from scripts.bench.processes import BenchError, Process
from scripts.bench.quorumd_cluster import QuorumdCluster

BUILD = Path("build/bench")
SAMPLES_PER_SECOND = 400
EVENT_LOOP = "event loop and sockets (uvloop)"
_FRAME = re.compile(r"(?P<function>.+) \((?P<file>[^()]+?)(?::\d+)?\)$")


@dataclass(frozen=True, slots=True)
class Profile:
    """One daemon during the run. Microseconds of CPU per write."""

    name: str
    total_us: float
    modules_us: dict[str, float]
    functions_us: dict[str, float]


@click.command()
@click.option("--in-flight", default=64, show_default=True)
@click.option("--connections", default=1, show_default=True)
@click.option("--seconds", default=10.0, show_default=True)
def main(in_flight: int, connections: int, seconds: float) -> None:
    """Load three daemons, sample leader and one follower, print a table, write build/bench/profile.json."""
    folder = (BUILD / "tmp-profile").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    console = Console(width=110)
    try:
        profiles, writes_per_second = measure(folder, in_flight, connections, seconds)
    except BenchError as error:
        console.print(f"error: {error}", markup=False, style="red")
        sys.exit(1)
    shutil.rmtree(folder)
    title = f"{in_flight} in flight, {writes_per_second:,.0f} writes/s"
    for profile in profiles:
        console.print(_table(f"{profile.name}, {title}: us of CPU a write", profile))
    report = {
        "in_flight": in_flight,
        "writes_per_second": writes_per_second,
        "daemons": {
            profile.name: {
                "total_us": profile.total_us,
                "modules_us": profile.modules_us,
                "functions_us": profile.functions_us,
            }
            for profile in profiles
        },
    }
    (BUILD / "profile.json").write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"written to {BUILD / 'profile.json'}")


def measure(folder: Path, in_flight: int, connections: int, seconds: float) -> tuple[list[Profile], float]:
    """Profile the leader and one follower under load; returns the profiles and writes/s. Raises BenchError."""
    program = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if program is None:
        raise BenchError(f"py-spy is not installed: {sys.executable} -m pip install py-spy")
    cluster = QuorumdCluster(folder / "quorumd")
    try:
        cluster.run(200, in_flight, connections, 1)
        leader, follower = cluster.leader_and_a_follower()
        sampled = {"leader": leader, "follower": follower}
        cpu_before = {name: process.cpu_seconds() for name, process in sampled.items()}
        samplers = [
            _start_sampler(program, process, folder / f"{name}.stacks", seconds)
            for name, process in sampled.items()
        ]
        run = cluster.run(200, in_flight, connections, seconds)
        cpu = {name: process.cpu_seconds() - cpu_before[name] for name, process in sampled.items()}
        for sampler in samplers:
            if sampler.wait(60):
                raise BenchError(f"py-spy failed; it needs the right to trace: {sampler.args!r}")
    finally:
        cluster.stop()
    profiles = [
        _profile(name, folder / f"{name}.stacks", cpu[name] * 1e6 / run.latency.count) for name in sampled
    ]
    return profiles, run.writes_per_second


def _start_sampler(program: str, process: Process, output: Path, seconds: float) -> subprocess.Popen[bytes]:
    command = [
        program, "record", "--pid", str(process.pid), "--duration", str(max(1, int(seconds))), "--threads",
        "--rate", str(SAMPLES_PER_SECOND), "--format", "raw", "--output", str(output), "--nonblocking",
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _profile(name: str, stacks: Path, total_us: float) -> Profile:
    modules: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for line in stacks.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        module, function = _owner(stack)
        modules[module] += int(count)
        functions[f"{module}:{function}" if function else module] += int(count)
    us_a_sample = total_us / max(1, modules.total())
    return Profile(
        name,
        total_us,
        {module: count * us_a_sample for module, count in modules.most_common()},
        {function: count * us_a_sample for function, count in functions.most_common(25)},
    )


def _owner(stack: str) -> tuple[str, str]:
    """Module and function of quorumd's innermost frame of one stack."""
    for frame in reversed(stack.split(";")):
        parsed = _FRAME.match(frame)
        if parsed and (inside := parsed["file"].rpartition("quorumd/")[2]) != parsed["file"]:
            if inside == "runtime/daemon.py":
                break
            return inside.removesuffix(".py"), parsed["function"]
    return EVENT_LOOP, ""


def _table(title: str, profile: Profile) -> Table:
    table = Table(title=title)
    table.add_column("module")
    table.add_column("us", justify="right")
    table.add_column("share", justify="right")
    table.add_column("of that, most in")
    for module, us in profile.modules_us.items():
        if us < profile.total_us * 0.01:
            continue
        inside = [
            f"{name.partition(':')[2]} {spent:.1f}"
            for name, spent in profile.functions_us.items()
            if name.startswith(f"{module}:")
        ]
        table.add_row(module, f"{us:.1f}", f"{us / profile.total_us:.0%}", ", ".join(inside[:3]))
    table.add_row("all", f"{profile.total_us:.1f}", "100%", "")
    return table


if __name__ == "__main__":
    main()
