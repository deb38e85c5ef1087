"""Daemons as voters and observers, started and stopped one by one, with custom properties."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from quorumd.cli.local_cluster import format_nodes
from quorumd.client.admin import AdminClient
from quorumd.errors import RequestFailed
from quorumd.protocol.messages.describe_quorum_response import PartitionData
from scripts.bench.processes import BenchError, Process, free_ports

T = TypeVar("T")
START_S = 300.0
"""Timeout for the start of a node with a large log on a busy machine."""


class Members:
    """Nodes 0, 1, 2, ... in a directory. The first `voters` nodes start as voters; the others discover the voters."""

    def __init__(self, directory: Path, count: int, voters: int, properties: Mapping[str, str]) -> None:
        self.ports = free_ports(count)
        self._directory = directory
        self._first = range(voters)
        self._properties = properties
        self.processes: dict[int, Process] = {}

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", port) for port in self.ports]

    def config(self, node_id: int) -> Path:
        """Return the path of a node's properties file."""
        return self._directory / f"node-{node_id}.properties"

    def data_directory(self, node_id: int) -> Path:
        return self._directory / f"node-{node_id}"

    def partition_directory(self, node_id: int) -> Path:
        """The directory of a node's segments and snapshots."""
        return self.data_directory(node_id) / "__cluster_metadata-0"

    def start(self, node_id: int) -> float:
        """Start one node; return the seconds until it accepts connections. Raises BenchError if it does not."""
        began = time.perf_counter()
        process = self.launch(node_id)
        while not self._listens(node_id):
            process.check_alive()
            if time.perf_counter() - began > START_S:
                raise BenchError(f"node {node_id} did not accept connections within {START_S:.0f} s")
            time.sleep(0.002)
        return time.perf_counter() - began

    def launch(self, node_id: int) -> Process:
        """Start one node without waiting for it."""
        config = self.config(node_id)
        config.parent.mkdir(parents=True, exist_ok=True)
        if not any(self.data_directory(each).exists() for each in self._first):
            format_nodes({each: (self.data_directory(each), self.ports[each]) for each in self._first})
        config.write_text("".join(f"{key}={value}\n" for key, value in self._lines(node_id).items()))
        command = [sys.executable, "-m", "quorumd", "start", "--config", str(config), "--format-if-needed"]
        process = self.processes[node_id] = Process(command, self._directory / f"node-{node_id}.log")
        return process

    def stop(self, node_id: int | None = None) -> None:
        """Shut down one node, or all nodes, gracefully."""
        for each in [node_id] if node_id is not None else list(self.processes):
            self.processes.pop(each).stop()

    def describe(self) -> PartitionData:
        """Return the quorum as the leader describes it. Raises BenchError without a leader."""
        return self.request(lambda admin: admin.describe_quorum())

    def request(self, action: Callable[[AdminClient], Awaitable[T]]) -> T:
        """Run a request of an admin client. Raises BenchError."""

        async def work() -> T:
            async with self.admin() as admin:
                return await action(admin)

        try:
            return asyncio.run(work())
        except RequestFailed as error:
            raise BenchError(f"{error}; the logs are in {self._directory}") from None

    def admin(self) -> AdminClient:
        """Return an admin client of the nodes."""
        return AdminClient(self.addresses, client_id="bench", timeout_ms=60_000)

    def _lines(self, node_id: int) -> dict[str, str]:
        lines = {
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://127.0.0.1:{self.ports[node_id]}",
            "log.dirs": str(self.data_directory(node_id)),
        }
        if node_id in self._first:
            voters = ",".join(f"{each}@127.0.0.1:{self.ports[each]}" for each in self._first)
            lines["quorum.voters"] = voters
        else:
            lines["bootstrap.servers"] = ",".join(f"127.0.0.1:{self.ports[each]}" for each in self._first)
        return {**lines, **self._properties}

    def _listens(self, node_id: int) -> bool:
        try:
            socket.create_connection(self.addresses[node_id], timeout=1).close()
        except OSError:
            return False
        return True


def voters_of(quorum: PartitionData) -> set[int]:
    return {voter.replica_id for voter in quorum.current_voters}
