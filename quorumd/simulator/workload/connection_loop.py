"""A client that opens one connection at a time to nodes, with pauses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Final, Protocol

from quorumd.ports import Connection
from quorumd.simulator.cluster import Machine
from quorumd.simulator.workload.client_loop import ClientLoop

TIMEOUT_MS: Final = 8000.0
"""Maximum duration of a connection."""


class ClientSide(Connection, Protocol):
    """A client's connection."""

    def abandon(self) -> None:
        """Close; nothing happens if it has ended."""


class ConnectionLoop(ClientLoop):
    """Opens the connections that `make` returns."""

    @abstractmethod
    def make(self, machine: Machine, on_end: Callable[[], None]) -> tuple[int, ClientSide]:
        """Draw the port of a node, and a connection to it that calls `on_end` once when it has ended."""

    def begin(self) -> None:
        machine = self._random.choice(list(self._cluster.machines.values()))
        port, connection = self.make(machine, self._ended)
        self.connect((machine.host, port), connection, TIMEOUT_MS, connection.abandon)

    def _ended(self) -> None:
        self.end_timeout()
        self.start()
