"""A long run of three nodes under a fixed load: latencies, memory, stalls, snapshots, changes of the leader.

Stand-in brokers are registered, send heartbeats and lead many partitions. Changes are sent at a fixed rate whether or
not earlier ones have responses (`soak_load`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import uvloop
from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.errors import RequestFailed
from scripts.bench.members import Members
from scripts.bench.processes import BenchError, Process, free_ports
from scripts.bench.soak_figures import (
    Growth,
    buckets_since,
    growth,
    longest_bucket,
    parse_metrics,
    percentile,
    settled,
)
from scripts.bench.soak_load import CONFIG_WRITES, ISR_CHANGES, Outcome, SoakLoad
from scripts.bench.summary import print_missed, update_json

NODES = 3
SECONDS = 3600.0
STALL_LIMIT_MS = 50.0
JUDGED_AFTER_S = 600.0
"""A shorter run says nothing about the growth of memory: caches still fill."""
PERCENTS = (50, 99, 99.9, 100)
MAX_SAMPLE_INTERVAL_S = 60.0
SAMPLES = 10
"""The least number of samples of the memory."""
SNAPSHOTS = 10
"""The number of snapshots that each node may build in a run."""
SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 1.0, 120.0
"""Bounds of the interval between snapshots."""
SESSION = {"broker.session.timeout.ms": "30000"}
"""Longer than the default: brokers that a busy machine keeps from sending heartbeats are not fenced."""
EVENTS, DELAYS = "quorumd_event_processing_seconds", "quorumd_event_loop_delay_seconds"
BUILDS, LEADERS = "quorumd_snapshot_builds_total", "quorumd_controller_leader_changes_total"


@dataclass(frozen=True, slots=True)
class Case:
    """The size of a soak."""

    brokers: int = 100
    partitions_per_broker: int = 1_000
    changes_per_second: float = 1_000.0


SHORT_CASE = Case(4, 10, 40.0)


@dataclass(slots=True)
class NodeFigures:
    """The figures of one node."""

    resident_mib: list[tuple[float, float]] = field(default_factory=list)
    """(seconds since the start of the load, MiB)"""
    longest_event_ms: tuple[float, float] = (0.0, 0.0)
    """The bucket of the longest time that the event thread took to handle one event."""
    longest_delay_ms: tuple[float, float] = (0.0, 0.0)
    """The bucket of the longest delay of scheduled work among the samples that the node takes once per second."""
    cpu_share: float = 0.0
    """CPU time of the process per second."""
    core_wait_share: float = 0.0
    """The share of the time for which the event thread was runnable but had no core, because of other load."""
    snapshots: int = 0
    leaders: int = 0
    """The leaders that the node learned of during the load."""

    @property
    def growth(self) -> Growth:
        """The growth of the memory, in MiB per hour."""
        return growth(settled(self.resident_mib))


@dataclass(slots=True)
class SoakReport:
    package: str
    case: Case
    seconds: float
    outcome: Outcome
    nodes: list[NodeFigures]
    machine_load: tuple[float, float]
    """The average number of runnable processes on the machine at the start and at the end, including these."""

    @property
    def leader_changes(self) -> int:
        return max(node.leaders for node in self.nodes)

    def latencies(self) -> dict[str, list[float]]:
        """Return the percentiles PERCENTS of each kind of change, and of all, in ms."""
        samples = self.outcome.latencies_ms
        every = {"all changes": [*samples[ISR_CHANGES], *samples[CONFIG_WRITES]], **samples}
        return {
            name: [percentile(ordered, percent) for percent in PERCENTS]
            for name, ordered in ((name, sorted(values)) for name, values in every.items())
        }

    def missed(self) -> list[str]:
        """Return a sentence per missed target: no failure, no growth of memory, no stall above STALL_LIMIT_MS."""
        sentences = [f"{count:,} failures: {reason}" for reason, count in self.outcome.failures.items()]
        for number, node in enumerate(self.nodes):
            if node.growth.is_certain and self.seconds >= JUDGED_AFTER_S:
                sentences.append(
                    f"the memory of node {number} grows by {node.growth.per_hour:.1f} MiB per hour "
                    f"(+- {node.growth.uncertainty:.1f})"
                )
            lower, _ = max(node.longest_event_ms, node.longest_delay_ms)
            if lower >= STALL_LIMIT_MS:
                sentences.append(
                    f"the event thread of node {number} stalled for more than {lower:.0f} ms, the limit is "
                    f"{STALL_LIMIT_MS:.0f} ms"
                )
        return sentences

    def as_json(self) -> dict[str, Any]:
        return {
            "quorumd": self.package,
            "seconds": self.seconds,
            "brokers": self.case.brokers,
            "partitions": self.case.brokers * self.case.partitions_per_broker,
            "changes_per_second": self.case.changes_per_second,
            "committed": self.outcome.committed,
            "failures": dict(self.outcome.failures),
            "percents": PERCENTS,
            "latency_ms": self.latencies(),
            "leader_changes": self.leader_changes,
            "machine_load": self.machine_load,
            "nodes": [
                {
                    "resident_mib": node.resident_mib,
                    "growth_mib_per_hour": node.growth.per_hour,
                    "growth_uncertainty": node.growth.uncertainty,
                    "longest_event_ms": node.longest_event_ms,
                    "longest_delay_ms": node.longest_delay_ms,
                    "cpu_share": node.cpu_share,
                    "core_wait_share": node.core_wait_share,
                    "snapshots": node.snapshots,
                }
                for node in self.nodes
            ],
            "missed": self.missed(),
        }

    def write_json(self, path: Path) -> None:
        update_json(path, {"soak": self.as_json()})

    def print(self, console: Console) -> None:
        case = self.case
        console.print(
            f"Soak of {self.seconds:,g} s: {case.brokers} brokers, "
            f"{case.brokers * case.partitions_per_broker:,} partitions, {case.changes_per_second:,.0f} changes/s; "
            f"{self.outcome.committed:,} committed, {self.outcome.failures.total():,} failed, "
            f"{self.leader_changes} changes of the leader",
            highlight=False,
        )
        table = Table(title="ms from the time at which a change was due", box=box.SIMPLE_HEAD)
        table.add_column("")
        for heading in ("p50", "p99", "p99.9", "largest"):
            table.add_column(heading, justify="right")
        for name, values in self.latencies().items():
            table.add_row(name, *(f"{value:,.2f}" for value in values))
        console.print(table)
        self._print_nodes(console)
        console.print(f"quorumd: {self.package}; load of the machine: {self.machine_load}", highlight=False)
        print_missed(console, self.missed())

    def _print_nodes(self, console: Console) -> None:
        table = Table(box=box.SIMPLE_HEAD)
        for heading in (
            "node",
            "MiB: start",
            "end",
            "largest",
            "MiB/hour, last two thirds",
            "CPU",
            "no core",
            "longest event",
            "longest delay",
            "snapshots",
        ):
            table.add_column(heading, justify="right")
        for number, node in enumerate(self.nodes):
            sizes = [mib for _, mib in node.resident_mib]
            table.add_row(
                str(number),
                *(f"{mib:.1f}" for mib in (sizes[0], sizes[-1], max(sizes))),
                f"{node.growth.per_hour:+.1f} +- {node.growth.uncertainty:.1f}",
                *(f"{share * 100:.1f} %" for share in (node.cpu_share, node.core_wait_share)),
                *(f"{low:g} to {high:g} ms" for low, high in (node.longest_event_ms, node.longest_delay_ms)),
                str(node.snapshots),
            )
        console.print(table)


class SoakMembers(Members):
    """Nodes with metrics, and with snapshots after `interval_s`."""

    def __init__(self, directory: Path, interval_s: float) -> None:
        super().__init__(
            directory,
            NODES,
            NODES,
            {"metadata.log.max.snapshot.interval.ms": f"{round(interval_s * 1000)}", **SESSION},
        )
        self._metrics_ports = free_ports(NODES)

    def scrape(self, node_id: int) -> dict[str, float]:
        """Return a node's metrics by name with labels."""
        with urlopen(f"http://127.0.0.1:{self._metrics_ports[node_id]}/metrics", timeout=60) as page:
            return parse_metrics(page.read().decode())

    def _lines(self, node_id: int) -> dict[str, str]:
        return super()._lines(node_id) | {"metrics.listener": f"127.0.0.1:{self._metrics_ports[node_id]}"}


