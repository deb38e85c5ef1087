"""A client that sends one request at a time to nodes, with pauses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, NamedTuple

from quorumd.protocol.wire import Message
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.workload.client_loop import ClientLoop
from quorumd.simulator.workload.request_connection import RequestConnection

TIMEOUT_MS: Final = 2000.0


class Drawn(NamedTuple):
    """A request, its version, the address of a node, and the handler of the response, which gets None if there is no
    response."""

    request: Message
    version: int
    address: tuple[str, int]
    handle: Callable[[Message | None], None]


class RequestLoop(ClientLoop):
    """Sends the requests that `draw` returns."""

    def __init__(
        self,
        cluster: Cluster,
        host: str,
        name: str,
        random: Random,
        interval_ms: float,
        timeout_ms: float = TIMEOUT_MS,
    ) -> None:
        super().__init__(cluster, host, name, random, interval_ms)
        self._nodes = cluster.addresses()
        self._timeout_ms = timeout_ms
        self._link: RequestConnection | None = None

    @abstractmethod
    def draw(self) -> Drawn:
        """Draw the next request."""

    def begin(self) -> None:
        drawn = self.draw()
        done = partial(self._complete, drawn.handle)
        self._link = RequestConnection(self._name, drawn.request, drawn.version, done)
        self.connect(drawn.address, self._link, self._timeout_ms, partial(done, None))

    def _complete(self, handle: Callable[[Message | None], None], message: Message | None) -> None:
        self.end_timeout()
        if self._link is not None:
            self._link.abandon()
        handle(message)
        self.start()
