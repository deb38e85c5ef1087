"""Producing, consuming and catching up: nodes of quorumd and of stock Kafka, alternately, with the same client.

Clusters have three nodes with both roles, and leave flushes to the operating system. One runs at a time, since idle
nodes of Kafka took 0.1 to 0.4 of two cores from the other system. The client is librdkafka in a separate process.
Throughput is measured with a client that sends as fast as it can, latencies at a fixed rate. A consumer reads the
same records of both systems again and again, in the same batches.
"""

from __future__ import annotations

import itertools
import math
import os
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.protocol.messages import (
    alter_partition_reassignments_request,
    alter_partition_reassignments_response,
    list_partition_reassignments_request,
    list_partition_reassignments_response,
)
from scripts.bench.broker_clusters import (
    BrokerCluster,
    KafkaBrokers,
    QuorumdBrokers,
    cpu_seconds,
    create_topic,
    delete_topic,
    kafka_tools,
    run_client,
)
from scripts.bench.client_load import CHUNK
from scripts.bench.processes import BenchError, wait_until
from scripts.bench.quorumd_cluster import request_once
from scripts.bench.summary import update_json

NODES = 3
MB = 1_000_000
BATCH_BYTES, BATCH_RECORDS = 65_536, 10_000
LINGER_MS = 5
STORED_BYTES, STORED_BYTES_IN_SINGLE_RECORDS = 256_000_000, 16_000_000
"""The records that a consumer reads again and again, in all partitions together."""
RATE = 500
"""Records per second while latencies are measured."""
RATIO_AT_FULL_BATCHES, RATIO_AT_SINGLE_RECORDS = 1.0, 0.5
FIRST_RECORD_TARGET_S = 1.0
IDLE_PARTITIONS = 1000
"""The number of partitions, with three replicas each, on the idle nodes."""
SETTLE_S = 5.0
"""The time between the creation of the idle partitions and the measurement."""
IDLE_TIMES = 10
"""Idle nodes are measured this many times as long as a load, since much of their work is periodic."""
IDLE_MIB, IDLE_CPU = 150.0, 0.02
LOADED_MIB = 150.0
"""Memory after all loads: modules that leaked a little of each replicated batch made it several times as much."""
QUORUMD, KAFKA = "quorumd", "Kafka"


class Case(NamedTuple):
    """One load. With `acks` 1 topics have one replica, with all they have three."""

    acks: str
    record_bytes: int
    partitions: int
    batch_records: int = BATCH_RECORDS

    @property
    def replicas(self) -> int:
        return NODES if self.acks == "all" else 1

    @property
    def target(self) -> float:
        return RATIO_AT_SINGLE_RECORDS if self.batch_records == 1 else RATIO_AT_FULL_BATCHES

    @property
    def stored_records(self) -> int:
        """The number of records that a consumer reads again and again, equally many in each partition."""
        size = STORED_BYTES_IN_SINGLE_RECORDS if self.batch_records == 1 else STORED_BYTES
        chunk = CHUNK * self.partitions
        return math.ceil(size / self.record_bytes / chunk) * chunk

    def __str__(self) -> str:
        batches = "one record per batch" if self.batch_records == 1 else "64 KiB batches"
        return f"acks={self.acks}, {self.record_bytes:,} B, {self.partitions} partitions, {batches}"


CASES = (
    *itertools.starmap(Case, itertools.product(("1", "all"), (100, 1024), (1, 10, 100))),
    *(Case(acks, 1024, 10, 1) for acks in ("1", "all")),
)
SHORT_CASES = (Case("all", 1024, 2),)
WARM_UP = Case("all", 1024, 10)
WARM_UP_TIMES = 8
"""The warm-up consumes for this many times as long as a load: Kafka's rate rose for about 25 s."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A run of a system. Rates are in MB/s; CPU times of all nodes are in seconds per GB."""

    produced: float
    p99_ms: float
    produce_cpu: float
    consumed: float
    consume_cpu: float


class Idle(NamedTuple):
    """The largest node of a system with many partitions and no clients."""

    resident_mib: float
    cpu: float
    """The used fraction of one core."""