def measure_soak(
    directory: Path, package: str, seconds: float, echo: Callable[[str], None], case: Case
) -> SoakReport:
    """Run the soak. Raises BenchError; all started processes are stopped."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    interval_s = min(max(SHORTEST_INTERVAL_S, seconds / SNAPSHOTS), LONGEST_INTERVAL_S)
    members = SoakMembers(directory.resolve(), interval_s)
    try:
        for node_id in range(NODES):
            members.start(node_id)
        report = uvloop.run(_measure(members, package, seconds, echo, case))
    except (RequestFailed, TimeoutError, OSError) as error:
        raise BenchError(f"during the soak: {error}; the logs are in {directory}") from None
    finally:
        members.stop()
    shutil.rmtree(directory)
    return report


async def _measure(
    members: SoakMembers, package: str, seconds: float, echo: Callable[[str], None], case: Case
) -> SoakReport:
    echo(f"creating {case.brokers * case.partitions_per_broker:,} partitions")
    async with members.admin() as admin:
        load = SoakLoad(admin)
        try:
            await load.start(case.brokers, case.partitions_per_broker)
            nodes, machine_load = await _measure_nodes(members, load, seconds, echo, case)
        finally:
            load.close()
    return SoakReport(package, case, seconds, load.outcome, nodes, machine_load)


async def _measure_nodes(
    members: SoakMembers, load: SoakLoad, seconds: float, echo: Callable[[str], None], case: Case
) -> tuple[list[NodeFigures], tuple[float, float]]:
    """Run the load; return the figures of the nodes, and the load of the machine at the start and at the end."""
    before = [members.scrape(node_id) for node_id in range(NODES)]
    processes = [members.processes[node_id] for node_id in range(NODES)]
    cpu_s = [process.cpu_seconds() for process in processes]
    wait_s = [process.core_wait_seconds() for process in processes]
    nodes = [NodeFigures() for _ in range(NODES)]
    began, machine_load = time.perf_counter(), os.getloadavg()[0]
    sampling = asyncio.create_task(_sample(members.processes, nodes, seconds, echo))
    await load.run(case.changes_per_second, seconds)
    await sampling
    took = time.perf_counter() - began
    for node_id, node in enumerate(nodes):
        after = await asyncio.to_thread(members.scrape, node_id)
        _read_metrics(node, before[node_id], after)
        node.cpu_share = (processes[node_id].cpu_seconds() - cpu_s[node_id]) / took
        node.core_wait_share = (processes[node_id].core_wait_seconds() - wait_s[node_id]) / took
    return nodes, (machine_load, os.getloadavg()[0])


async def _sample(
    processes: Mapping[int, Process], nodes: list[NodeFigures], seconds: float, echo: Callable[[str], None]
) -> None:
    """Read the memory of all nodes at the start, at the end and at equal intervals between."""
    count = max(SAMPLES, round(seconds / MAX_SAMPLE_INTERVAL_S))
    began = time.perf_counter()
    for number in range(count + 1):
        await asyncio.sleep(max(0.0, began + number * seconds / count - time.perf_counter()))
        now = time.perf_counter() - began
        for node_id, node in enumerate(nodes):
            processes[node_id].check_alive()
            node.resident_mib.append((now, processes[node_id].resident_mib()))
        sizes = ", ".join(f"{node.resident_mib[-1][1]:.1f}" for node in nodes)
        echo(f"{now:,.0f} s: {sizes} MiB")


def _read_metrics(node: NodeFigures, before: Mapping[str, float], after: Mapping[str, float]) -> None:
    """Store what the metrics of a node say about the time between two pages."""
    for name, metric in (("longest_event_ms", EVENTS), ("longest_delay_ms", DELAYS)):
        lower, upper = longest_bucket(buckets_since(metric, before, after))
        setattr(node, name, (lower * 1000, upper * 1000))
    node.snapshots = round(after[BUILDS] - before[BUILDS])
    node.leaders = round(after[LEADERS] - before[LEADERS])
