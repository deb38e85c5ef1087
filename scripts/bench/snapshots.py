"""A million configs: the cost of a snapshot build for concurrent writes, and the speed of loading and fetching it.

Three daemons are filled without building snapshots. Then, in turns, the same load runs without and with the
subprocess in which a leader builds its snapshots; ratios are of adjacent runs. Finally a new observer catches up by
FetchSnapshot, and the node with the snapshot is restarted.
"""

from __future__ import annotations

import asyncio
import pickle
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.node.snapshots.builder import BuiltSnapshot, build_snapshot
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from scripts.bench.members import Members
from scripts.bench.processes import BenchError, wait_until
from scripts.bench.quorumd_cluster import run_load
from scripts.bench.summary import Run, print_missed, update_json

P99_TARGET = 1.5
"""The ratio of the p99 of commits during a snapshot build to the p99 without."""
VOTERS = 3
OBSERVER = 3
RECORDS = 1_000_000
RESOURCES, CONFIGS = 100, 10
"""Resources per request, and configs per resource."""
VALUE_BYTES = 200
LEVELS = (1, 16)
"""Writes in flight."""
PROPERTIES = {
    "metadata.log.max.record.bytes.between.snapshots": "1024GiB",
    "metadata.log.max.snapshot.interval.ms": "0",
}
MB = 1_000_000
FETCHED_S = 600.0


@dataclass(frozen=True, slots=True)
class SnapshotImpact:
    """The same load without and with snapshot builds."""

    in_flight: int
    without: Run
    meanwhile: Run
    build_seconds: float
    """Seconds of a build in a subprocess under this load, from the previous snapshot and the log after it."""

    @property
    def ratio(self) -> float:
        return self.meanwhile.latency.p99_ms / self.without.latency.p99_ms


@dataclass(frozen=True, slots=True)
class CatchUp:
    """The catch-up of a new observer."""

    fetch_seconds: float
    """Seconds from the first chunk of the snapshot to the last."""
    level_seconds: float
    """Seconds from its start until its log reaches the high watermark; loading may still continue."""


@dataclass(slots=True)
class SnapshotReport:
    package: str
    """Description of the measured package."""
    records: int
    fill_seconds: float
    size: int
    """Size of the snapshot in bytes."""
    build_seconds: float
    """Seconds of a build from the whole log, without load."""
    impacts: list[SnapshotImpact]
    start_seconds: list[float]
    """Seconds until a restarted node accepts connections, with the snapshot loaded."""
    empty_start_seconds: float
    catch_ups: list[CatchUp]

    def ratio(self, in_flight: int) -> float:
        return statistics.median(each.ratio for each in self.impacts if each.in_flight == in_flight)

    @property
    def megabytes_per_second(self) -> list[float]:
        return [self.size / MB / each.fetch_seconds for each in self.catch_ups]

    def missed(self) -> list[str]:
        """Return a sentence per missed target."""
        return [
            f"the p99 of commits with {in_flight} in flight is {self.ratio(in_flight):.2f} times as long during a "
            f"snapshot build, the target is {P99_TARGET}"
            for in_flight in LEVELS
            if self.ratio(in_flight) > P99_TARGET
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "quorumd": self.package,
            "records": self.records,
            "fill_seconds": self.fill_seconds,
            "bytes": self.size,
            "build_seconds": self.build_seconds,
            "p99_ratio": {str(in_flight): self.ratio(in_flight) for in_flight in LEVELS},
            "beside": [asdict(each) for each in self.impacts],
            "start_seconds": self.start_seconds,
            "empty_start_seconds": self.empty_start_seconds,
            "fetch_megabytes_per_second": self.megabytes_per_second,
            "catch_ups": [asdict(each) for each in self.catch_ups],
            "missed": self.missed(),
        }

    def write_json(self, path: Path) -> None:
        update_json(path, {"snapshots": self.as_json()})

    def print(self, console: Console) -> None:
        title = f"A snapshot of {self.records:,} configs ({self.size / MB:.0f} MB) is built during writes"
        table = Table(title=title, box=box.SIMPLE_HEAD)
        for heading in (
            "in flight",
            "writes/s\nwithout",
            "\nmeanwhile",
            "p99 ms\nwithout",
            "\nmeanwhile",
            "p99 ratio\n(min to max)",
            "target",
            "build s",
        ):
            table.add_column(heading, justify="right", no_wrap=True)
        for in_flight in LEVELS:
            some = [each for each in self.impacts if each.in_flight == in_flight]
            ratios = [each.ratio for each in some]
            table.add_row(
                str(in_flight),
                f"{statistics.median(each.without.writes_per_second for each in some):,.0f}",
                f"{statistics.median(each.meanwhile.writes_per_second for each in some):,.0f}",
                f"{statistics.median(each.without.latency.p99_ms for each in some):.2f}",
                f"{statistics.median(each.meanwhile.latency.p99_ms for each in some):.2f}",
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
                f"{P99_TARGET}",
                f"{statistics.median(each.build_seconds for each in some):.1f}",
            )
        console.print(table)
        level = statistics.median(each.level_seconds for each in self.catch_ups)
        console.print(
            f"quorumd: {self.package}\n"
            f"filled in {self.fill_seconds:.1f} s; built from the whole log, without load, "
            f"in {self.build_seconds:.1f} s\n"
            f"start of a node with the snapshot: {statistics.median(self.start_seconds):.1f} s, of an empty node: "
            f"{self.empty_start_seconds:.1f} s\n"
            f"FetchSnapshot by a new observer: {statistics.median(self.megabytes_per_second):.1f} MB/s; "
            f"it has the whole log {level:.1f} s after its start"
        )
        print_missed(console, self.missed())


