"""Three quorumd daemons as configured by `quorumd cluster up`, and a load from a separate process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from quorumd.cli.local_cluster import METRICS_PORT_OFFSET, LocalCluster, is_free
from quorumd.cli.local_security import LocalSecurity, node_name
from quorumd.client.load import CLIENT_METRICS, write_request
from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.messages import (
    describe_configs_request,
    describe_configs_response,
    describe_quorum_request,
    describe_quorum_response,
)
from quorumd.protocol.wire import Message
from scripts.bench.processes import PORTS_BELOW_EPHEMERAL, BenchError, Process, wait_until
from scripts.bench.summary import Latency, Run

NODES = 3
CLIENTS_OFFSET = 50
"""The offset of the plaintext client port from a node's port if nodes use TLS."""
M = TypeVar("M", bound=Message)
Address = tuple[str, int]

PROBE = "bench-probe"
"""A client metrics resource that single writes change."""


class QuorumdCluster:
    """Three running nodes in `directory`. With `is_encrypted`, they use mutual TLS between each other.

    `environment` is the environment of the nodes; by default, the environment of this process.
    """

    def __init__(
        self,
        directory: Path,
        *,
        is_encrypted: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._cluster = _format(directory, is_encrypted)
        self.processes = _start(self._cluster, environment)
        offset = CLIENTS_OFFSET if is_encrypted else 0
        self._addresses = [("127.0.0.1", node.port + offset) for node in self._cluster.nodes]
        try:
            self._quorum()
        except BenchError:
            self.stop()
            raise

    def stop(self) -> None:
        for process in self.processes:
            process.stop()

    def run(self, value_bytes: int, in_flight: int, connections: int, seconds: float) -> Run:
        """Run `quorumd bench` for `seconds` at the leader.

        It counts acknowledged writes; the high watermark must have grown by at least as many records.
        """
        before = self._quorum().high_watermark
        run = run_load(self._addresses, value_bytes, in_flight, connections, seconds)
        advanced = self._quorum().high_watermark - before
        if advanced < run.latency.count:
            raise BenchError(
                f"quorumd committed {advanced} records, but the load counts {run.latency.count} writes"
            )
        return run

    def check_replicas(self, value_bytes: int) -> None:
        """Check that every node has all committed records and returns a new write. (`quorumd bench` deletes its
        writes.)"""
        wait_until(
            "a write after the load",
            lambda: any(is_acknowledged(address, value_bytes) for address in self._addresses),
            self.processes,
        )
        committed = self._quorum().high_watermark
        wait_until(
            "all replicas to have the committed records",
            lambda: all(voter.log_end_offset >= committed for voter in self._quorum().current_voters),
            self.processes,
        )
        resource = describe_configs_request.DescribeConfigsResource(CLIENT_METRICS, PROBE, None)
        request = describe_configs_request.DescribeConfigsRequest([resource])
        for address in self._addresses:
            reply = request_once(address, request, 4, describe_configs_response.DescribeConfigsResponse)
            sizes = {len(config.value or "") for config in reply.results[0].configs}
            if sizes != {value_bytes}:
                raise BenchError(f"{address} returns values of {sizes} bytes instead of {value_bytes}")

    def leader_and_a_follower(self) -> tuple[Process, Process]:
        leader = self._quorum().leader_id
        return self.processes[leader], self.processes[(leader + 1) % NODES]

    def _quorum(self) -> describe_quorum_response.PartitionData:
        """Return the quorum as the leader describes it, once there is one. Raises BenchError."""
        found: list[describe_quorum_response.PartitionData] = []

        def is_described() -> bool:
            found.extend(self._descriptions())
            return bool(found)

        wait_until(f"quorumd in {self._cluster.directory} to elect a leader", is_described, self.processes)
        return found[0]

    def _descriptions(self) -> Iterator[describe_quorum_response.PartitionData]:
        """Yield the quorum as each node describes it that leads and knows its high watermark."""
        topic = describe_quorum_request.TopicData(METADATA_TOPIC, [describe_quorum_request.PartitionData(0)])
        request = describe_quorum_request.DescribeQuorumRequest([topic])
        for address in self._addresses:
            with suppress(OSError):
                reply = request_once(address, request, 2, describe_quorum_response.DescribeQuorumResponse)
                if reply.error_code == ErrorCode.NONE:
                    partition = reply.topics[0].partitions[0]
                    if partition.error_code == ErrorCode.NONE and partition.high_watermark >= 0:
                        yield partition


def run_load(
    addresses: Sequence[Address], value_bytes: int, in_flight: int, connections: int, seconds: float
) -> Run:
    """Run `quorumd bench` at the current leader. Raises BenchError."""
    bootstrap = ",".join(f"{host}:{port}" for host, port in addresses)
    command = [
        sys.executable, "-m", "quorumd", "bench", "--bootstrap-server", bootstrap, "--output", "json",
        "--in-flight", str(in_flight), "--connections", str(connections),
        "--value-bytes", str(value_bytes), "--duration", f"{seconds:g}s",
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise BenchError(f"quorumd bench failed: {result.stdout}{result.stderr}")
    (row,) = json.loads(result.stdout)
    return Run(row["writesPerSecond"], Latency(row["writes"], row["p50Ms"], row["p99Ms"]), connections)


def cold_start(directory: Path) -> float:
    """Return the seconds from the start of three daemons on formatted directories to the first acknowledged write."""
    cluster = _format(directory)
    began = time.perf_counter()
    processes = _start(cluster)
    try:
        wait_until(
            "the first write",
            lambda: any(is_acknowledged(("127.0.0.1", node.port)) for node in cluster.nodes),
            processes,
        )
        return time.perf_counter() - began
    finally:
        for process in processes:
            process.stop()


def _format(directory: Path, is_encrypted: bool = False) -> LocalCluster:
    ports = PORTS_BELOW_EPHEMERAL
    for base in range(ports.start + 5000, ports.stop, METRICS_PORT_OFFSET):
        used = (
            base + i + offset for i in range(NODES) for offset in (0, CLIENTS_OFFSET, METRICS_PORT_OFFSET)
        )
        if all(map(is_free, used)):
            break
    else:
        raise BenchError(f"no free ports in {ports}")
    cluster = LocalCluster.open_or_plan(directory, NODES, base)
    if is_encrypted:
        _encrypt(cluster)
    cluster.create()
    return cluster


def _encrypt(cluster: LocalCluster) -> None:
    """Write properties with a listener for nodes, with mutual TLS, and a plaintext listener for clients."""
    directory = cluster.directory / "security"
    LocalSecurity(cluster.directory, NODES).create()
    for node in cluster.nodes:
        own = f"CONTROLLER://127.0.0.1:{node.port}"
        both = f"{own},CLIENTS://127.0.0.1:{node.port + CLIENTS_OFFSET}"
        node.config.parent.mkdir(parents=True, exist_ok=True)
        node.config.write_text(
            cluster.properties(node).replace(f"listeners={own}", f"listeners={both}")
            + "controller.listener.names=CONTROLLER,CLIENTS\n"
            "listener.security.protocol.map=CONTROLLER:SSL,CLIENTS:PLAINTEXT\n"
            f"ssl.client.auth=required\nssl.truststore.location={directory / 'ca.pem'}\n"
            f"ssl.keystore.location={directory / node_name(node.id)}.pem\n"
        )


def _start(cluster: LocalCluster, environment: Mapping[str, str] | None = None) -> list[Process]:
    return [
        Process(
            [sys.executable, "-m", "quorumd", "start", "--config", str(node.config)],
            cluster.directory / f"quorumd-{node.id}.log",
            environment,
        )
        for node in cluster.nodes
    ]


def is_acknowledged(address: Address, value_bytes: int = 200) -> bool:
    """Return True if a node commits a write of the config PROBE."""
    try:
        with socket.create_connection(address, timeout=5) as connection:
            connection.sendall(write_request(PROBE, value_bytes))
            reply = connection.recv(4096)
    except OSError:
        return False
    return reply[14:16] == b"\0\0"


def request_once(address: Address, request: Message, version: int, response: type[M]) -> M:
    """Send one request on a new connection. Raises OSError without a response."""
    protocol = ClientConnection("bench")
    _, data = protocol.request(request, version)
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(data)
        while True:
            received = connection.recv(1 << 20)
            if not received:
                raise ConnectionResetError(f"{address} closed the connection")
            for _, reply in protocol.receive(received):
                assert isinstance(reply, response)
                return reply
