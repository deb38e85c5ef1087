"""A stock Kafka controller: formatted without voters, so that it is an observer until it is made a voter."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.interop.stock_tools.tools import KAFKA, STORAGE, StockTools
from tests.support.processes.daemons import LOG_FOLDER, PATIENCE_S, Cluster, free_port

HEAP = ("-Xms64M", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class KafkaController:
    """One controller: its folder and, while it runs, its process."""

    def __init__(self, tools: StockTools, cluster: Cluster, node_id: int, folder: Path) -> None:
        self.node_id = node_id
        self.port = free_port()
        self.data = folder / "data"
        self.output = folder / "controller.log"
        self._config = folder / "controller.properties"
        self._tools = tools
        self._child: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
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
    def log_folder(self) -> Path:
        return self.data / LOG_FOLDER

    @property
    def directory_id(self) -> str:
        lines = (self.data / "meta.properties").read_text().splitlines()
        (found,) = (line.removeprefix("directory.id=") for line in lines if line.startswith("directory.id="))
        return found

    @property
    def runs(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        with self.output.open("ab") as output:
            command = self._tools.command(KAFKA, self._config, java=HEAP)
            self._child = subprocess.Popen(command, stdout=output, stderr=output)

    def kill(self) -> None:
        """kill -9, and wait until the process is gone."""
        assert self._child is not None
        self._child.send_signal(signal.SIGKILL)
        self._child.wait(PATIENCE_S)

    def stop(self) -> None:
        """Stop the process if it runs."""
        if self.runs:
            self.kill()