@dataclass(slots=True)
class BrokerReport:
    package: str
    cases: dict[Case, dict[str, list[Sample]]]
    memory_mib: dict[str, float] = field(default_factory=dict)
    """The resident memory of the largest node after all loads of a round, by system."""
    first_record_s: dict[str, list[float]] = field(default_factory=dict)
    """The time from the start of a single node with an empty directory to its first acknowledged record."""
    caught_up: dict[str, list[float]] = field(default_factory=dict)
    """The rate at which a new replica catches up, in MB/s."""
    idle: dict[str, Idle] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        cases = [
            {
                **case._asdict(),
                "runs": {name: [asdict(each) for each in runs] for name, runs in systems.items()},
            }
            for case, systems in self.cases.items()
        ]
        rest = {"resident_mib": self.memory_mib, "first_record_s": self.first_record_s}
        return {
            "quorumd": self.package,
            "cases": cases,
            **rest,
            "caught_up": self.caught_up,
            "idle": {name: each._asdict() for name, each in self.idle.items()},
            "missed": self.missed(),
        }

    def missed(self) -> list[str]:
        """Return a sentence per missed target."""
        found = []
        for case, systems in self.cases.items():
            for action in ("produced", "consumed") if KAFKA in systems else ():
                ratio = _ratio(systems, action)
                if ratio < case.target:
                    found.append(
                        f"{case}, {action}: {ratio:.2f} x Kafka's MB/s, the target is {case.target} x"
                    )
        first = statistics.median(self.first_record_s[QUORUMD])
        if first > FIRST_RECORD_TARGET_S:
            found.append(
                f"first acknowledged record after {first:.1f} s, the target is {FIRST_RECORD_TARGET_S} s"
            )
        loaded_mib = self.memory_mib[QUORUMD]
        if loaded_mib > LOADED_MIB:
            found.append(f"after the loads: {loaded_mib:.0f} MiB, the target is {LOADED_MIB:.0f} MiB")
        idle = self.idle[QUORUMD]
        if idle.resident_mib > IDLE_MIB or idle.cpu > IDLE_CPU:
            found.append(
                f"idle: {idle.resident_mib:.0f} MiB and {idle.cpu:.1%} of a core, "
                f"the targets are {IDLE_MIB:.0f} MiB and {IDLE_CPU:.0%}"
            )
        return found

    def write_json(self, path: Path) -> None:
        update_json(path, {"brokers": self.as_json()})

    def print(self, console: Console) -> None:
        table = Table(title=f"brokers of quorumd ({self.package}) and of Kafka", box=box.SIMPLE_HEAD)
        for heading in ("load", "", "produced MB/s", "p99 ms", "CPU s/GB", "consumed MB/s", "CPU s/GB"):
            table.add_column(heading, justify="left" if heading in ("load", "") else "right")
        for case, systems in self.cases.items():
            for name, runs in systems.items():
                medians = [_median_of(runs, name) for _, name, _ in COLUMNS]
                table.add_row(
                    str(case) if name == QUORUMD else "", name, *(f"{each:,.1f}" for each in medians)
                )
        console.print(table)
        for name in self.memory_mib:
            first, caught = (
                statistics.median(self.first_record_s[name]),
                statistics.median(self.caught_up[name]),
            )
            console.print(
                f"{name}: {self.memory_mib[name]:.0f} MiB resident, first record after {first:.2f} s, "
                f"a new replica catches up at {caught:.0f} MB/s; idle with {IDLE_PARTITIONS:,} partitions: "
                f"{self.idle[name].resident_mib:.0f} MiB, {self.idle[name].cpu:.1%} of a core"
            )
        for sentence in self.missed():
            console.print(sentence, markup=False)
        if KAFKA in self.memory_mib:
            console.print(f"\nfor docs/performance.md:\n\n{self.markdown()}", markup=False, soft_wrap=True)

    def markdown(self) -> str:
        """Return the medians of both systems as Markdown tables."""
        headings = ["acks", "bytes per record", "partitions"]
        for column, _, _ in COLUMNS:
            headings += [f"{column}: {QUORUMD}", KAFKA]
        rows = [headings, ["---"] * 2 + ["---:"] * (len(headings) - 2)]
        for case, systems in self.cases.items():
            size = f"{case.record_bytes:,}" + (", one record per batch" if case.batch_records == 1 else "")
            rows.append([case.acks, size, str(case.partitions)])
            for _, name, digits in COLUMNS:
                rows[-1] += [f"{_median_of(systems[each], name):,.{digits}f}" for each in (QUORUMD, KAFKA)]
        values = {each: self._values(each) for each in (QUORUMD, KAFKA)}
        more = [["three nodes", QUORUMD, KAFKA], ["---", "---:", "---:"]]
        more += [[text, values[QUORUMD][text], values[KAFKA][text]] for text in values[QUORUMD]]
        return "\n\n".join("\n".join(f"| {' | '.join(row)} |" for row in table) for table in (rows, more))

    def _values(self, name: str) -> dict[str, str]:
        """Return the figures of a system that do not depend on the load, by their description."""
        idle, first, caught = self.idle[name], self.first_record_s[name], self.caught_up[name]
        return {
            "resident memory of the largest node after these loads, MiB": f"{self.memory_mib[name]:.0f}",
            "one node: first acknowledged record after its start, s": f"{statistics.median(first):.2f}",
            "copying of a partition to new replicas, MB/s": f"{statistics.median(caught):.0f}",
            f"idle with {IDLE_PARTITIONS:,} partitions: memory of the largest node, MiB": f"{idle.resident_mib:.0f}",
            f"idle with {IDLE_PARTITIONS:,} partitions: busiest node, % of a core": f"{100 * idle.cpu:.1f}",
        }


