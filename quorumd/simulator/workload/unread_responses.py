"""A client that requests megabytes on several connections at once and reads none of them, or reads much later.

A node must not hold more than its limits, however much a client leaves unread: it aborts the connections that hold
the most, and serves all other clients.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Final

from quorumd.ports import Transport
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.node_settings import MAX_HELD_BYTES, MAX_UNSENT_BYTES
from quorumd.simulator.workload.client_loop import ClientLoop

HOST: Final = "10.0.18.1"
NAME: Final = "client that does not read"
INVARIANT: Final = "unread responses are bounded"
CONNECTIONS: Final = (1, 2, 4)
NAMES: Final = (200, 1000, 2500, 6500)
"""Numbers of unknown topics per request: 240 bytes each in the response. A node describes two topics at once, so that
larger groups would take more callbacks than are possible at one instant."""
NAME_BYTES: Final = 230
TOPIC_BYTES: Final = NAME_BYTES + 30
UNCOUNTED_BYTES: Final = 64 << 10
"""More than all connections hold that are too small to be counted."""
MAX_REQUESTS: Final = 8
MAX_LARGEST: Final = 2
"""Maximum number of the largest requests, on one connection."""
METADATA_VERSION: Final = 12
LOOK_MS: Final = 10.0
WAITS_MS: Final = (50.0, 500.0, 3000.0)
"""How long the client does not read; then it reads everything, or hangs up."""


class UnreadResponses(ClientLoop):
    """Opens groups of connections to one node, one group at a time."""

    def __init__(self, cluster: Cluster, random: Random, interval_ms: float) -> None:
        super().__init__(cluster, HOST, NAME, random, interval_ms)
        self.counters: Counter[str] = Counter()
        self._machine: Machine | None = None
        self._open: list[DeafConnection] = []
        self._response_bytes = 0

    def begin(self) -> None:
        """Open a group, which ends after a while."""
        random, machine = self._random, self._random.choice(list(self._cluster.machines.values()))
        names, count = random.choice(NAMES), 1 + random.randrange(MAX_REQUESTS)
        topics = [MetadataRequestTopic(name=f"{number:0{NAME_BYTES}}") for number in range(names)]
        data = ClientConnection(NAME).request(MetadataRequest(topics), METADATA_VERSION)[1]
        self._machine, self._response_bytes = machine, names * TOPIC_BYTES
        connections = random.choice(CONNECTIONS)
        if names == NAMES[-1]:
            count, connections = min(count, MAX_LARGEST), 1
        for _ in range(connections):
            connection = DeafConnection(self._heap, self._process, bytes(data), count, self.counters)
            self._open.append(connection)
            self._network.connect(machine.host, machine.port, connection)
        reads, wait_ms = random.random() < 0.5, random.choice(WAITS_MS)
        self._heap.call_later(wait_ms, partial(self._end, reads), b"unread", self._process)
        self._look()

    def _end(self, reads: bool) -> None:
        """Read what is left, or hang up; the next group begins later."""
        for connection in self._open:
            connection.end(reads)
        self._open.clear()
        self.start()

    def _look(self) -> None:
        """Check the limits until the group ends."""
        if self._open and self._machine is not None:
            self.check(self._machine)
            self._heap.call_later(LOOK_MS, self._look, b"look at unread", self._process)

    def check(self, machine: Machine) -> None:
        """Check what a node holds for this client. Raises InvariantViolation."""
        address = f"{machine.host}:{machine.port}"
        links = [side for side in self._cluster.network.links if side.host == HOST and side.peer == address]
        unsent = [side.far.stream.unsent_bytes for side in links]
        self.counters["unread: checks"] += 1
        self.counters["unread: largest"] = max(self.counters["unread: largest"], *unsent, 0)
        if any(size > MAX_UNSENT_BYTES + 2 * self._response_bytes for size in unsent):
            raise InvariantViolation(INVARIANT, f"{machine.host} holds {unsent} bytes for connections")
        if sum(unsent) > MAX_HELD_BYTES + UNCOUNTED_BYTES:
            raise InvariantViolation(INVARIANT, f"{machine.host} holds {unsent} bytes for one client")


class DeafConnection:
    """Sends the same request several times and does not read; satisfies `ports.Connection`."""

    def __init__(
        self, heap: EventHeap, process: Process, data: bytes, count: int, counters: Counter[str]
    ) -> None:
        self._heap = heap
        self._process = process
        self._data = data
        self._count = count
        self._counters = counters
        self._transport: Transport | None = None
        self._is_over = False

    def connected(self, transport: Transport) -> None:
        self._transport = transport
        if self._is_over:
            transport.close()
            return
        transport.pause_reading()
        self._counters["unread: requests"] += self._count
        transport.write(self._data * self._count)

    def received(self, data: bytes) -> None:
        self._counters["unread: bytes read late"] += len(data)

    def closed(self, reason: str, refused: bool) -> None:
        if self._transport is not None and not self._is_over:
            self._counters["unread: aborted by the node"] += 1
        self._transport = None

    def end(self, reads: bool) -> None:
        """Read everything from now on, or hang up."""
        self._is_over = True
        if self._transport is None:
            return
        if reads:
            self._transport.resume_reading()
            self._heap.call_later(WAITS_MS[-1], self._hang_up, b"hang up", self._process)
        else:
            self._transport.close()

    def _hang_up(self) -> None:
        if self._transport is not None:
            self._transport.close()
