"""Whole nodes on the simulator's ports, without faults unless a test causes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from quorumd.controller.controller import ControllerSettings
from quorumd.ids import Endpoint, KafkaUuid
from quorumd.log.meta_properties import format_directory
from quorumd.log.quorum_state_file import Founder
from quorumd.node.builder import start_node
from quorumd.node.node import Node
from quorumd.node.ports import NodePorts
from quorumd.node.settings import NodeSettings
from quorumd.ports import Transport
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.wire import Message
from quorumd.simulator.environment.clock import SimulatedClock
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.disk_latency import DiskLatency
from quorumd.simulator.environment.entropy import SimulatedEntropy
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.environment.link_conditions import LinkConditions
from quorumd.simulator.environment.network import SimulatedNetwork
from quorumd.simulator.environment.topic_regexes import compile_regex
from tests.support.node.virtual_time import VirtualTime

DATA_DIRECTORY = "/data"
PORT = 9092
EVEN_LINKS = LinkConditions(latency_ms=(0.1, 0.1), slow_probability=0.0, split_probability=0.0)
EVEN_DISKS = DiskLatency(usual_ms=(0.5, 0.5), slow_probability=0.0)
NO_IDLE_RECORDS = ControllerSettings(max_idle_interval_ms=0.0)
"""Settings for tests that compare log end offsets without writes."""


class Closed(Exception):
    """The node closed the connection without a response."""


class Cluster:
    """The formatted nodes 1 to `voters`, which `start` starts. Exceptions of their callbacks propagate from `run`.

    With `founds` they are formatted to found a quorum together, as with --initial-controllers.
    """

    first_directory_number = 0

    def __init__(
        self, voters: int = 1, cluster_id: str | None = None, founds: bool = True, **settings: Any
    ) -> None:
        self.time = VirtualTime()
        self.heap = self.time.heap
        self.random = Random(1)
        self.network = SimulatedNetwork(self.heap, Random(2), EVEN_LINKS)
        self.voters = tuple(range(1, voters + 1))
        self.settings = settings
        self.record_ms = 0.0
        """Processor time per record, of nodes that start from now on."""
        self.disks: dict[int, SimulatedDisk] = {}
        self.processes: dict[int, Process] = {}
        self.nodes: dict[int, Node] = {}
        self.exits: list[tuple[int, int, str]] = []
        self.starts: Counter[int] = Counter()
        """The number of starts of each node; each incarnation has its own random numbers."""
        for node_id in self.voters:
            self.format(node_id, cluster_id, founds=founds)

    def format(
        self, node_id: int, cluster_id: str | None = None, directory_number: int = 0, founds: bool = False
    ) -> None:
        """Format a new disk in the machine; each `directory_number` has its own directory id."""
        disk = self.disks[node_id] = SimulatedDisk(self.heap, Random(node_id), EVEN_DISKS)
        directory_id = directory_of(node_id, self.first_directory_number + directory_number)
        founders = [
            Founder(voter, directory_of(voter, self.first_directory_number), host_of(voter), PORT)
            for voter in self.voters
        ]
        format_directory(
            disk,
            DATA_DIRECTORY,
            node_id=node_id,
            directory_id=directory_id,
            cluster_id=cluster_id,
            founders=founders if founds else None,
        )

    def start_node(self, node_id: int, **settings: Any) -> Node:
        """Start a node on the machine of that id."""
        process = self.processes[node_id] = Process(f"node-{node_id}", node_id)
        self.starts[node_id] += 1
        self.disks[node_id].mount(process)
        endpoint = Endpoint("CONTROLLER", host_of(node_id), PORT)
        fields: dict[str, Any] = {
            "node_id": node_id,
            "data_directory": DATA_DIRECTORY,
            "listen": endpoint,
            "advertised": endpoint,
            "voter_addresses": tuple((voter, host_of(voter), PORT) for voter in self.voters),
            "bootstrap_voters": self.voters,
        }
        ports = NodePorts(
            SimulatedClock(self.heap, process, record_ms=self.record_ms),
            SimulatedEntropy(Random(node_id + 100 * self.starts[node_id])),
            self.disks[node_id],
            self.network.host(host_of(node_id), process),
            compile_regex,
        )
        self.nodes[node_id] = node = start_node(
            NodeSettings(**(fields | self.settings | settings)),
            ports,
            partial(self._stopped, node_id, process),
        )
        return node

    def start(self, *node_ids: int) -> Cluster:
        for node_id in node_ids or self.voters:
            self.start_node(node_id)
        return self

    def kill(self, node_id: int) -> None:
        process = self.processes[node_id]
        process.alive = False
        del self.nodes[node_id]
        self.network.process_ended(process)

    def run(self, duration_ms: float) -> None:
        self.time.pass_ms(duration_ms)

    def run_until(self, condition: Callable[[], object], limit_ms: float = 20_000) -> None:
        until = self.heap.now_ms + limit_ms
        while not condition():
            assert self.heap.step(until), "condition not met in time"

    def leader(self) -> Node:
        """Wait until a leader has committed in its epoch and applied the bootstrap records, and return it."""
        self.run_until(lambda: self._leaders() and self._leaders()[0].state_machine.image.features)
        return self._leaders()[0]

    def follower(self) -> Node:
        leader = self.leader()
        return next(node for node in self.nodes.values() if node is not leader)

    def client(self, node_id: int = 1, host: str = "client") -> Client:
        return Client(self, node_id, host)

    def _leaders(self) -> list[Node]:
        return [n for n in self.nodes.values() if n.engine.is_leader and n.engine.high_watermark > 0]

    def _stopped(self, node_id: int, process: Process, exit_code: int, reason: str) -> None:
        self.exits.append((node_id, exit_code, reason))
        self.heap.call_later(0.0, lambda: self._end(node_id, process), b"exit")

    def _end(self, node_id: int, process: Process) -> None:
        process.alive = False
        self.network.process_ended(process)
        self.nodes.pop(node_id, None)


class Client:
    """One connection to a node. `request` waits for the response, `send` does not; `responses` has all responses."""

    def __init__(self, cluster: Cluster, node_id: int, host: str, port: int = PORT) -> None:
        self._cluster = cluster
        self._connection = ClientConnection("test")
        self._transport: Transport | None = None
        self.responses: list[Message] = []
        self.is_closed = False
        cluster.network.host(host).connect(host_of(node_id), port, self)
        cluster.run_until(lambda: self._transport or self.is_closed)

    def request(self, message: Message, version: int, limit_ms: float = 20_000) -> Any:
        """Send a request and return the decoded response. Raises Closed if the node closes the connection first."""
        before = len(self.responses)
        self.send(message, version)
        self._cluster.run_until(lambda: len(self.responses) > before or self.is_closed, limit_ms)
        if len(self.responses) == before:
            raise Closed
        return self.responses[before]

    def send(self, message: Message, version: int) -> None:
        self.send_bytes(self._connection.request(message, version)[1])

    def send_bytes(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def wait(self, duration_ms: float) -> None:
        """Let the cluster run for a while."""
        self._cluster.run(duration_ms)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def connected(self, transport: Transport) -> None:
        self._transport = transport

    def received(self, data: bytes) -> None:
        self.responses += [response for _, response in self._connection.receive(data)]

    def closed(self, reason: str, refused: bool) -> None:
        self.is_closed = True


def directory_of(node_id: int, directory_number: int = 0) -> KafkaUuid:
    return KafkaUuid(bytes(14) + bytes([directory_number, 64 + node_id]))


def host_of(node_id: int) -> str:
    return f"10.0.0.{node_id}"
