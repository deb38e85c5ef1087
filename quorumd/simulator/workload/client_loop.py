"""A client that connects to one node at a time, with pauses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random

from quorumd.ports import Connection
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.event_heap import Process, Scheduled


class ClientLoop(ABC):
    """Calls `begin` after pauses of `interval_ms` on average, until `running` is False. The client connects from
    `host`."""

    def __init__(self, cluster: Cluster, host: str, name: str, random: Random, interval_ms: float) -> None:
        self.running = True
        self._cluster = cluster
        self._heap = cluster.heap
        self._name = name
        self._process = Process(name)
        self._network = cluster.network.host(host, self._process)
        self._random = random
        self._interval_ms = interval_ms
        self._timer: Scheduled | None = None

    @abstractmethod
    def begin(self) -> None:
        """Connect to a node. At the end of the connection, `end_timeout` and `start` are called."""

    def start(self) -> None:
        if self.running:
            wait_ms = self._random.random() * 2 * self._interval_ms
            self._heap.call_later(wait_ms, self._begin, self._name.encode(), self._process)

    def _begin(self) -> None:
        if self.running:
            self.begin()

    def connect(
        self,
        address: tuple[str, int],
        connection: Connection,
        timeout_ms: float,
        on_timeout: Callable[[], None],
    ) -> None:
        """Connect to a node, and call `on_timeout` after this time unless `end_timeout` is called before."""
        self._timer = self._heap.call_later(timeout_ms, on_timeout, b"timeout", self._process)
        self._network.connect(*address, connection)

    def end_timeout(self) -> None:
        """Cancel the timeout of the last connection."""
        if self._timer is not None:
            self._timer.cancel()
