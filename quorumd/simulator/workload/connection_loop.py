"""A client that opens one connection at a time to nodes, with pauses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from quorumd.ports import Connection
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.event_heap import Process, Scheduled

TIMEOUT_MS: Final = 8000.0
"""Maximum duration of a connection."""


class ClientSide(Connection, Protocol):
    """A client's connection."""

    def abandon(self) -> None:
        """Close; nothing happens if it has ended."""


class ConnectionLoop(ABC):
    """Opens the connections that `make` returns from `host`, at a mean interval of `interval_ms`, until `running` is
    False."""

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
    def make(self, machine: Machine, on_end: Callable[[], None]) -> tuple[int, ClientSide]:
        """Draw the port of a node, and a connection to it that calls `on_end` once when it has ended."""

    def start(self) -> None:
        if self.running:
            wait_ms = self._random.random() * 2 * self._interval_ms
            self._heap.call_later(wait_ms, self._connect, self._name.encode(), self._process)

    def _connect(self) -> None:
        if not self.running:
            return
        machine = self._random.choice(list(self._cluster.machines.values()))
        port, connection = self.make(machine, self._ended)
        self._timer = self._heap.call_later(TIMEOUT_MS, connection.abandon, b"timeout", self._process)
        self._network.connect(machine.host, port, connection)

    def _ended(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.start()
