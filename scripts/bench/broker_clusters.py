"""Clusters of the broker benchmark: nodes with both roles, of quorumd and of stock Kafka, on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from quorumd.cli.local_cluster import CLIENT_PORT_OFFSET, METRICS_PORT_OFFSET, LocalCluster, is_free
from scripts.bench.processes import PORTS_BELOW_EPHEMERAL, BenchError, Process, free_ports, wait_until
from tests.interop.stock_tools.tools import KAFKA, STORAGE, StockTools, ToolsMissing, stock_tools

KAFKA_VERSION = "4.3.1"
JARS = Path("build/stock-tools")
KAFKA_HEAP = ("-Xms256M", "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""Kafka's scripts give a broker 1 GiB; here, three brokers share the memory with everything else."""
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
LOAD = Path(__file__).with_name("client_load.py")
PATIENCE_S = 180.0


class BrokerCluster(Protocol):
    """Running nodes of one system."""

    processes: list[Process]
    bootstrap: str
    started_at: float
    """The value of time.perf_counter() when the nodes were started on formatted directories."""

    def stop(self) -> None: ...


class QuorumdBrokers:
    """Nodes as `quorumd cluster up --brokers` configures them."""

    def __init__(self, directory: Path, nodes: int) -> None:
        self.local = LocalCluster.open_or_plan(directory, nodes, _base_port(nodes), brokers=True)
        self.local.create()
        self.bootstrap = self.local.bootstrap
        self.started_at = time.perf_counter()
        self.processes = [
            Process(
                [sys.executable, "-m", "quorumd", "start", "--config", str(node.config)],
                directory / f"quorumd-{node.id}.log",
            )
            for node in self.local.nodes
        ]

    def stop(self) -> None:
        for process in self.processes:
            process.stop()


class KafkaBrokers:
    """Nodes with Kafka's defaults, except for the number of replicas of the offsets topic."""

    def __init__(self, directory: Path, nodes: int, tools: StockTools) -> None:
        ports = free_ports(2 * nodes)
        voters = ",".join(f"{number}@127.0.0.1:{ports[nodes + number]}" for number in range(nodes))
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports[:nodes])
        self.processes: list[Process] = []
        configs = []
        for number in range(nodes):
            home = directory / f"kafka-{number}"
            home.mkdir(parents=True)
            settings = {
                "process.roles": "broker,controller",
                "node.id": number,
                "controller.quorum.voters": voters,
                "controller.listener.names": "CONTROLLER",
                "listeners": f"PLAINTEXT://127.0.0.1:{ports[number]},CONTROLLER://127.0.0.1:{ports[nodes + number]}",
                "log.dirs": home / "data",
                "offsets.topic.replication.factor": nodes,
            }
            config = home / "server.properties"
            config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            format_command = tools.command(STORAGE, "format", "-t", CLUSTER_ID, "-c", config)
            subprocess.run(format_command, capture_output=True, check=True)
            configs.append(config)
        self.started_at = time.perf_counter()
        for config in configs:
            output = config.with_name("broker.log")
            self.processes.append(Process(tools.command(KAFKA, config, java=KAFKA_HEAP), output))

    def stop(self) -> None:
        for process in self.processes:
            process.stop()


def kafka_tools() -> StockTools:
    """Return Kafka's jars, downloaded if needed. Raises BenchError."""
    try:
        return stock_tools(JARS, KAFKA_VERSION, KAFKA_VERSION)
    except ToolsMissing as missing:
        raise BenchError(str(missing)) from None


def create_topic(cluster: BrokerCluster, topic: str, partitions: int, replicas: int) -> None:
    """Create a topic and wait until every partition has a leader and all replicas in sync."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def brokers() -> bool:
        try:
            return len(admin.list_topics(timeout=5).brokers) == len(cluster.processes)
        except KafkaException:
            return False

    wait_until("all brokers", brokers, cluster.processes, PATIENCE_S)
    admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(PATIENCE_S)

    def is_ready() -> bool:
        found = admin.list_topics(topic, PATIENCE_S).topics[topic].partitions.values()
        return len(found) == partitions and all(
            each.leader >= 0 and len(each.isrs) == len(each.replicas) for each in found
        )

    wait_until(f"topic {topic}", is_ready, cluster.processes, PATIENCE_S)


def delete_topic(cluster: BrokerCluster, topic: str) -> None:
    """Delete a topic, since its files would fill the disk."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([topic])[topic].result(PATIENCE_S)


def run_client(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run `client_load.py` and return its result. Raises BenchError."""
    done = subprocess.run([sys.executable, str(LOAD), json.dumps(job)], capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr}
    if "error" in found:
        raise BenchError(f"{job['action']} on {job['topic']}: {found['error']}")
    return found


def _base_port(nodes: int) -> int:
    ports = PORTS_BELOW_EPHEMERAL
    offsets = (0, METRICS_PORT_OFFSET, CLIENT_PORT_OFFSET)
    for base in range(ports.start + 3000, ports.stop, 300):
        if all(is_free(base + offset + number) for offset in offsets for number in range(nodes)):
            return base
    raise BenchError(f"no free ports in {ports}")


def cpu_seconds(processes: Sequence[Process]) -> float:
    """Return the user and system time of all processes so far."""
    return sum(process.cpu_seconds() for process in processes)
