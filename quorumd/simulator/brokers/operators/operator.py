"""An operator that sends the requests of one source, one at a time, to random nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final, NamedTuple, Protocol

from quorumd.errors import ErrorCode
from quorumd.ports import Network
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.observation import Observation
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.administered_register import OPEN_OUTCOMES
from quorumd.simulator.environment.event_heap import EventHeap, Process, Scheduled
from quorumd.simulator.workload.request_connection import RequestConnection

TIMEOUT_MS: Final = 2000
INVARIANT: Final = "mistakes about partitions get their documented error"


class AdminRequest(NamedTuple):
    """A request in one of its versions."""

    message: Message
    version: int
    expected: frozenset[int] | None = None
    """The error codes of which the response may have any, besides those of an open outcome; None for all."""


class RequestSource(Protocol):
    """Builds the requests of an operator."""

    def next(self) -> AdminRequest | None:
        """Return the next request, None if none is possible now."""


class Operator:
    """Sends requests until `running` is False, with a mean time of `mean_ms` between them."""

    def __init__(
        self,
        name: str,
        source: RequestSource,
        mean_ms: float,
        heap: EventHeap,
        network: Callable[[Process], Network],
        random: Random,
        observation: Observation,
        nodes: Sequence[tuple[str, int]],
    ) -> None:
        self.running = True
        self.counters: Counter[str] = Counter()
        self._name = name
        self._source = source
        self._mean_ms = mean_ms
        self._heap = heap
        self._process = Process(f"operator of {name}")
        self._network = network(self._process)
        self._random = random
        self._observation = observation
        self._nodes = nodes
        self._link: RequestConnection | None = None
        self._timer: Scheduled | None = None

    def start(self) -> None:
        """Send the next request after a random time."""
        if self.running:
            wait_ms = self._random.random() * 2 * self._mean_ms
            self._heap.call_later(wait_ms, self._send, b"operator", self._process)

    def _send(self) -> None:
        if not self.running:
            return
        request = self._source.next()
        if request is None:
            self.start()
            return
        self._observation.admin_request_sent(request.message)
        on_response = partial(self._on_response, request)
        self._timer = self._heap.call_later(TIMEOUT_MS, partial(on_response, None), b"timeout", self._process)
        self._link = RequestConnection(self._process.name, request.message, request.version, on_response)
        self._network.connect(*self._random.choice(self._nodes), self._link)

    def _on_response(self, sent: AdminRequest, message: Message | None) -> None:
        request = sent.message
        if self._timer is not None:
            self._timer.cancel()
        if self._link is not None:
            self._link.abandon()
        name = f"{self._name}: {type(request).__name__.removesuffix('Request')}"
        if message is None:
            self.counters[f"{name}: no response"] += 1
        else:
            codes = [code for code, _ in errors_in(message)] or [int(ErrorCode.NONE)]
            for code in codes:
                self.counters[f"{name}: {ErrorCode(code).name}"] += 1
            if sent.expected is not None and not sent.expected.union(OPEN_OUTCOMES).issuperset(codes):
                raise InvariantViolation(INVARIANT, f"{request!r} has {codes}: {message!r}")
            self._observation.admin_request_completed(request, message)
        self.start()
