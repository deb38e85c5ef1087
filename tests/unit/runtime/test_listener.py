"""A listener on a real socket, whose event loop is the test."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quorumd.runtime.listener import ACCEPTED_PER_ITERATION, TcpListener

WAIT_S = 0.7


class ScriptedLoop:
    """The part of an event loop that a listener uses."""

    def __init__(self) -> None:
        self.reader: Callable[[], None] | None = None
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def add_reader(self, source: object, callback: Callable[[], None]) -> None:
        del source
        self.reader = callback

    def remove_reader(self, source: object) -> None:
        del source
        self.reader = None

    def call_later(self, wait_s: float, callback: Callable[[], None]) -> None:
        self.timers.append((wait_s, callback))


class Harness:
    """Connected clients wait in the kernel until the listener accepts them. `waits`: what `admit` returns."""

    def __init__(self) -> None:
        self.loop: Any = ScriptedLoop()
        self.waits: list[float] = []
        self.accepted = 0
        server = socket.create_server(("127.0.0.1", 0))
        server.setblocking(False)
        self.listener = TcpListener(server, self.loop, self._admit)
        self.clients: list[socket.socket] = []

    def connect(self, count: int) -> None:
        for _ in range(count):
            self.clients.append(socket.create_connection(("127.0.0.1", self.listener.port)))

    def _admit(self, accepted: socket.socket, host: str) -> float:
        assert host == "127.0.0.1"
        accepted.close()
        self.accepted += 1
        return self.waits.pop(0) if self.waits else 0.0


@pytest.fixture
def harness() -> Iterator[Harness]:
    harness = Harness()
    yield harness
    harness.loop.timers.clear()
    harness.listener.close()
    for client in harness.clients:
        client.close()


def test_listener_accepts_a_few_per_iteration(harness: Harness) -> None:
    harness.connect(ACCEPTED_PER_ITERATION + 1)
    harness.loop.reader()
    assert harness.accepted == ACCEPTED_PER_ITERATION
    harness.loop.reader()
    assert harness.accepted == ACCEPTED_PER_ITERATION + 1


def test_connections_beyond_the_rate_wait(harness: Harness) -> None:
    harness.connect(3)
    harness.waits = [0.0, WAIT_S]
    harness.loop.reader()
    assert (harness.accepted, harness.loop.reader) == (2, None)
    ((wait_s, resume),) = harness.loop.timers
    assert wait_s == WAIT_S
    resume()
    harness.loop.reader()
    assert harness.accepted == 3
