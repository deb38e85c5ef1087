"""A million partitions on three nodes: creation, memory, fencing of a broker, failover and cold restart.

The same is measured with stock controllers of Kafka, with as many partitions as fit into their memory. The partitions
are created through the leader, for brokers that the benchmark registers.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import uvloop
from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.client.admin import AdminClient
from quorumd.errors import RequestFailed
from quorumd.protocol.messages import create_topics_request as creation
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse
from scripts.bench.broker_clusters import kafka_tools
from scripts.bench.broker_fleet import FAR, Fleet
from scripts.bench.first_commit import NO_BROKERS, first_commit
from scripts.bench.kafka_controllers import KafkaMembers
from scripts.bench.members import Members
from scripts.bench.processes import BenchError
from scripts.bench.summary import update_json

NODES = 3
PARTITIONS_PER_TOPIC = 100
TOPICS_PER_REQUEST = 10
SESSION = {"broker.session.timeout.ms": "3600000"}
KAFKA_HEAP = ("-Xms1G", "-Xmx4G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


@dataclass(frozen=True, slots=True)
class Case:
    topics: int = 10_000
    """The number of topics on quorumd, with PARTITIONS_PER_TOPIC partitions each."""
    kafka_topics: int = 3_000
    """The number of topics on Kafka's controllers."""
    brokers: int = 100
    led_topics: int = 200
    """The number of topics whose partitions are all led by one broker, in addition to its share of the others."""


SHORT_CASE = Case(6, 0, 4, 2)


@dataclass(slots=True)
class Figures:
    """The figures of one system."""

    system: str
    partitions: int
    creation_s: float
    resident_mib: float
    """The resident memory of the largest node."""
    fenced_led: int
    """The number of partitions that the fenced broker led."""
    fence_s: float
    """The time until the broker is fenced."""
    failover_s: float
    restart_s: float


@dataclass(slots=True)
class MillionReport:
    package: str
    systems: list[Figures]

    def missed(self) -> list[str]:
        """Return an empty list: this benchmark has no target."""
        return []

    def as_json(self) -> dict[str, Any]:
        return {"quorumd": self.package, "systems": [asdict(each) for each in self.systems]}

    def write_json(self, path: Path) -> None:
        update_json(path, {"million": self.as_json()})

    def print(self, console: Console) -> None:
        table = Table(title="Many partitions on three controllers", box=box.SIMPLE_HEAD)
        table.add_column("")
        for each in self.systems:
            table.add_column(f"{each.system}, {each.partitions:,}", justify="right")
        for name, figure in _ROWS.items():
            table.add_row(name, *(f"{figure(each):,.2f}" for each in self.systems))
        console.print(table)
        console.print(f"quorumd: {self.package}")


_ROWS: dict[str, Callable[[Figures], float]] = {
    "partitions created per second": lambda each: each.partitions / each.creation_s,
    "resident memory of the largest node, MiB": lambda each: each.resident_mib,
    "partitions led by the fenced broker": lambda each: each.fenced_led,
    "fencing until committed, s": lambda each: each.fence_s,
    "kill -9 of the leader to the next committed topic, s": lambda each: each.failover_s,
    "start of all three nodes to the first committed topic, s": lambda each: each.restart_s,
}


def measure_million(
    directory: Path, package: str, echo: Callable[[str], None], case: Case, with_kafka: bool
) -> MillionReport:
    """Run all measurements. Raises BenchError; all started processes are stopped."""
    measured = []
    systems: list[tuple[str, int, Callable[[], Members]]] = [
        ("quorumd", case.topics, lambda: Members(directory.resolve(), NODES, NODES, SESSION))
    ]
    if with_kafka:
        tools = kafka_tools()
        systems.append(
            (
                "Kafka",
                case.kafka_topics,
                lambda: KafkaMembers(directory.resolve(), tools, SESSION, KAFKA_HEAP),
            )
        )
    for system, topics, start in systems:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        members = start()
        try:
            measured.append(_measure(members, system, topics, case, echo))
        except (RequestFailed, TimeoutError) as error:
            raise BenchError(f"{system}: {error}; the logs are in {directory}") from None
        finally:
            members.stop()
    shutil.rmtree(directory)
    return MillionReport(package, measured)