def measure_snapshots(
    directory: Path,
    package: str,
    seconds: float,
    rounds: int,
    echo: Callable[[str], None],
    records: int = RECORDS,
) -> SnapshotReport:
    """Run all measurements. Raises BenchError; all started processes are stopped."""
    shutil.rmtree(directory, ignore_errors=True)
    members = Members(directory.resolve(), VOTERS + 1, VOTERS, PROPERTIES)
    try:
        empty_start = statistics.median(members.start(node_id) for node_id in range(VOTERS))
        echo(f"filling three quorumd daemons with {records:,} configs")
        fill_seconds = asyncio.run(_fill(members, records))
        build_seconds, built = build(members)
        echo(f"filled in {fill_seconds:.1f} s, built in {build_seconds:.1f} s: {built.records:,} records")
        impacts = [
            _measure_impact(members, in_flight, seconds, echo) for _ in range(rounds) for in_flight in LEVELS
        ]
        leader = members.describe().leader_id
        _, built = build(members)
        catch_ups = [_catch_up(members, echo) for _ in range(rounds)]
        starts = []
        for _ in range(rounds):
            members.stop(leader)
            starts.append(members.start(leader))
            echo(f"node {leader} started in {starts[-1]:.1f} s")
    finally:
        members.stop()
    shutil.rmtree(directory)
    return SnapshotReport(
        package,
        built.records,
        fill_seconds,
        built.size,
        build_seconds,
        impacts,
        starts,
        empty_start,
        catch_ups,
    )


async def _fill(members: Members, records: int) -> float:
    """Write configs of brokers, many per request; return the seconds."""
    numbers = iter(range(records // (RESOURCES * CONFIGS)))
    began = time.perf_counter()
    async with members.admin() as admin:

        async def write() -> None:
            for number in numbers:
                response = await admin.send(_many_configs(number), "leader")
                assert isinstance(response, IncrementalAlterConfigsResponse)
                if codes := {each.error_code for each in response.responses} - {0}:
                    raise BenchError(f"writing configs failed with the error codes {codes}")

        await asyncio.gather(write(), write(), write())
    return time.perf_counter() - began


def _many_configs(number: int) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        [
            AlterConfigsResource(
                ConfigResourceType.BROKER,
                str(number * RESOURCES + broker),
                [
                    AlterableConfig(f"setting-{at}", 0, f"value-{number}-{broker}-{at}")
                    for at in range(CONFIGS)
                ],
            )
            for broker in range(RESOURCES)
        ]
    )


def build(members: Members) -> tuple[float, BuiltSnapshot]:
    """Build a snapshot at the leader's high watermark; return the seconds and the result. Raises BenchError."""
    quorum = members.describe()
    directory = str(members.data_directory(quorum.leader_id))
    job = partial(build_snapshot, data_directory=directory, end_offset=quorum.high_watermark, token="bench")
    began = time.perf_counter()
    command = [sys.executable, "-P", "-m", "quorumd.runtime.job_process"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(pickle.dumps(job))
        process.stdin.flush()
        # Keep the standard input of the process open: the process stops when it is closed.
        response = process.stdout.read()
    built = pickle.loads(response)[0] if response else None
    if not isinstance(built, BuiltSnapshot) or not built.is_new:
        raise BenchError(f"no snapshot was built in {directory}: {built}")
    return time.perf_counter() - began, built


def _measure_impact(
    members: Members, in_flight: int, seconds: float, echo: Callable[[str], None]
) -> SnapshotImpact:
    """Run the load without and with snapshot builds, one after the other."""
    connections = min(4, in_flight)
    without = run_load(members.addresses, VALUE_BYTES, in_flight, connections, seconds)
    ended = Event()

    def build_on() -> list[float]:
        seconds = []
        while not ended.is_set():
            seconds.append(build(members)[0])
        return seconds

    with ThreadPoolExecutor(1) as pool:
        building = pool.submit(build_on)
        try:
            meanwhile = run_load(members.addresses, VALUE_BYTES, in_flight, connections, seconds)
        finally:
            ended.set()
    built = building.result()
    done = SnapshotImpact(in_flight, without, meanwhile, statistics.median(built))
    echo(
        f"{in_flight} in flight: p99 {without.latency.p99_ms:.2f} ms, {done.ratio:.2f} times as long during "
        f"{len(built)} snapshot builds"
    )
    return done


def _catch_up(members: Members, echo: Callable[[str], None]) -> CatchUp:
    shutil.rmtree(members.data_directory(OBSERVER), ignore_errors=True)
    committed = members.describe().high_watermark
    directory = members.partition_directory(OBSERVER)
    began = time.perf_counter()
    members.start(OBSERVER)
    processes = list(members.processes.values())
    wait_until(
        "the first piece of a snapshot", lambda: any(directory.glob("*.checkpoint*")), processes, FETCHED_S
    )
    first = time.perf_counter()
    wait_until("the whole snapshot", lambda: any(directory.glob("*.checkpoint")), processes, FETCHED_S)
    whole = time.perf_counter()

    def is_level() -> bool:
        return any(
            observer.replica_id == OBSERVER and observer.log_end_offset >= committed
            for observer in members.describe().observers
        )

    wait_until("the observer to catch up", is_level, processes, FETCHED_S)
    done = CatchUp(whole - first, time.perf_counter() - began)
    members.stop(OBSERVER)
    echo(
        f"a snapshot was fetched in {done.fetch_seconds:.2f} s, the whole log after {done.level_seconds:.2f} s"
    )
    return done
