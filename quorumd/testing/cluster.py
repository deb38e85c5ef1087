"""A cluster of daemons for a test suite."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final

from quorumd.cli import metrics_view
from quorumd.cli.cluster import wait_for_brokers, wait_for_leader
from quorumd.cli.format.initial_features import bootstrap_content
from quorumd.cli.local_cluster import HOST, AddressInUse, LocalCluster, LocalNode, default_content
from quorumd.errors import QuorumdError

PORTS: Final = range(20_000, 32_000)
"""Base ports to choose from, below the usual ranges of ephemeral ports."""
PORT_ATTEMPTS: Final = 20
READY_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.02


class KafkaCluster:
    """Nodes that are both broker and controller. Use the cluster in a `with` statement, or call `start` and `stop`.

    The ids of the nodes are 0 to `nodes` - 1. Topics are created when a client first uses them. With three nodes,
    internal topics have three replicas; set the replication factor of other topics when you create them. Data and
    daemon logs are kept in `directory`, or in a temporary directory that `stop` removes. A new cluster has the
    features of `release`, such as "4.3", by default the newest, and adds `properties` to the properties file of each
    node.
    """

    def __init__(
        self,
        nodes: int = 1,
        directory: Path | None = None,
        release: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._count = nodes
        self._release = release
        self._properties = dict(properties or {})
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._directory = directory
        self._cluster: LocalCluster | None = None
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> KafkaCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, separated by commas."""
        return self._local.bootstrap

    @property
    def nodes(self) -> range:
        """The ids of the nodes, running or not."""
        return range(self._count)

    def start(self) -> None:
        """Start all nodes and wait until each serves clients. Raises QuorumdError with the end of their logs."""
        directory = self._directory
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="quorumd-test-")
            directory = Path(self._temporary.name)
        try:
            local = self._cluster = self._create(directory)
            self._processes = {node.id: local.start(node) for node in local.nodes}
            wait_for_leader(local, self._processes, lambda text: None)
            wait_for_brokers(local)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all running nodes at the same time, and remove the temporary directory, if any."""
        if self._cluster is not None:
            self._cluster.stop(lambda text: None)
            for process in self._processes.values():
                process.wait()
            self._processes.clear()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def kill(self, node_id: int) -> None:
        """Kill a node with SIGKILL, as in a crash."""
        self._end(node_id, signal.SIGKILL)

    def stop_node(self, node_id: int) -> None:
        """Stop a node gracefully: its leaderships move to other nodes first."""
        self._end(node_id, signal.SIGTERM)

    def restart(self, node_id: int) -> None:
        """Start a killed or stopped node and wait until it serves clients. Raises QuorumdError."""
        node = self._node(node_id)
        process = self._processes[node_id] = self._local.start(node)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not metrics_view.is_ready(HOST, node.metrics_port):
            if process.poll() is not None or time.monotonic() >= deadline:
                lines = "\n".join(f"  {line}" for line in node.log_tail())
                raise QuorumdError(
                    f"node {node_id} did not start to serve clients; the end of its log:\n{lines}"
                )
            time.sleep(POLL_S)

    @property
    def _local(self) -> LocalCluster:
        if self._cluster is None:
            raise QuorumdError("the cluster is not running; call start() or use it in a with statement")
        return self._cluster

    def _create(self, directory: Path) -> LocalCluster:
        """Create the files of a cluster on free ports, or open an existing cluster in the directory."""
        if (directory / "cluster.json").exists():
            return LocalCluster.open_or_plan(directory, self._count)
        choose = random.SystemRandom().choice
        for _ in range(PORT_ATTEMPTS):
            local = LocalCluster.open_or_plan(directory, self._count, choose(PORTS), brokers=True)
            try:
                local.check_addresses(local.nodes)
            except AddressInUse:
                continue
            local.create(partial(bootstrap_content, self._release, ()) if self._release else default_content)
            for node in local.nodes:
                with node.config.open("a", encoding="utf-8") as file:
                    file.writelines(f"{name}={value}\n" for name, value in self._properties.items())
            return local
        raise AddressInUse(f"no free ports for {self._count} nodes between {PORTS.start} and {PORTS.stop}")

    def _node(self, node_id: int) -> LocalNode:
        if node_id not in self.nodes:
            raise QuorumdError(f"there is no node {node_id}; the nodes are 0 to {self._count - 1}")
        return self._local.nodes[node_id]

    def _end(self, node_id: int, signal_number: int) -> None:
        node = self._node(node_id)
        process = self._processes.get(node.id)
        if process is None or process.poll() is not None:
            raise QuorumdError(f"node {node_id} is not running")
        os.kill(process.pid, signal_number)
        process.wait()