def _measure(members: Members, system: str, topics: int, case: Case, echo: Callable[[str], None]) -> Figures:
    for node_id in range(NODES):
        members.launch(node_id)
    uvloop.run(first_commit(members.addresses, "start", NO_BROKERS))
    creation_s, led, fence_s = uvloop.run(_create_and_fence(members, topics, case, echo))
    resident_mib = max(process.resident_mib() for process in members.processes.values())
    members.processes.pop(members.describe().leader_id).kill()
    failover_s = uvloop.run(first_commit(members.addresses, "failover"))
    for process in members.processes.values():
        process.kill()
    members.processes.clear()
    echo(f"{system}: killed; starting")
    began = time.perf_counter()
    for node_id in range(NODES):
        members.launch(node_id)
    uvloop.run(first_commit(members.addresses, "restart"))
    restart_s = time.perf_counter() - began
    partitions = topics * PARTITIONS_PER_TOPIC
    return Figures(system, partitions, creation_s, resident_mib, led, fence_s, failover_s, restart_s)


async def _create_and_fence(
    members: Members, topics: int, case: Case, echo: Callable[[str], None]
) -> tuple[float, int, float]:
    """Return the seconds of the creation, the number of partitions that the fenced broker led, and the seconds until
    it is fenced."""
    async with members.admin() as admin:
        leader_id = (await admin.describe_quorum()).leader_id
        cluster_id = (await admin.describe_cluster()).cluster_id
        fleet = await Fleet.register(*members.addresses[leader_id], cluster_id, case.brokers)
        try:
            began = time.perf_counter()
            await _create(admin, _topics([broker.id for broker in fleet.brokers], topics, case), echo)
            creation_s = time.perf_counter() - began
            fenced = fleet.brokers.pop(0)
            led = PARTITIONS_PER_TOPIC * (case.led_topics + (topics - case.led_topics) // case.brokers)
            request = BrokerHeartbeatRequest(fenced.id, fenced.epoch, FAR, True, False)
            began = time.perf_counter()
            while not (await fenced.send(request, BrokerHeartbeatResponse)).is_fenced:
                pass
            return creation_s, led, time.perf_counter() - began
        finally:
            fleet.close()


def _topics(broker_ids: list[int], count: int, case: Case) -> Iterator[creation.CreatableTopic]:
    """Yield topics: the first broker leads the first topics, and the controller places the others."""
    followers = broker_ids[1:]
    for number in range(count):
        topic = creation.CreatableTopic(f"large-{number}", PARTITIONS_PER_TOPIC, 3)
        if number < case.led_topics:
            topic = creation.CreatableTopic(f"large-{number}", -1, -1)
            topic.assignments = [
                creation.CreatableReplicaAssignment(
                    index,
                    [broker_ids[0], *(followers[(number + index + n) % len(followers)] for n in range(2))],
                )
                for index in range(PARTITIONS_PER_TOPIC)
            ]
        yield topic


async def _create(
    admin: AdminClient, topics: Iterator[creation.CreatableTopic], echo: Callable[[str], None]
) -> None:
    created = 0
    while group := list(islice(topics, TOPICS_PER_REQUEST)):
        reply = await admin.send(creation.CreateTopicsRequest(group, 60_000, False))
        assert isinstance(reply, CreateTopicsResponse)
        refused = [parsed for parsed in reply.topics if parsed.error_code]
        if refused:
            raise BenchError(f"the topic {refused[0].name} was not created: {refused[0].error_message}")
        created += len(group) * PARTITIONS_PER_TOPIC
        if created % 100_000 == 0:
            echo(f"{created:,} partitions created")
