"""A million partitions on one node: memory, loading, snapshot build, fencing of a broker, and the cost of a change of
one partition among few and among all.

A log is filled without a node, and its snapshot is built. A daemon is started with both and measured while it fences
a broker. The cost of single changes is measured in a separate process (`partition_image`).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.client.admin import AdminClient
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from scripts.bench.members import Members
from scripts.bench.processes import BenchError, wait_until
from scripts.bench.summary import update_json

PROGRAM = Path(__file__).with_name("partition_image.py").resolve()
TOPICS = 10_000
NODE = 0
FENCED_BROKER = 1
"""The id of the fenced broker in `partition_image`, and its epoch."""
MAX_HEARTBEATS = 1_000
MEMORY_LIMIT_MIB = 1.2 * 1024
LOAD_LIMIT_S = 30.0
START_S = 300.0
"""The timeout for the node to lead: a start that exceeds LOAD_LIMIT_S is reported and does not end the run."""
FENCE_LIMIT_S = 3.0
RATIO_LIMIT = 1.3
PROPERTIES = {
    "metadata.log.max.record.bytes.between.snapshots": "1024GiB",
    "metadata.log.max.snapshot.interval.ms": "0",
    # Only the broker to be fenced sends heartbeats.
    "broker.session.timeout.ms": "3600000",
}


@dataclass(frozen=True, slots=True)
class Daemon:
    """The start of a node from the snapshot."""

    start_seconds: float
    """Time until the node leads, with the snapshot loaded."""
    start_cpu_seconds: float
    resident_mib: float
    fence_seconds: float
    """Time from the first heartbeat that requests fencing to its confirmation, with all changes committed."""


@dataclass(slots=True)
class PartitionReport:
    package: str
    """Description of the measured package."""
    built: dict[str, Any]
    daemon: Daemon
    measured: dict[str, Any]
    """The figures of `partition_image.measure`."""

    def figures(self) -> list[tuple[str, float, float, str]]:
        """Return the figures with limits, as (name, figure, limit, unit)."""
        return [
            ("resident memory of the node", self.daemon.resident_mib, MEMORY_LIMIT_MIB, "MiB"),
            ("start of the node, from the snapshot", self.daemon.start_seconds, LOAD_LIMIT_S, "s"),
            (
                f"fencing a broker that leads {self.measured['fence_led']:,}, until committed",
                self.daemon.fence_seconds,
                FENCE_LIMIT_S,
                "s",
            ),
            (
                "a change of one partition, compared with a change among 10,000",
                self.measured["change_ratio"],
                RATIO_LIMIT,
                "x",
            ),
        ]

    def missed(self) -> list[str]:
        """Return a sentence per exceeded limit."""
        count = f"{self.measured['partitions']:,} partitions"
        return [
            f"{count}: {name}: {figure:,.2f} {unit}, the limit is {limit:,g} {unit}"
            for name, figure, limit, unit in self.figures()
            if figure > limit
        ]

    def as_json(self) -> dict[str, Any]:
        daemon = self.daemon
        return {
            "quorumd": self.package,
            **self.measured,
            "build": self.built,
            "start_seconds": daemon.start_seconds,
            "start_cpu_seconds": daemon.start_cpu_seconds,
            "resident_mib": daemon.resident_mib,
            "fence_seconds": daemon.fence_seconds,
            "missed": self.missed(),
        }

    def write_json(self, path: Path) -> None:
        update_json(path, {"partitions": self.as_json()})

    def print(self, console: Console) -> None:
        measured, built = self.measured, self.built
        table = Table(
            title=f"{measured['partitions']:,} partitions with three replicas on one node",
            box=box.SIMPLE_HEAD,
        )
        table.add_column("")
        for heading in ("figure", "limit"):
            table.add_column(heading, justify="right", no_wrap=True)
        for name, figure, limit, unit in self.figures():
            table.add_row(name, f"{figure:,.2f} {unit}", f"{limit:,g} {unit}")
        console.print(table)
        parts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in measured["fence_parts"].items())
        megabytes = measured["fence_bytes"] / 1e6
        console.print(
            f"quorumd: {self.package}\n"
            f"start: {self.daemon.start_cpu_seconds:.1f} s of CPU time; the image alone: "
            f"{measured['image_mib']:.0f} MiB, loaded in {measured['load_cpu_seconds']:.1f} s of CPU time\n"
            f"snapshot: {built['size'] / 1e6:.0f} MB, built from the log in {built['cpu_seconds']:.1f} s of CPU time "
            f"and {built['peak_mib']:.0f} MiB of memory\n"
            f"fencing: {measured['fence_records'] - 1:,} partitions change, {megabytes:.1f} MB of records; {parts}\n"
            f"a change planned, encoded and applied: {measured['change_us_few']:.1f} µs among 10,000 partitions, "
            f"{measured['change_us_many']:.1f} µs among all"
        )
        for sentence in self.missed():
            console.print(f"[red]missed[/red]: {sentence}")
        if not self.missed():
            console.print("[green]no limit exceeded[/green]")


def measure_partitions(
    directory: Path, package: str, echo: Callable[[str], None], topics: int = TOPICS
) -> PartitionReport:
    """Run all measurements. Raises BenchError; all started processes are stopped."""
    shutil.rmtree(directory, ignore_errors=True)
    members = Members(directory.resolve(), 1, 1, PROPERTIES)
    try:
        members.start(NODE)
        _wait_for_leader(members)
        members.stop()
        echo(f"filling a log with {topics:,} topics of 100 partitions")
        filled = _run("fill", members, topics)
        echo("building the snapshot")
        built = _run("build", members, filled["end_offset"])
        daemon = _measure_daemon(members)
        echo(
            f"started in {daemon.start_seconds:.1f} s with {daemon.resident_mib:.0f} MiB, "
            f"fenced a broker in {daemon.fence_seconds:.2f} s"
        )
        measured = _run("measure", members, topics)
    finally:
        members.stop()
    shutil.rmtree(directory)
    return PartitionReport(package, built, daemon, measured)


def _measure_daemon(members: Members) -> Daemon:
    began = time.perf_counter()
    members.start(NODE)
    _wait_for_leader(members)
    seconds = time.perf_counter() - began
    process = members.processes[NODE]
    cpu_seconds = process.cpu_seconds()
    resident_mib = process.resident_mib()
    began = time.perf_counter()
    members.request(_fence_broker)
    fence_seconds = time.perf_counter() - began
    members.stop()
    return Daemon(seconds, cpu_seconds, resident_mib, fence_seconds)


async def _fence_broker(admin: AdminClient) -> None:
    await fence_broker(lambda request: admin.request(request, BrokerHeartbeatResponse, "leader"))


async def fence_broker(send: Callable[[BrokerHeartbeatRequest], Awaitable[BrokerHeartbeatResponse]]) -> int:
    """Send heartbeats that request fencing until the broker is fenced; return their number.

    Each heartbeat removes the broker from at most `ControllerSettings.max_partitions_per_step` partitions. Raises
    BenchError.
    """
    request = BrokerHeartbeatRequest(FENCED_BROKER, FENCED_BROKER, 1 << 40, True, False)
    for sent in range(1, MAX_HEARTBEATS + 1):
        response = await send(request)
        if response.error_code:
            raise BenchError(f"the heartbeat of broker {FENCED_BROKER} failed: {response}")
        if response.is_fenced:
            return sent
    raise BenchError(
        f"broker {FENCED_BROKER} is not fenced after {MAX_HEARTBEATS} heartbeats that request it"
    )


def _wait_for_leader(members: Members) -> None:
    def leads() -> bool:
        try:
            return members.describe().high_watermark > 0
        except BenchError:
            return False

    wait_until("the node to lead", leads, list(members.processes.values()), START_S)


def _run(job: str, members: Members, number: int) -> dict[str, Any]:
    """Run `partition_image`. Raises BenchError."""
    job = json.dumps({"do": job, "directory": str(members.data_directory(NODE)), "number": number})
    result = subprocess.run([sys.executable, str(PROGRAM), job], capture_output=True, text=True)
    if result.returncode:
        raise BenchError(f"partition_image {job} failed: {result.stdout}{result.stderr}")
    parsed: dict[str, Any] = json.loads(result.stdout)
    return parsed
