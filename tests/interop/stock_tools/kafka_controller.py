"""A stock Kafka controller, which is formatted without voters, so that it is an observer until it is added."""

from __future__ import annotations

from pathlib import Path

from tests.interop.stock_tools.kafka_process import KafkaProcess
from tests.interop.stock_tools.tools import STORAGE, StockTools
from tests.support.processes.daemons import PARTITION_DIRECTORY, Cluster
from tests.support.processes.ports import free_port


class KafkaController(KafkaProcess):
    """A stock Kafka controller."""

    def __init__(self, tools: StockTools, cluster: Cluster, node_id: int, directory: Path) -> None:
        self.node_id = node_id
        self.port = free_port()
        self.data = directory / "data"
        super().__init__(tools, directory / "controller.properties", directory / "controller.log")
        directory.mkdir(parents=True)
        settings = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": cluster.bootstrap,
            "log.dirs": str(self.data),
        }
        self._config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        identity = ("-t", cluster.cluster_id(), "-c", self._config)
        tools.run(STORAGE, "format", *identity, "--no-initial-controllers")

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.port)

    @property
    def partition_directory(self) -> Path:
        return self.data / PARTITION_DIRECTORY

    @property
    def directory_id(self) -> str:
        lines = (self.data / "meta.properties").read_text().splitlines()
        (found,) = (line.removeprefix("directory.id=") for line in lines if line.startswith("directory.id="))
        return found