COLUMNS = (
    ("produced MB/s", "produced", 0),
    ("p99 ms", "p99_ms", 1),
    ("CPU s/GB produced", "produce_cpu", 1),
    ("consumed MB/s", "consumed", 0),
    ("CPU s/GB consumed", "consume_cpu", 1),
)
"""Heading, attribute of a Sample, and digits after the decimal point."""


def _median_of(runs: Sequence[Sample], column: str) -> float:
    return float(statistics.median(getattr(each, column) for each in runs))


def _ratio(systems: dict[str, list[Sample]], column: str) -> float:
    pairs = zip(systems[QUORUMD], systems[KAFKA], strict=True)
    return statistics.median(getattr(ours, column) / getattr(theirs, column) for ours, theirs in pairs)


Start = Callable[[Path, int], BrokerCluster]


def measure_brokers(
    directory: Path,
    package: str,
    seconds: float,
    rounds: int,
    echo: Callable[[str], None],
    cases: Sequence[Case],
    with_kafka: bool,
) -> BrokerReport:
    """Measure both systems, or quorumd alone. Raises BenchError."""
    shutil.rmtree(directory, ignore_errors=True)
    starts: dict[str, Start] = {QUORUMD: QuorumdBrokers}
    if with_kafka:
        tools = kafka_tools()
        starts[KAFKA] = lambda home, nodes: KafkaBrokers(home, nodes, tools)
    report = BrokerReport(package, {case: {name: [] for name in starts} for case in cases})
    for turn, (name, start) in itertools.product(range(rounds), starts.items()):
        home = (directory / f"{name}-{turn}").resolve()
        report.first_record_s.setdefault(name, []).append(first_record(start, home / "first"))
        cluster = start(home / "nodes", NODES)
        try:
            if name not in report.idle:
                report.idle[name] = idle(cluster, IDLE_TIMES * seconds)
            warm_up(cluster, seconds)
            for case in cases:
                run = run_load(cluster, case, seconds)
                report.cases[case][name].append(run)
                echo(f"{name}, {case}: {run.produced:,.0f} MB/s produced, {run.consumed:,.0f} MB/s consumed")
            resident_mib = max(each.resident_mib() for each in cluster.processes)
            report.memory_mib[name] = max(resident_mib, report.memory_mib.get(name, 0.0))
            report.caught_up.setdefault(name, []).append(catch_up(cluster, seconds))
        finally:
            cluster.stop()
        shutil.rmtree(home)
    return report


def warm_up(cluster: BrokerCluster, seconds: float) -> None:
    """Produce and consume without measuring: Kafka compiles what runs often."""
    job = _job(cluster, WARM_UP, seconds)
    for action, times in (("produce", 1), ("fill", 1), ("consume", WARM_UP_TIMES)):
        run_client({**job, "action": action, "seconds": times * seconds})
    delete_topic(cluster, job["topic"])


def _job(cluster: BrokerCluster, case: Case, seconds: float) -> dict[str, Any]:
    """Create a topic for a load; return the parameters of the client but for its action."""
    topic = f"bench-{time.monotonic_ns()}"
    create_topic(cluster, topic, case.partitions, case.replicas)
    return {
        "bootstrap": cluster.bootstrap,
        "topic": topic,
        "acks": case.acks,
        "record_bytes": case.record_bytes,
        "partitions": case.partitions,
        "batch_bytes": BATCH_BYTES,
        "batch_records": case.batch_records,
        "linger_ms": 0 if case.batch_records == 1 else LINGER_MS,
        "seconds": seconds,
        "rate": RATE,
        "records": case.stored_records,
    }


