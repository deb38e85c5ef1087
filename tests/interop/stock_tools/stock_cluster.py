"""A cluster of stock Kafka nodes of one version: controllers, brokers, or nodes that are both."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from quorumd.ids import KafkaUuid
from tests.interop.stock_tools.kafka_process import HEAP
from tests.interop.stock_tools.tools import KAFKA, STORAGE, StockTools
from tests.support.processes.daemons import PARTITION_DIRECTORY, PATIENCE_S, RESPONSE_TIMEOUT_S, wait_for
from tests.support.processes.ports import free_port
from tests.support.processes.requests import Quorum, quorum
from tests.support.processes.wire import Wire

CLUSTER_ID = "bWFkZSBmb3IgdGVzdHMhIQ"
USER, PASSWORD = "admin", "admin-secret"
_JAAS = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{USER}" '
    f'password="{PASSWORD}" user_{USER}="{PASSWORD}";'
)
SETTINGS = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    ),
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": _JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{USER};User:ANONYMOUS",
    "delegation.token.secret.key": "a secret of tests",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "controller.quorum.request.timeout.ms": "5000",
    "auto.create.topics.enable": "false",
    # By default a broker exits if it cannot register for a minute, for example while controllers are killed.
    "initial.broker.registration.timeout.ms": "600000",
}
_BROKER_ONLY = ("controller", "inter.broker.listener.name")


@dataclass(frozen=True, slots=True)
class Shape:
    """The ids of controllers and brokers; a node whose id is in both is both."""

    controllers: tuple[int, ...] = (1, 2, 3)
    brokers: tuple[int, ...] = (101, 102, 103)
    is_static: bool = False
    """Whether the voters are set by controller.quorum.voters instead of records of the log."""
    settings: Mapping[str, str] = field(default_factory=dict)


class StockNode:
    """A stock node: its directory and, while it runs, its process."""

    def __init__(self, tools: StockTools, directory: Path, node_id: int, shape: Shape) -> None:
        self.node_id = node_id
        self.is_controller = node_id in shape.controllers
        self.is_broker = node_id in shape.brokers
        self.data = directory / "data"
        self.output = directory / "node.log"
        self.quorum_port, self.port, self.sasl_port = free_port(), free_port(), free_port()
        self.directory_id = str(KafkaUuid(f"directory-{node_id:06}".encode()))
        self._tools = tools
        self._config = directory / "server.properties"
        self._child: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True)

    def configure(self, found_by: str, settings: Mapping[str, str]) -> None:
        """Write the properties; `found_by` is the property by which the node finds the quorum."""
        listeners, roles = [], []
        if self.is_broker:
            roles.append("broker")
            listeners += [
                f"PLAINTEXT://127.0.0.1:{self.port}",
                f"SASL_PLAINTEXT://127.0.0.1:{self.sasl_port}",
            ]
        if self.is_controller:
            roles.append("controller")
            listeners.append(f"CONTROLLER://127.0.0.1:{self.quorum_port}")
        own = {
            "process.roles": ",".join(roles),
            "node.id": str(self.node_id),
            "broker.rack": f"rack-{self.node_id % 3}",
            "listeners": ",".join(listeners),
            "log.dirs": str(self.data),
        }
        every = SETTINGS | dict(settings) | own
        self._config.write_text("".join(f"{key}={value}\n" for key, value in every.items()) + f"{found_by}\n")

    def format(self, *options: str) -> None:
        self._tools.run(STORAGE, "format", "--cluster-id", CLUSTER_ID, "--config", self._config, *options)

    @property
    def runs(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        if not self.runs:
            with self.output.open("ab") as output:
                command = self._tools.command(KAFKA, self._config, java=HEAP)
                self._child = subprocess.Popen(command, stdout=output, stderr=output)

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal, and wait until the process has ended."""
        if self._child is not None and self.runs:
            self._child.send_signal(number)
            self._child.wait(PATIENCE_S)

    def describe_quorum(self) -> Quorum | None:
        """Return the quorum as this controller describes it; None if it does not respond."""
        try:
            with Wire(("127.0.0.1", self.quorum_port), timeout=RESPONSE_TIMEOUT_S) as wire:
                return quorum(wire)
        except OSError:
            return None


