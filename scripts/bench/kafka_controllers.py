"""The controllers of quorumd compared with Kafka's: three nodes of each, alternately, with the same clients.

In every round each system is started on empty directories, measured and stopped, so that an idle system takes no CPU
time from the other one. The clients register minimal brokers (`broker_fleet`).
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop
from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.client.admin import AdminClient
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.protocol.messages import create_topics_request as creation
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse
from scripts.bench import isr_load
from scripts.bench.broker_clusters import CLUSTER_ID, KAFKA_HEAP, kafka_tools
from scripts.bench.broker_fleet import FIRST_BROKER, Fleet
from scripts.bench.first_commit import NO_BROKERS, first_commit
from scripts.bench.members import Members
from scripts.bench.processes import BenchError, Process
from scripts.bench.quorumd_cluster import run_load
from scripts.bench.summary import update_json
from tests.interop.stock_tools.tools import KAFKA, STORAGE, StockTools

NODES = 3
TOPICS_PER_REQUEST = 5
"""Kafka rejects requests that need more than 10,000 records: one per partition."""
BATCHES_IN_FLIGHT = 4
RECORD_BYTES = 60


@dataclass(frozen=True, slots=True)
class Case:
    """The size of the measurement."""

    in_flight: tuple[int, ...] = (1, 16, 64, 256)
    batch: int = 1_000
    topics: int = 100
    partitions_of_each: int = 1_000
    beating: int = 1_000
    """The number of brokers that send heartbeats."""


SHORT_CASE = Case((1, 4), 20, 10, 20, 8)


class KafkaMembers(Members):
    """Three stock controllers; `properties` override Kafka's defaults."""

    def __init__(
        self,
        directory: Path,
        tools: StockTools,
        properties: Mapping[str, str],
        java: tuple[str, ...] = KAFKA_HEAP,
    ) -> None:
        super().__init__(directory, NODES, NODES, properties)
        self._tools = tools
        self._java = java

    def launch(self, node_id: int) -> Process:
        config = self.config(node_id)
        if not config.exists():
            voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in enumerate(self.ports))
            settings = {
                "process.roles": "controller",
                "node.id": str(node_id),
                "controller.quorum.voters": voters,
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
                "listeners": f"CONTROLLER://127.0.0.1:{self.ports[node_id]}",
                "log.dirs": str(self.data_directory(node_id)),
                **self._properties,
            }
            config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            self._tools.run(STORAGE, "format", "-t", CLUSTER_ID, "-c", config)
        command = self._tools.command(KAFKA, config, java=self._java)
        process = self.processes[node_id] = Process(command, config.with_suffix(".log"))
        return process


@dataclass(slots=True)
class KafkaControllersReport:
    """The figures of all systems."""

    package: str
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """The value of each round, by figure and system."""

    def missed(self) -> list[str]:
        """Return an empty list: this benchmark has no target."""
        return []

    def add(self, system: str, name: str, value: float) -> None:
        self.figures.setdefault(name, {}).setdefault(system, []).append(value)

    def as_json(self) -> dict[str, Any]:
        return {"quorumd": self.package, "figures": self.figures}

    def write_json(self, path: Path) -> None:
        update_json(path, {"kafka-controllers": self.as_json()})

    def print(self, console: Console) -> None:
        systems = list(next(iter(self.figures.values())))
        table = Table(title="Three controllers, medians of all rounds (min to max)", box=box.SIMPLE_HEAD)
        table.add_column("")
        for system in systems:
            table.add_column(system, justify="right")
        for name, by_system in self.figures.items():
            cells = [
                f"{statistics.median(values):,.4g} ({min(values):,.4g} to {max(values):,.4g})"
                for values in (by_system[system] for system in systems)
            ]
            table.add_row(name, *cells)
        console.print(table)
        console.print(f"quorumd: {self.package}")


def measure_kafka_controllers(
    directory: Path,
    package: str,
    seconds: float,
    rounds: int,
    echo: Callable[[str], None],
    case: Case,
    with_kafka: bool,
) -> KafkaControllersReport:
    """Run all rounds. Raises BenchError; all started processes are stopped."""
    report = KafkaControllersReport(package)
    systems: dict[str, Callable[[Path], Members]] = {
        "quorumd": lambda place: Members(place, NODES, NODES, {})
    }
    if with_kafka:
        tools = kafka_tools()
        linger = {"controller.quorum.append.linger.ms": "0"}
        systems["Kafka"] = lambda place: KafkaMembers(place, tools, {})
        systems["Kafka, linger 0"] = lambda place: KafkaMembers(place, tools, linger)
    for turn in range(rounds):
        for system, members_in in systems.items():
            echo(f"{system}, round {turn + 1} of {rounds}")
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            members = members_in(directory.resolve())
            try:
                for name, value in _Measurement(members, case, seconds).run().items():
                    report.add(system, name, value)
            except (RequestFailed, TimeoutError) as error:
                raise BenchError(f"{system}: {error}; the logs are in {directory}") from None
            finally:
                members.stop()
    shutil.rmtree(directory)
    return report


