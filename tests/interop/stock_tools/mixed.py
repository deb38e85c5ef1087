"""Brokers of quorumd and of Kafka in one cluster, which replicate the same partitions and follow each other.

The clients of `tests.interop.clients` write and read while leaders of both kinds are killed, all brokers are
restarted and replicas move between brokers of both kinds. Internal topics have replicas of both kinds as well, so
that coordinators move between them. At the end the logs of all replicas are compared byte for byte.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from quorumd.cli.local_cluster import LocalCluster
from quorumd.protocol.batch_scan import Gapless, scan
from quorumd.testing import KafkaCluster
from tests.interop.clients.disturbances import Disturbances
from tests.interop.clients.trial import TOPIC, Trial, Writer
from tests.interop.clients.writers import Mode
from tests.interop.stock_tools.claims import Step, expect
from tests.interop.stock_tools.kafka_brokers import KafkaBroker
from tests.interop.stock_tools.tools import StockTools
from tests.support.processes.daemons import wait_for

QUORUMD_NODES = 3
FIRST_STOCK_ID = 101
WRITERS = (
    Writer("librdkafka", Mode.IDEMPOTENT, "lz4"),
    Writer("librdkafka", Mode.TRANSACTIONAL, "zstd"),
    Writer("kafka-python", Mode.IDEMPOTENT, "gzip"),
    Writer("aiokafka", Mode.TRANSACTIONAL, "snappy"),
)
GROUPS = ("classic", "consumer")
INTERNAL_TOPICS = {"offsets.topic.num.partitions": "10", "transaction.state.log.num.partitions": "10"}
"""The settings of `KafkaCluster`, with which a stock broker's settings must agree."""
SHORT_HEARTBEATS = {"group.consumer.heartbeat.interval.ms": "500"}
"""A short interval for members of the consumer protocol, so that their groups settle soon."""
STOCK_SETTINGS = {**INTERNAL_TOPICS, **SHORT_HEARTBEATS, "group.consumer.min.heartbeat.interval.ms": "500"}
PATIENCE_S = 120.0


class MixedCluster:
    """Three nodes of quorumd with both roles, and one stock broker of each of `releases`."""

    def __init__(self, releases: Sequence[StockTools], directory: Path) -> None:
        self._releases = releases
        self._directory = directory
        oldest = min(releases, key=lambda each: each.release).release
        self._quorumd = KafkaCluster(QUORUMD_NODES, directory / "quorumd", oldest, SHORT_HEARTBEATS)
        self._stock: dict[int, KafkaBroker] = {}

    def __enter__(self) -> Self:
        self._quorumd.start()
        admin = AdminClient({"bootstrap.servers": self._quorumd.bootstrap_servers})
        cluster_id = admin.describe_cluster().result(PATIENCE_S).cluster_id
        nodes = LocalCluster.open(self._directory / "quorumd").nodes
        quorum = "controller.quorum.voters=" + ",".join(f"{node.id}@127.0.0.1:{node.port}" for node in nodes)
        try:
            for broker_id, tools in enumerate(self._releases, FIRST_STOCK_ID):
                directory = self._directory / f"broker-{broker_id}"
                self._stock[broker_id] = KafkaBroker(
                    tools, cluster_id, quorum, broker_id, "a", directory, STOCK_SETTINGS
                )
                self.restart(broker_id)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self._stock.values():
            broker.stop()
        self._quorumd.stop()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join([self._quorumd.bootstrap_servers, *(each.address for each in self._stock.values())])

    @property
    def nodes(self) -> list[int]:
        """The ids of the brokers: one of quorumd, the stock brokers, and the other brokers of quorumd."""
        return [0, *self._stock, *self._quorumd.nodes[1:]]

    @property
    def stock(self) -> list[int]:
        """The ids of the stock brokers, in the order of `releases`."""
        return list(self._stock)

    def kill(self, node_id: int) -> None:
        self._end(node_id, signal.SIGKILL)

    def stop_node(self, node_id: int) -> None:
        self._end(node_id, signal.SIGTERM)

    def restart(self, node_id: int) -> None:
        """Start a broker and wait until it serves clients."""
        if node_id not in self._stock:
            self._quorumd.restart(node_id)
            return
        broker = self._stock[node_id]
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})

        def serves() -> bool:
            with suppress(KafkaException):
                return node_id in admin.list_topics(timeout=5).brokers
            return False

        wait_for(f"broker {node_id} to serve clients", serves, PATIENCE_S)

    def logs(self, topic: str) -> dict[str, dict[int, bytes]]:
        """Return the bytes of all batches of each partition of a topic, by broker."""
        directories = {node: self._directory / f"quorumd/node-{node}/data" for node in self._quorumd.nodes}
        directories |= {node: broker.data for node, broker in self._stock.items()}
        found: dict[str, dict[int, bytes]] = {}
        for node, directory in directories.items():
            for partition in sorted(directory.glob(f"{topic}-*")):
                if not partition.name.endswith("-delete"):
                    found.setdefault(partition.name, {})[node] = batches(partition)
        return found

    def _end(self, node_id: int, number: signal.Signals) -> None:
        if node_id in self._stock:
            self._stock[node_id].end(number)
        elif number == signal.SIGKILL:
            self._quorumd.kill(node_id)
        else:
            self._quorumd.stop_node(node_id)


def batches(partition: Path) -> bytes:
    """Return the batches in a directory, without preallocated zeros."""
    found = b""
    for segment in sorted(partition.glob("*.log")):
        data = segment.read_bytes()
        found += b"".join(
            data[each.position : each.position + each.size] for each in scan(data, Gapless()).headers
        )
    return found


class Mixed:
    """Claims about a cluster with brokers of both kinds."""

    def __init__(
        self, releases: Sequence[StockTools], directory: Path, report: Callable[[str], None]
    ) -> None:
        self._cluster = MixedCluster(releases, directory)
        self._trial = Trial(directory, self._cluster, WRITERS, GROUPS)
        self._report = report

    def steps(self) -> list[Step]:
        return [
            ("all acknowledged records are in the log once, in order, and all are consumed", self.disturb),
            ("the logs of all replicas are equal byte for byte", self.compare),
        ]

    def disturb(self) -> str:
        expect("violations", self._trial.run(self._actions(), self._report), [])
        acknowledged = sum(len(each.acknowledged) for each in self._trial.written.values())
        return f"{acknowledged:,} records acknowledged"

    def compare(self) -> str:
        replicas = 0
        for topic in (TOPIC, "__consumer_offsets", "__transaction_state"):
            for partition, logs in self._cluster.logs(topic).items():
                ends = {node: len(log) for node, log in logs.items()}
                shortest = min(ends.values())
                expect(f"bytes of {partition} by broker", set(ends.values()), {shortest})
                expect(f"different logs of {partition}", len(set(logs.values())), 1)
                replicas += len(logs)
        return f"{replicas} replicas"

    def _actions(self) -> Iterator[Callable[[Disturbances], str]]:
        """Kill every broker once, with reassignments and elections in between, and restart all brokers."""
        for node in self._cluster.nodes:
            yield lambda disturbances, node=node: disturbances.kill(node)
            yield Disturbances.reassign
            yield Disturbances.elect_preferred
        yield Disturbances.restart_all
