"""The cluster under chaos: real daemons, each behind its proxy, the last one on a disk that can fill."""

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
from tests.support.processes.daemons import Cluster, Daemon, free_port
from tests.support.processes.requests import Quorum

TIMING = {
    "quorum.fetch.timeout.ms": 700,
    "quorum.election.timeout.ms": 500,
    "quorum.election.jitter.max.ms": 300,
    "quorum.request.timeout.ms": 700,
    "broker.session.timeout.ms": 3000,
}
"""Shorter than the defaults: a round is over in seconds, and a fault of one second must be felt."""
DESCRIBE_QUORUM = 2
"""The version that is asked with."""
DISK = {"metadata.log.segment.bytes": "256KiB", "metadata.log.reserve.bytes": "1MiB"}


class ChaosDaemon(Daemon):
    """One node and its proxy. Only a node that runs has an open proxy."""

    def __init__(self, folder: Path, node_id: int, fronts: dict[int, int], voters: int, links: Links) -> None:
        self.front = fronts[node_id]
        votes = node_id <= voters
        servers = ",".join(f"127.0.0.1:{port}" for port in fronts.values())
        self.finds_others = "" if votes else f"bootstrap.servers={servers}\n"
        first = {node: port for node, port in fronts.items() if node <= voters}
        super().__init__(folder, node_id, free_port(), first if votes else {})
        self.links = links
        self.disk: SmallDisk | None = None
        self.expected_exit: int | None = None
        """Set while it is meant to end by itself: the exit code that is right then."""

    @property
    def name(self) -> str:
        """What the links call it."""
        return str(self.node_id)

    def configure(self, extra: str = "") -> None:
        """As without a proxy, but for what others are told, and for the timing."""
        lines = {"advertised.listeners": f"CONTROLLER://127.0.0.1:{self.front}"} | DISK
        extra += self.finds_others
        super().configure(extra + "".join(f"{key}={value}\n" for key, value in lines.items()))
        kept = [line for line in self.config.read_text().splitlines() if line.split("=")[0] not in TIMING]
        kept += [f"{key}={value}" for key, value in TIMING.items()]
        self.config.write_text("\n".join(kept) + "\n")

    def begin(self, **internal: int) -> None:
        """Start; `internal` are the properties that hurt it, by the words of their names with `_` for a dot."""
        self.configure(
            "".join(f"internal.{key.replace('_', '.')}={value}\n" for key, value in internal.items())
        )
        self.links.open_front(self.name, self.front, self.port)
        self.start(self.disk.environment() if self.disk else None)

    def gone(self) -> None:
        """Its process has ended: nobody listens there any more."""
        self.links.close_front(self.name)

    @property
    def runs(self) -> bool:
        return self.child is not None and self.child.poll() is None

    def asked(self) -> Quorum | None:
        """As without a proxy; but kio takes no answer that has a field of quorumd's own, the target voters."""
        try:
            return ask_quorum(self.address)
        except OSError:
            return None

    def serves(self) -> bool:
        """Whether its listener takes connections."""
        try:
            self.connect().close()
        except OSError:
            return False
        return True


def ask_quorum(address: tuple[str, int]) -> Quorum:
    """What one node says of the quorum. Raises OSError without an answer."""
    topic = describe_quorum_request.TopicData(METADATA_TOPIC, [describe_quorum_request.PartitionData(0)])
    protocol = ClientConnection("test")
    _, request = protocol.request(describe_quorum_request.DescribeQuorumRequest([topic]), DESCRIBE_QUORUM)
    with socket.create_connection(address, timeout=1) as connection:
        connection.sendall(request)
        answers: list[Message] = []
        while not answers:
            if not (received := connection.recv(65_536)):
                raise ConnectionResetError(f"{address} closed the connection")
            answers = [answer for _, answer in protocol.receive(received)]
    (answer,) = answers
    assert isinstance(answer, DescribeQuorumResponse)
    if answer.error_code != ErrorCode.NONE:
        return Quorum(answer.error_code, -1, -1, -1, {}, {})
    told = answer.topics[0].partitions[0]
    voters, observers = (
        {replica.replica_id: replica.log_end_offset for replica in replicas}
        for replicas in (told.current_voters, told.observers)
    )
    return Quorum(told.error_code, told.leader_id, told.leader_epoch, told.high_watermark, voters, observers)


class ChaosCluster(Cluster):
    """Nodes 1 to `size`; the log of the last one is on a `SmallDisk`.

    The first `voters` of them begin as voters. The others only know where nodes may be found.
    """

    def __init__(self, folder: Path, size: int, voters: int, links: Links) -> None:
        self.links = links
        self.fronts = {node_id: free_port() for node_id in range(1, size + 1)}
        self.nodes = {
            node_id: ChaosDaemon(folder / f"node-{node_id}", node_id, self.fronts, voters, links)
            for node_id in self.fronts
        }
        self.daemons = dict(self.nodes)
        self.small = self.nodes[size]
        self.small.disk = self.disk = SmallDisk(self.small.data)

    def __iter__(self) -> Iterator[ChaosDaemon]:
        return iter(self.nodes.values())

    @property
    def front_addresses(self) -> list[tuple[str, int]]:
        """Where clients find the nodes."""
        return [("127.0.0.1", port) for port in self.fronts.values()]

    def start(self) -> None:
        for daemon in self:
            daemon.begin()
        self.leader(seconds=30)

    def stop(self) -> None:
        super().stop()
        for daemon in self:
            daemon.gone()

    def leading(self) -> ChaosDaemon:
        """The leader of this moment."""
        return self.nodes[self.leader().node_id]


@contextmanager
def chaos_cluster(folder: Path, size: int, voters: int) -> Iterator[ChaosCluster]:
    """A running cluster, stopped at the end, and its disk unmounted."""
    links = Links()
    cluster = ChaosCluster(folder, size, voters, links)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        cluster.disk.close()
        links.stop()
