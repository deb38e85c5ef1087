"""Processes of Kafka's own brokers on a quorum of quorumd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.interop.stock_tools.kafka_process import KafkaProcess
from tests.interop.stock_tools.tools import StockTools
from tests.support.processes.daemons import Cluster
from tests.support.processes.ports import free_port

SETTINGS = {
    "process.roles": "broker",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    # Fetches are small, so that a throttle takes effect at once.
    "replica.fetch.max.bytes": "10000",
    "replica.fetch.response.max.bytes": "10000",
    "auto.create.topics.enable": "false",
}


class KafkaBroker(KafkaProcess):
    """A stock Kafka broker."""

    def __init__(
        self,
        tools: StockTools,
        cluster_id: str,
        quorum: str,
        broker_id: int,
        rack: str,
        directory: Path,
        extra: Mapping[str, str] | None = None,
        listeners: str = "PLAINTEXT://{address}",
    ) -> None:
        """Write the properties file, with `quorum` as the property by which the broker finds the quorum.

        `listeners` must have a listener for clients at {address}.
        """
        self.broker_id = broker_id
        self.port = free_port()
        self.data = directory / "data"
        super().__init__(tools, directory / "server.properties", directory / "broker.log")
        self.data.mkdir(parents=True)
        settings = (
            SETTINGS
            | (dict(extra) if extra else {})
            | {
                "node.id": str(broker_id),
                "broker.rack": rack,
                "listeners": listeners.format(address=self.address),
                "log.dirs": str(self.data),
            }
        )
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        self._config.write_text(f"{lines}{quorum}\n")
        identity = {"version": "1", "cluster.id": cluster_id, "node.id": str(broker_id)}
        (self.data / "meta.properties").write_text(
            "".join(f"{key}={value}\n" for key, value in identity.items())
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def kafka_brokers(
    tools: StockTools, cluster: Cluster, racks: Mapping[int, str], directory: Path, quorum: str = ""
) -> Iterator[list[KafkaBroker]]:
    """Start a broker for each id in `racks`, without waiting for them; kill them at the end.

    `quorum` is the property by which they find the quorum; the default is controller.quorum.voters.
    """
    voters = ",".join(f"{daemon.node_id}@127.0.0.1:{daemon.port}" for daemon in cluster)
    found_by = quorum or f"controller.quorum.voters={voters}"
    started = [
        KafkaBroker(tools, cluster.cluster_id(), found_by, broker_id, rack, directory / f"broker-{broker_id}")
        for broker_id, rack in racks.items()
    ]
    try:
        for broker in started:
            broker.start()
        yield started
    finally:
        for broker in started:
            broker.stop()
