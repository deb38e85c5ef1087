"""A client that sends one request at a time to nodes, with pauses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, NamedTuple

from quorumd.protocol.wire import Message
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.event_heap import Process, Scheduled
from quorumd.simulator.workload.request_connection import RequestConnection

TIMEOUT_MS: Final = 2000.0


class Drawn(NamedTuple):
    """A request, its version, the address of a node, and the handler of the response, which gets None if there is no
    response."""

    request: Message
    version: int
    address: tuple[str, int]
    handle: Callable[[Message | None], None]


class RequestLoop(ABC):
    """Sends the requests that `draw` returns from `host`, at a mean interval of `interval_ms` until `running` is
    False."""

    def __init__(
        self,
        cluster: Cluster,
        host: str,
        name: str,
        random: Random,
        interval_ms: float,
        timeout_ms: float = TIMEOUT_MS,
    ) -> None:
        self.running = True
        self._cluster = cluster
        self._heap = cluster.heap
        self._name = name
        self._process = Process(name)
        self._network = cluster.network.host(host, self._process)
        self._nodes = cluster.addresses()
        self._random = random
        self._interval_ms = interval_ms
        self._timeout_ms = timeout_ms
        self._link: RequestConnection | None = None
        self._timer: Scheduled | None = None

    @abstractmethod
    def draw(self) -> Drawn:
        """Draw the next request."""

    def start(self) -> None:
        if self.running:
            wait_ms = self._random.random() * 2 * self._interval_ms
            self._heap.call_later(wait_ms, self._send_request, self._name.encode(), self._process)

    def _send_request(self) -> None:
        if not self.running:
            return
        drawn = self.draw()
        done = partial(self._complete, drawn.handle)
        self._timer = self._heap.call_later(self._timeout_ms, partial(done, None), b"timeout", self._process)
        self._link = RequestConnection(self._name, drawn.request, drawn.version, done)
        self._network.connect(*drawn.address, self._link)

    def _complete(self, handle: Callable[[Message | None], None], message: Message | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._link is not None:
            self._link.abandon()
        handle(message)
        self.start()