def run_load(cluster: BrokerCluster, case: Case, seconds: float) -> Sample:
    """Produce at full speed, consume other records in full batches, and measure latencies at a fixed rate."""
    job = _job(cluster, case, seconds)

    def run(action: str) -> tuple[dict[str, Any], float]:
        """Return the client's results, and the CPU time of all nodes. The disk is idle at first: it would otherwise
        still write what was produced before."""
        os.sync()
        before = cpu_seconds(cluster.processes)
        found = run_client({**job, "action": action})
        return found, cpu_seconds(cluster.processes) - before

    produced, produce_cpu = run("produce")
    run("fill")
    consumed, consume_cpu = run("consume")
    paced, _ = run("pace")
    delete_topic(cluster, job["topic"])
    return Sample(
        produced["bytes"] / MB / produced["seconds"],
        paced["p99_ms"],
        produce_cpu / (produced["bytes"] / (1000 * MB)),
        consumed["bytes"] / MB / consumed["seconds"],
        consume_cpu / (consumed["all_bytes"] / (1000 * MB)),
    )


def first_record(start: Start, directory: Path) -> float:
    """Start a single node and produce one record; return the seconds until it is acknowledged."""
    directory.mkdir(parents=True)
    cluster = start(directory, 1)
    try:
        job = {"topic": "first", "acks": "all", "record_bytes": 100, "partitions": 1, "linger_ms": 0}
        batches = {"batch_bytes": BATCH_BYTES, "batch_records": 1, "seconds": 0.0}
        run_client({**job, **batches, "bootstrap": cluster.bootstrap, "action": "produce"})
        return time.perf_counter() - cluster.started_at
    finally:
        cluster.stop()


def idle(cluster: BrokerCluster, seconds: float) -> Idle:
    """Measure memory and CPU time of nodes with many partitions and no clients."""
    create_topic(cluster, "idle", IDLE_PARTITIONS, len(cluster.processes))
    time.sleep(SETTLE_S)
    began, before = time.perf_counter(), [each.cpu_seconds() for each in cluster.processes]
    time.sleep(seconds)
    took = time.perf_counter() - began
    cpu = (
        max(each.cpu_seconds() - start for each, start in zip(cluster.processes, before, strict=True)) / took
    )
    resident_mib = max(each.resident_mib() for each in cluster.processes)
    delete_topic(cluster, "idle")
    return Idle(resident_mib, cpu)


def catch_up(cluster: BrokerCluster, seconds: float) -> float:
    """Give a partition a second replica, and return the MB/s at which it was copied."""
    topic = f"copied-{time.monotonic_ns()}"
    create_topic(cluster, topic, 1, 1)
    job = {"topic": topic, "acks": "1", "record_bytes": 1024, "partitions": 1, "linger_ms": LINGER_MS}
    batches = {"batch_bytes": BATCH_BYTES, "batch_records": BATCH_RECORDS, "seconds": seconds}
    produced = run_client({**job, **batches, "bootstrap": cluster.bootstrap, "action": "produce"})
    host, _, port = cluster.bootstrap.partition(",")[0].rpartition(":")
    address = (host, int(port))
    wire = alter_partition_reassignments_request
    partition = wire.ReassignablePartition(partition_index=0, replicas=list(range(NODES)))
    request = wire.AlterPartitionReassignmentsRequest(
        timeout_ms=60_000, topics=[wire.ReassignableTopic(name=topic, partitions=[partition])]
    )
    began = time.perf_counter()
    response = request_once(
        address, request, 0, alter_partition_reassignments_response.AlterPartitionReassignmentsResponse
    )
    if response.error_code or response.responses[0].partitions[0].error_code:
        raise BenchError(f"{topic} is not reassigned: {response}")
    listing = list_partition_reassignments_request.ListPartitionReassignmentsRequest(
        timeout_ms=60_000, topics=None
    )

    def is_done() -> bool:
        found = request_once(
            address, listing, 0, list_partition_reassignments_response.ListPartitionReassignmentsResponse
        )
        return not found.error_code and not found.topics

    wait_until("the new replicas", is_done, cluster.processes, 300)
    took = time.perf_counter() - began
    delete_topic(cluster, topic)
    # Two of the three nodes copied it.
    return float(produced["bytes"]) / MB / took * (NODES - 1)