class StockCluster:
    """A cluster of stock nodes."""

    def __init__(self, tools: StockTools, directory: Path, shape: Shape) -> None:
        self.tools = tools
        self.shape = shape
        self.nodes = {
            node_id: StockNode(tools, directory / f"node-{node_id}", node_id, shape)
            for node_id in dict.fromkeys(shape.controllers + shape.brokers)
        }
        at = {node.node_id: f"127.0.0.1:{node.quorum_port}" for node in self.controllers}
        replication = str(min(3, len(shape.brokers)))
        settings = {
            "offsets.topic.replication.factor": replication,
            "transaction.state.log.replication.factor": replication,
        }
        voters = ",".join(f"{node_id}@{address}" for node_id, address in at.items())
        names = f"controller.quorum.bootstrap.servers={','.join(at.values())}"
        for node in self.nodes.values():
            found_by = f"controller.quorum.voters={voters}" if shape.is_static else names
            node.configure(found_by, settings | dict(shape.settings))

    def format(self, *options: str) -> None:
        """Format all nodes; `options` apply to controllers."""
        directories = {node.node_id: node.directory_id for node in self.controllers}
        initial = ",".join(
            f"{node.node_id}@127.0.0.1:{node.quorum_port}:{directories[node.node_id]}"
            for node in self.controllers
        )
        for node in self.nodes.values():
            voters = (
                ["--initial-controllers", initial] if node.is_controller and not self.shape.is_static else []
            )
            node.format(*voters, *(options if node.is_controller else ()))

    @property
    def controllers(self) -> list[StockNode]:
        return [node for node in self.nodes.values() if node.is_controller]

    @property
    def brokers(self) -> list[StockNode]:
        return [node for node in self.nodes.values() if node.is_broker]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(f"127.0.0.1:{node.quorum_port}" for node in self.controllers)

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()
        self.leader()

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        for node in [*self.brokers, *self.controllers]:
            node.end(number)

    def leader(self) -> StockNode:
        """Wait for a running controller that reports itself as leader."""

        def find() -> StockNode | None:
            for node in self.controllers:
                seen = node.describe_quorum() if node.runs else None
                if seen and seen.error == 0 and seen.leader == node.node_id and seen.high_watermark >= 0:
                    return node
            return None

        return wait_for("a leader of the stock controllers", find)

    def wait_until_level(self) -> None:
        """Wait until every node has the log up to two records before the high watermark."""

        def is_level() -> bool:
            seen = self.leader().describe_quorum()
            return (
                seen is not None
                and set(seen.replicas) >= set(self.nodes)
                and all(seen.replicas[node_id] >= seen.high_watermark - 2 for node_id in self.nodes)
            )

        wait_for("all stock nodes to catch up", is_level)

    def copy(self, to: Path, nodes: Iterable[int] = ()) -> dict[int, str]:
        """Copy the metadata logs, also of running nodes, and return the copied directories by node."""
        copied = {}
        for node_id in nodes or self.nodes:
            source, target = self.nodes[node_id].data, to / str(node_id)
            if (source / PARTITION_DIRECTORY).is_dir():
                (target / PARTITION_DIRECTORY).mkdir(parents=True)
                for file in [source / "meta.properties", *sorted((source / PARTITION_DIRECTORY).iterdir())]:
                    # A running node may delete or rename a file before it is copied.
                    with suppress(FileNotFoundError):
                        shutil.copyfile(file, target / file.relative_to(source))
                copied[node_id] = str(target)
        return copied


@contextmanager
def stock_cluster(tools: StockTools, directory: Path, shape: Shape, *options: str) -> Iterator[StockCluster]:
    """Format and start a cluster; kill it at the end."""
    cluster = StockCluster(tools, directory, shape)
    cluster.format(*options)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
