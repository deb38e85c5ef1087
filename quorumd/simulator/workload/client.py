"""A client: its operations, timeouts and retries.

A write without a response, or with an error response, may have taken effect or may still do so; a read without
a response carries no information and is omitted. After a timeout a client switches to another node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

from quorumd.ports import Network
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.linearizability import Operation
from quorumd.simulator.environment.event_heap import EventHeap, Process, Scheduled
from quorumd.simulator.workload.history import LIST_PREFIX, History
from quorumd.simulator.workload.list_requests import GENERATION_MS, append_request, split_values
from quorumd.simulator.workload.options import WorkloadOptions
from quorumd.simulator.workload.register_requests import (
    ALTER_VERSION,
    DESCRIBE_VERSION,
    read_request,
    resolve,
    write_request,
)
from quorumd.simulator.workload.request_connection import RequestConnection


class SimulatedClient:
    """Writes to and reads from a random node, and stays with it while it responds."""

    def __init__(
        self,
        number: int,
        heap: EventHeap,
        network: Network,
        process: Process,
        random: Random,
        options: WorkloadOptions,
        history: History,
        nodes: Sequence[tuple[str, int]],
    ) -> None:
        self._number = number
        self._heap = heap
        self._network = network
        self._process = process
        self._random = random
        self._options = options
        self._history = history
        self._nodes = nodes
        self.read_share = 1.0 if number < options.readers else options.read_share
        self._link: RequestConnection | None = None
        self._written = 0
        self._timer: Scheduled | None = None
        self._host = ""
        self.running = True
        self.is_idle = True
        """Whether no operation is in progress."""
        self.waits_for: tuple[str, float] | None = None
        """The host whose response is pending, and since when."""

    def start(self) -> None:
        self._next()

    def _next(self) -> None:
        self.is_idle = True
        if self.running:
            self._heap.call_later(self._pause(), self._begin, b"client", self._process)

    def _pause(self) -> float:
        low, high = self._options.think_ms
        return low + self._random.random() * (high - low)

    def _begin(self) -> None:
        if not self.running:
            return
        self.is_idle = False
        operation = self._draw()
        self._history.called(operation)
        self._attempt(operation, 1)

    def _draw(self) -> Operation:
        random, options, now = self._random, self._options, self._heap.now_ms
        key, change = f"key.{random.randrange(options.keys)}", "write"
        if options.list_share and random.random() < options.list_share:
            key, change = (
                f"{LIST_PREFIX}{int(now / GENERATION_MS)}.{random.randrange(options.keys)}",
                "append",
            )
        if random.random() < self.read_share:
            return Operation(self._number, "read", key, None, now)
        self._written += 1
        return Operation(self._number, change, key, f"w{self._number}-{self._written};", now)

    def _attempt(self, operation: Operation, attempt: int) -> None:
        on_response = partial(self._on_response, operation, attempt)
        self._timer = self._heap.call_later(
            self._options.timeout_ms, partial(on_response, None), b"client timeout", self._process
        )
        request, version = self._request(operation)
        if self._link is None or self._link.is_over:
            self._host, port = self._nodes[self._random.randrange(len(self._nodes))]
            self._link = RequestConnection(f"client-{self._number}", request, version, on_response)
            self._network.connect(self._host, port, self._link)
        else:
            self._link.send(request, version, on_response)
        self.waits_for = (self._host, self._heap.now_ms)

    def _on_response(self, operation: Operation, attempt: int, message: Message | None) -> None:
        self.waits_for = None
        if self._timer is not None:
            self._timer.cancel()
        if message is not None and resolve(operation, message):
            if operation.kind == "read" and operation.key.startswith(LIST_PREFIX):
                split_values(operation)
            self._history.returned(operation, self._heap.now_ms)
            self._next()
            return
        if self._link is not None:
            self._link.abandon()
        if operation.kind == "append" and attempt < self._options.append_attempts:
            self._history.repeated_appends += 1
            self._heap.call_later(
                self._pause(), partial(self._attempt, operation, attempt + 1), b"client", self._process
            )
        else:
            self._next()

    def _request(self, operation: Operation) -> tuple[Message, int]:
        """Return the request of an operation, and its version."""
        if operation.kind == "read":
            return read_request(operation.key), DESCRIBE_VERSION
        if operation.kind == "append":
            return append_request(operation.key, operation.value), ALTER_VERSION
        padding = self._random.randrange(self._options.longest_padding + 1)
        return write_request(operation.key, operation.value, padding), ALTER_VERSION
