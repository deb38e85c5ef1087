"""A client's connection to one node."""

from __future__ import annotations

from typing import Protocol

from quorumd.ports import Transport
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.wire import Message


class Call(Protocol):
    """The callback of a client's request."""

    def __call__(self, message: Message | None) -> None:
        """Handle the response, None if no response will arrive."""


class RequestConnection:
    """A client's connection with one request at a time; satisfies `ports.Connection`."""

    def __init__(self, client_id: str, request: Message, version: int, done: Call) -> None:
        self._connection = ClientConnection(client_id)
        self._first: tuple[Message, int] | None = (request, version)
        self._done: Call | None = done
        self._transport: Transport | None = None
        self.is_over = False

    def send(self, request: Message, version: int, done: Call) -> None:
        self._done = done
        if self._transport is None:
            self._first = (request, version)
        else:
            self._transport.write(self._connection.request(request, version)[1])

    def abandon(self) -> None:
        """Drop the pending request and close."""
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
