"""One thing that a broker says to others: a request at a time, over a connection that is made anew if it is lost."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from quorumd.errors import ErrorCode
from quorumd.ports import Network
from quorumd.protocol.wire import Message
from quorumd.simulator.environment.event_heap import EventHeap, Process, Scheduled
from quorumd.simulator.workload.request_connection import RequestConnection

Address = tuple[str, int]


class ResponseCallback(Protocol):
    """What a channel calls, once for each request."""

    def __call__(self, message: Message | None) -> None:
        """The answer; None if none will come, and what became of the request is not known."""


class Channel:
    """Requests of one broker for one purpose. A request without an answer is given up with its connection."""

    def __init__(
        self, name: str, heap: EventHeap, network: Network, process: Process, timeout_ms: float
    ) -> None:
        self._name = name
        self._heap = heap
        self._network = network
        self._process = process
        self._timeout_ms = timeout_ms
        self.link: RequestConnection | None = None
        """The connection, if there is one."""
        self._address: Address | None = None
        self._timer: Scheduled | None = None
        self.is_waiting = False

    def ask(self, address: Address, request: Message, version: int, done: ResponseCallback) -> None:
        """Send to that address. Only when nothing is waited for."""
        assert not self.is_waiting
        self.is_waiting = True
        if self._address != address:
            self.close()
        answered = partial(self._answered, done)
        self._timer = self._heap.call_later(
            self._timeout_ms, partial(answered, None), b"channel timeout", self._process
        )
        if self.link is None or self.link.is_over:
            self._address = address
            self.link = RequestConnection(self._name, request, version, answered)
            self._network.connect(*address, self.link)
        else:
            self.link.ask(request, version, answered)

    def close(self) -> None:
        """Give up the connection; what is waited for gets no answer."""
        if self.link is not None:
            self.link.abandon()
            self.link = None

    def _answered(self, done: ResponseCallback, message: Message | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.is_waiting = False
        if message is None or ErrorCode.NOT_CONTROLLER in errors_in(message):
            # Also in order to be heard again by a node that leads again: it takes no changes of an ISR over a
            # connection that is older than its leadership, which may hold requests of long ago.
            self.close()
        done(message)


def errors_in(message: object) -> list[int]:
    """All error codes of an answer, of the whole and of its parts."""
    if isinstance(message, list):
        return [code for part in message for code in errors_in(part)]
    own: list[int] = []
    for slot in getattr(message, "__slots__", ()):
        value = getattr(message, slot)
        if slot == "error_code":
            own.append(value)
        elif isinstance(value, list):
            own += errors_in(value)
    return own
