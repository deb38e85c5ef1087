"""Requests of a broker for one purpose: one at a time, over a connection that is reopened when lost."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from quorumd.errors import ErrorCode
from quorumd.ports import Network
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.simulator.environment.event_heap import EventHeap, Process, Scheduled
from quorumd.simulator.workload.request_connection import RequestConnection

Address = tuple[str, int]


class ResponseCallback(Protocol):
    """The callback of a request, called once."""

    def __call__(self, message: Message | None) -> None:
        """Handle the response; None if no response will arrive, so that the outcome is unknown."""


class Channel:
    """Requests of one broker for one purpose. A timeout closes the connection."""

    def __init__(
        self, name: str, heap: EventHeap, network: Network, process: Process, timeout_ms: float
    ) -> None:
        self._name = name
        self._heap = heap
        self._network = network
        self._process = process
        self._timeout_ms = timeout_ms
        self.link: RequestConnection | None = None
        """The open connection, if any."""
        self._address: Address | None = None
        self._timer: Scheduled | None = None
        self.is_waiting = False

    def send(self, address: Address, request: Message, version: int, done: ResponseCallback) -> None:
        """Send a request to this address. No other request may be pending."""
        assert not self.is_waiting
        self.is_waiting = True
        if self._address != address:
            self.close()
        on_response = partial(self._on_response, done)
        self._timer = self._heap.call_later(
            self._timeout_ms, partial(on_response, None), b"channel timeout", self._process
        )
        if self.link is None or self.link.is_over:
            self._address = address
            self.link = RequestConnection(self._name, request, version, on_response)
            self._network.connect(*address, self.link)
        else:
            self.link.send(request, version, on_response)

    def close(self) -> None:
        """Close the connection; a pending request gets no response."""
        if self.link is not None:
            self.link.abandon()
            self.link = None

    def _on_response(self, done: ResponseCallback, message: Message | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.is_waiting = False
        if message is None or any(code == ErrorCode.NOT_CONTROLLER for code, _ in errors_in(message)):
            # Reconnect: a node that leads again refuses ISR changes on connections older than its leadership, since
            # they may have outdated requests.
            self.close()
        done(message)
