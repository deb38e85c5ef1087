"""Clients that write and read configs through the real protocol, and the history of their calls and returns.

Every key is a register: written with IncrementalAlterConfigs, read with DescribeConfigs, every value
written once. A client does one thing at a time. A write that got no answer, or an error for an answer, may
have happened or may still happen; a read without an answer tells nothing and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Protocol

from quorumd.errors import ErrorCode, MalformedMessage
from quorumd.ports import Network, Transport
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.messages.describe_configs_response import DescribeConfigsResponse
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.linearizability import Operation
from quorumd.simulator.event_heap import EventHeap, Process, Scheduled

GROUP_RESOURCE = 32
ALTER_VERSION = 1
DESCRIBE_VERSION = 4
SET = 0


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """How many clients do what how often. Times are milliseconds of virtual time."""

    clients: int = 3
    readers: int = 0
    """So many of the clients only read: a write that waits for its commit makes later reads wait, and with them
    it would hide the stale ones."""
    keys: int = 2
    read_share: float = 0.4
    """Of the other clients' operations."""
    think_ms: tuple[float, float] = (5.0, 80.0)
    """How long a client waits between its operations."""
    timeout_ms: float = 3000.0
    """After that long without an answer a client gives up and tries another node."""


class History:
    """All operations of all clients, in the order of their calls."""

    def __init__(self, acknowledged: Callable[[str], None]) -> None:
        self.operations: list[Operation] = []
        self.acknowledged_writes = 0
        self.answered_reads = 0
        self._acknowledged = acknowledged

    def called(self, operation: Operation) -> None:
        self.operations.append(operation)

    def returned(self, operation: Operation, now_ms: float) -> None:
        operation.returned_ms = now_ms
        if operation.kind == "write":
            self.acknowledged_writes += 1
            self._acknowledged(operation.value)
        else:
            self.answered_reads += 1

    def of_key(self, key: str) -> list[Operation]:
        return [operation for operation in self.operations if operation.key == key]

    def keys_used(self) -> list[str]:
        return sorted({operation.key for operation in self.operations})


class Call(Protocol):
    """What a client waits for on its connection."""

    def __call__(self, message: Message | None) -> None:
        """The answer; None if none will come."""


class ClientLink:
    """One connection of a client; satisfies `ports.Connection`. One request at a time."""

    def __init__(self, client_id: str, request: Message, version: int, done: Call) -> None:
        self._connection = ClientConnection(client_id)
        self._first: tuple[Message, int] | None = (request, version)
        self._done: Call | None = done
        self._transport: Transport | None = None
        self.is_over = False

    def ask(self, request: Message, version: int, done: Call) -> None:
        self._done = done
        if self._transport is None:
            self._first = (request, version)
        else:
            self._transport.write(self._connection.request(request, version)[1])

    def abandon(self) -> None:
        """Forget the request under way and close."""
        self._done = None
        self.is_over = True
        if self._transport is not None:
            self._transport.close()

    def connected(self, transport: Transport) -> None:
        self._transport = transport
        if self.is_over:
            transport.close()
        elif self._first is not None:
            transport.write(self._connection.request(*self._first)[1])
            self._first = None

    def received(self, data: bytes) -> None:
        for _, message in self._connection.receive(data):
            self._finish(message)

    def closed(self, reason: str, refused: bool) -> None:
        self.is_over = True
        self._finish(None)

    def _finish(self, message: Message | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(message)


class SimulatedClient:
    """Writes and reads in turn, at random nodes, staying with one that answers."""

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
        self._link: ClientLink | None = None
        self._written = 0
        self._timer: Scheduled | None = None
        self.running = True

    def start(self) -> None:
        self._next()

    def _next(self) -> None:
        low, high = self._options.think_ms
        if self.running:
            delay = low + self._random.random() * (high - low)
            self._heap.call_later(delay, self._begin, b"client", self._process)

    def _begin(self) -> None:
        key = f"key.{self._random.randrange(self._options.keys)}"
        if self._random.random() < self.read_share:
            operation = Operation(self._number, "read", key, None, self._heap.now_ms)
            request: Message = read_request(key)
            version = DESCRIBE_VERSION
        else:
            self._written += 1
            operation = Operation(
                self._number, "write", key, f"w{self._number}-{self._written};", self._heap.now_ms
            )
            request, version = write_request(key, operation.value), ALTER_VERSION
        self._history.called(operation)
        self._timer = self._heap.call_later(
            self._options.timeout_ms,
            partial(self._answered, operation, None),
            b"client timeout",
            self._process,
        )
        self._ask(request, version, partial(self._answered, operation))

    def _ask(self, request: Message, version: int, done: Call) -> None:
        if self._link is None or self._link.is_over:
            host, port = self._nodes[self._random.randrange(len(self._nodes))]
            self._link = ClientLink(f"client-{self._number}", request, version, done)
            self._network.connect(host, port, self._link)
        else:
            self._link.ask(request, version, done)

    def _answered(self, operation: Operation, message: Message | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        succeeded = message is not None and settle(operation, message)
        if succeeded:
            self._history.returned(operation, self._heap.now_ms)
        elif self._link is not None:
            self._link.abandon()
        self._next()


def write_request(key: str, value: str) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(key, SET, value)
    return IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, "simulated", [config])])


def read_request(key: str) -> DescribeConfigsRequest:
    return DescribeConfigsRequest([DescribeConfigsResource(GROUP_RESOURCE, "simulated", [key])])


def settle(operation: Operation, message: Message) -> bool:
    """Whether the operation succeeded; a read's value is taken from the answer."""
    if isinstance(message, IncrementalAlterConfigsResponse):
        return all(response.error_code == ErrorCode.NONE for response in message.responses)
    if not isinstance(message, DescribeConfigsResponse):
        raise MalformedMessage(f"{message!r} is no answer to {operation}")
    (result,) = message.results
    if result.error_code != ErrorCode.NONE:
        return False
    found = [config.value for config in result.configs if config.name == operation.key]
    operation.value = found[0] if found else None
    return True
