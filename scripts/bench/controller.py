"""ISR changes per second that three daemons commit, and the time to create many partitions.

Each leader has one AlterPartition request in flight, like a broker: the next one is sent when the previous one is
committed. A request changes one partition, or a thousand. Changes of one partition are compared with Puts to etcd of
about the size of the record, in the same minute.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop
from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.client.admin import AdminClient
from quorumd.errors import RequestFailed
from quorumd.protocol.messages import create_topics_request as creation
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse
from scripts.bench.broker_fleet import FIRST_BROKER, Fleet
from scripts.bench.etcd import EtcdCluster
from scripts.bench.isr_load import create_leaders, run_load
from scripts.bench.members import Members
from scripts.bench.processes import BenchError
from scripts.bench.summary import Run, update_json

IN_FLIGHT = (1, 16, 64, 256)
BATCH = 1000
BATCHES_IN_FLIGHT = 4
RECORD_BYTES = 60
"""The size of an ISR change with its framing, and of the values of etcd."""
MANY_TOPICS, PARTITIONS_PER_TOPIC, TOPICS_PER_REQUEST = 100, 1000, 10


@dataclass(slots=True)
class IsrLevel:
    """Runs with `in_flight` requests in flight, each of which changes `partitions` partitions."""

    in_flight: int
    partitions: int
    changes: list[Run] = field(default_factory=list)
    """ISR changes of quorumd."""
    puts: list[Run] = field(default_factory=list)
    """Puts of etcd; empty if a request changes more than one partition."""

    @property
    def ratios(self) -> list[float]:
        return [
            ours.writes_per_second / theirs.writes_per_second
            for ours, theirs in zip(self.changes, self.puts, strict=False)
        ]


@dataclass(slots=True)
class ControllerReport:
    package: str
    levels: list[IsrLevel]
    created_partitions: int
    creation_s: list[float]
    """The time to create `created_partitions`, with one request after the other, in each round."""

    def missed(self) -> list[str]:
        """Return an empty list: this benchmark has no target."""
        return []

    def as_json(self) -> dict[str, Any]:
        return {
            "quorumd": self.package,
            "created_partitions": self.created_partitions,
            "creation_s": self.creation_s,
            "isr_changes": [
                {
                    "in_flight": level.in_flight,
                    "partitions_a_request": level.partitions,
                    "changes_per_second": [run.writes_per_second for run in level.changes],
                    "p50_ms": [run.latency.p50_ms for run in level.changes],
                    "p99_ms": [run.latency.p99_ms for run in level.changes],
                    "etcd_puts_per_second": [run.writes_per_second for run in level.puts],
                }
                for level in self.levels
            ],
        }

    def write_json(self, path: Path) -> None:
        update_json(path, {"controller": self.as_json()})

    def print(self, console: Console) -> None:
        table = Table(title="ISR changes committed by three daemons", box=box.SIMPLE_HEAD)
        for heading in (
            "requests in flight",
            "partitions each",
            "changes/s",
            "p50 ms",
            "p99 ms",
            "etcd Puts/s",
            "x",
        ):
            table.add_column(heading, justify="right", no_wrap=True)
        for level in self.levels:
            middle = statistics.median
            table.add_row(
                f"{level.in_flight}",
                f"{level.partitions:,}",
                f"{middle(run.writes_per_second for run in level.changes):,.0f}",
                f"{middle(run.latency.p50_ms for run in level.changes):.2f}",
                f"{middle(run.latency.p99_ms for run in level.changes):.2f}",
                f"{middle(run.writes_per_second for run in level.puts):,.0f}" if level.puts else "",
                f"{middle(level.ratios):.2f}" if level.puts else "",
            )
        console.print(table)
        console.print(
            f"CreateTopics of {self.created_partitions:,} partitions in {MANY_TOPICS // TOPICS_PER_REQUEST} requests"
            f": {statistics.median(self.creation_s):.2f} s"
        )
        console.print(f"quorumd: {self.package}")


def measure_controller(
    directory: Path, package: str, seconds: float, rounds: int, echo: Callable[[str], None]
) -> ControllerReport:
    """Run all measurements. Raises BenchError; all started processes are stopped."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    echo("starting three etcd members and three quorumd daemons")
    theirs = EtcdCluster(directory.resolve() / "etcd")
    members = Members(directory.resolve(), 3, 3, {})
    try:
        for node_id in range(3):
            members.start(node_id)
        report = uvloop.run(_measure(members, theirs, package, seconds, rounds, echo))
    except (RequestFailed, TimeoutError) as error:
        raise BenchError(f"while the controller was measured: {error}; the logs are in {directory}") from None
    finally:
        members.stop()
        theirs.stop()
    shutil.rmtree(directory)
    return report


async def _measure(
    members: Members,
    theirs: EtcdCluster,
    package: str,
    seconds: float,
    rounds: int,
    echo: Callable[[str], None],
) -> ControllerReport:
    async with members.admin() as admin:
        leader_id = (await admin.describe_quorum()).leader_id
        cluster_id = (await admin.describe_cluster()).cluster_id
        host, port = members.addresses[leader_id]
        fleet = await Fleet.register(host, port, cluster_id, max(IN_FLIGHT))
        try:
            levels = []
            for in_flight, partitions in (*((n, 1) for n in IN_FLIGHT), (BATCHES_IN_FLIGHT, BATCH)):
                leaders = await create_leaders(fleet, admin, in_flight, partitions)
                level = IsrLevel(in_flight, partitions)
                for turn in range(rounds):
                    if partitions == 1:
                        connections = min(in_flight, 16)
                        level.puts.append(
                            await asyncio.to_thread(theirs.run, RECORD_BYTES, in_flight, connections, seconds)
                        )
                    level.changes.append(await run_load(leaders, seconds))
                    echo(
                        f"{in_flight} in flight with {partitions} partitions, round {turn + 1} of {rounds}: "
                        f"{level.changes[-1].writes_per_second:,.0f} changes/s"
                    )
                levels.append(level)
            creation_s = [await _create_many(admin, turn, echo) for turn in range(rounds)]
        finally:
            fleet.close()
    return ControllerReport(package, levels, MANY_TOPICS * PARTITIONS_PER_TOPIC, creation_s)


async def _create_many(admin: AdminClient, turn: int, echo: Callable[[str], None]) -> float:
    """Create partitions; return the seconds until all are committed."""
    began = time.perf_counter()
    for first in range(0, MANY_TOPICS, TOPICS_PER_REQUEST):
        topics = [
            creation.CreatableTopic(f"many-{turn}-{number}", PARTITIONS_PER_TOPIC, 3)
            for number in range(first, first + TOPICS_PER_REQUEST)
        ]
        reply = await admin.send(creation.CreateTopicsRequest(topics, 60_000, False))
        assert isinstance(reply, CreateTopicsResponse)
        refused = [parsed for parsed in reply.topics if parsed.error_code]
        if refused:
            raise BenchError(f"the topic {refused[0].name} was not created: {refused[0].error_message}")
    took = time.perf_counter() - began
    echo(
        f"{MANY_TOPICS * PARTITIONS_PER_TOPIC:,} partitions created in {took:.2f} s, from broker {FIRST_BROKER} on"
    )
    return took
