"""The cluster under chaos: real daemons, each behind a proxy, the last one on a disk that can fill up."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.messages import describe_quorum_request
from quorumd.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from quorumd.protocol.wire import Message
from tests.chaos.links import Links
from tests.chaos.small_disk import SmallDisk
from tests.support.processes.daemons import Cluster, Daemon
from tests.support.processes.ports import free_port
from tests.support.processes.requests import Quorum

TIMING = {
    "quorum.fetch.timeout.ms": 700,
    "quorum.election.timeout.ms": 500,
    "quorum.election.jitter.max.ms": 300,
    "quorum.request.timeout.ms": 700,
    "broker.session.timeout.ms": 3000,
}
"""Timeouts that are shorter than the defaults, so that a round takes seconds and a fault of one second has an
effect."""
DESCRIBE_QUORUM = 2
"""The version of DescribeQuorum requests."""
DISK = {"metadata.log.segment.bytes": "256KiB", "metadata.log.reserve.bytes": "1MiB"}


class ChaosDaemon(Daemon):
    """One node and its proxy, which is open only while the node runs."""

    def __init__(
        self, directory: Path, node_id: int, fronts: dict[int, int], voters: int, links: Links
    ) -> None:
        self.front = fronts[node_id]
        votes = node_id <= voters
        servers = ",".join(f"127.0.0.1:{port}" for port in fronts.values())
        self.finds_others = "" if votes else f"bootstrap.servers={servers}\n"
        first = {node: port for node, port in fronts.items() if node <= voters}
        super().__init__(directory, node_id, free_port(), first if votes else {})
        self.links = links
        self.disk: SmallDisk | None = None
        self.expected_exit: int | None = None
        """The expected exit code of a process that is expected to end by itself."""

    @property
    def name(self) -> str:
        """The name of the node in the links."""
        return str(self.node_id)

    def configure(self, extra: str = "") -> None:
        """Write the properties of a plain daemon, with the proxy's address as advertised listener and short
        timeouts."""
        lines = {"advertised.listeners": f"CONTROLLER://127.0.0.1:{self.front}"} | DISK
        extra += self.finds_others
        super().configure(extra + "".join(f"{key}={value}\n" for key, value in lines.items()))
        kept = [line for line in self.config.read_text().splitlines() if line.split("=")[0] not in TIMING]
        kept += [f"{key}={value}" for key, value in TIMING.items()]
        self.config.write_text("\n".join(kept) + "\n")

    def begin(self, **internal: int) -> None:
        """Start the process; `internal` has properties that cause faults, with `_` instead of dots in their names."""
        self.configure(
            "".join(f"internal.{key.replace('_', '.')}={value}\n" for key, value in internal.items())
        )
        self.links.open_front(self.name, self.front, self.port)
        self.start(self.disk.environment() if self.disk else None)

    def gone(self) -> None:
        """Close the proxy after the end of the process."""
        self.links.close_front(self.name)

    @property
    def runs(self) -> bool:
        return self.child is not None and self.child.poll() is None

    def describe_quorum(self) -> Quorum | None:
        """Describe the quorum without kio, which rejects quorumd's additional field for target voters."""
        try:
            return fetch_quorum(self.address)
        except OSError:
            return None

    def serves(self) -> bool:
        """Return True if the node's listener accepts connections."""
        try:
            self.connect().close()
        except OSError:
            return False
        return True


def fetch_quorum(address: tuple[str, int]) -> Quorum:
    """Return the quorum as one node describes it. Raises OSError without a response."""
    topic = describe_quorum_request.TopicData(METADATA_TOPIC, [describe_quorum_request.PartitionData(0)])
    protocol = ClientConnection("test")
    _, request = protocol.request(describe_quorum_request.DescribeQuorumRequest([topic]), DESCRIBE_QUORUM)
    with socket.create_connection(address, timeout=1) as connection:
        connection.sendall(request)
        responses: list[Message] = []
        while not responses:
            if not (received := connection.recv(65_536)):
                raise ConnectionResetError(f"{address} closed the connection")
            responses = [response for _, response in protocol.receive(received)]
    (response,) = responses
    assert isinstance(response, DescribeQuorumResponse)
    if response.error_code != ErrorCode.NONE:
        return Quorum(response.error_code, -1, -1, -1, {}, {})
    partition = response.topics[0].partitions[0]
    voters, observers = (
        {replica.replica_id: replica.log_end_offset for replica in replicas}
        for replicas in (partition.current_voters, partition.observers)
    )
    return Quorum(
        partition.error_code,
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        voters,
        observers,
    )


class ChaosCluster(Cluster):
    """Nodes 1 to `size`; the log of the last one is on a `SmallDisk`.

    The first `voters` of them start as voters. The others only know the addresses of the nodes.
    """

    def __init__(self, directory: Path, size: int, voters: int, links: Links) -> None:
        self.links = links
        self.fronts = {node_id: free_port() for node_id in range(1, size + 1)}
        self.nodes = {
            node_id: ChaosDaemon(directory / f"node-{node_id}", node_id, self.fronts, voters, links)
            for node_id in self.fronts
        }
        self.daemons = dict(self.nodes)
        self.small = self.nodes[size]
        self.small.disk = self.disk = SmallDisk(self.small.data)

    def __iter__(self) -> Iterator[ChaosDaemon]:
        return iter(self.nodes.values())

    @property
    def front_addresses(self) -> list[tuple[str, int]]:
        """Addresses of the proxies."""
        return [("127.0.0.1", port) for port in self.fronts.values()]

    def start(self) -> None:
        for daemon in self:
            daemon.begin()
        self.leader()

    def stop(self) -> None:
        super().stop()
        for daemon in self:
            daemon.gone()

    def leading(self) -> ChaosDaemon:
        """Return the current leader."""
        return self.nodes[self.leader().node_id]


@contextmanager
def chaos_cluster(directory: Path, size: int, voters: int) -> Iterator[ChaosCluster]:
    """Start a cluster; at the end stop it and unmount its disk."""
    links = Links()
    cluster = ChaosCluster(directory, size, voters, links)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        cluster.disk.close()
        links.stop()