class _Measurement:
    """One round of one system."""

    def __init__(self, members: Members, case: Case, seconds: float) -> None:
        self._members = members
        self._case = case
        self._seconds = seconds
        self._figures: dict[str, float] = {}

    def run(self) -> dict[str, float]:
        members = self._members
        for node_id in range(NODES):
            members.launch(node_id)
        uvloop.run(first_commit(members.addresses, "start", NO_BROKERS))
        leader = members.processes[members.describe().leader_id]
        # Warm up: a Java virtual machine compiles code only after running it for a while.
        run_load(members.addresses, RECORD_BYTES, max(self._case.in_flight), 1, self._seconds)
        for in_flight in self._case.in_flight:
            connections = min(in_flight, 4)
            run = run_load(members.addresses, RECORD_BYTES, in_flight, connections, self._seconds)
            self._figures[f"config changes/s, {in_flight} in flight"] = run.writes_per_second
        uvloop.run(self._use_brokers(leader))
        self._figures["memory of the leader, MiB"] = leader.resident_mib()
        self._figures["failover after kill -9, s"] = self._killed([members.describe().leader_id], again=False)
        self._figures["cold restart, s"] = self._killed(list(members.processes), again=True)
        return self._figures

    async def _use_brokers(self, leader: Process) -> None:
        case, figures, count = self._case, self._figures, max(self._case.in_flight)
        async with self._members.admin() as admin:
            address = self._members.addresses[(await admin.describe_quorum()).leader_id]
            cluster_id = (await admin.describe_cluster()).cluster_id
            fleet = await Fleet.register(*address, cluster_id, count)
            beating = await Fleet.register(*address, cluster_id, case.beating, FIRST_BROKER + count)
            before, beats = leader.cpu_seconds(), 0
            end = time.perf_counter() + self._seconds
            while time.perf_counter() < end:
                await asyncio.gather(*(broker.heartbeat() for broker in beating.brokers))
                beats += case.beating
            figures[f"CPU per heartbeat of {case.beating:,} brokers, us"] = (
                (leader.cpu_seconds() - before) / beats * 1e6
            )
            beating.close()
            loads = [(in_flight, 1) for in_flight in case.in_flight] + [(BATCHES_IN_FLIGHT, case.batch)]
            for in_flight, partitions in loads:
                leaders = await isr_load.create_leaders(fleet, admin, min(in_flight, count), partitions)
                run = await isr_load.run_load(leaders, self._seconds)
                name = f"AlterPartition changes/s, {in_flight} in flight" + (
                    f" with {partitions:,} partitions" if partitions > 1 else ""
                )
                figures[name] = run.writes_per_second
                figures[f"{name}, p99 ms"] = run.latency.p99_ms
                for each in leaders:
                    each.close()
            figures[
                f"creation of {case.topics * case.partitions_of_each:,} partitions, s"
            ] = await self._create(admin)
            fleet.close()

    async def _create(self, admin: AdminClient) -> float:
        began = time.perf_counter()
        for first in range(0, self._case.topics, TOPICS_PER_REQUEST):
            topics = [
                creation.CreatableTopic(f"many-{number}", self._case.partitions_of_each, 3)
                for number in range(first, min(first + TOPICS_PER_REQUEST, self._case.topics))
            ]
            reply = await admin.send(creation.CreateTopicsRequest(topics, 60_000, False))
            assert isinstance(reply, CreateTopicsResponse)
            # The client repeats a request without a response in time, whose topics may exist by then.
            created = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            if refused := [topic for topic in reply.topics if topic.error_code not in created]:
                raise BenchError(f"topic {refused[0].name} was not created: {refused[0].error_message}")
        return time.perf_counter() - began

    def _killed(self, node_ids: list[int], again: bool) -> float:
        """Kill nodes, and with `again` start all nodes; return the seconds until a topic is created."""
        for node_id in node_ids:
            self._members.processes.pop(node_id).kill()
        began = time.perf_counter()
        if again:
            for node_id in range(NODES):
                self._members.launch(node_id)
        uvloop.run(first_commit(self._members.addresses, f"after-{len(node_ids)}"))
        return time.perf_counter() - began
