"""The session of a broker's requests to the active controller in the same process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quorumd.errors import MalformedMessage
from quorumd.node.api.forwarding import decode_response
from quorumd.protocol.connection import Request
from quorumd.protocol.routes import Origin
from quorumd.protocol.wire import Message


class ResponseHandler(Protocol):
    """Handles the outcome of each request, possibly while the request is being routed."""

    def on_response(self, request: Request[Message], response: Message) -> None: ...

    def on_refused(self, request: Request[Message], reason: str) -> None: ...

    def on_closed(self, reason: str) -> None: ...


class LocalSession:
    """Replaces a connection: handlers, checks and delayed responses are the same as for requests of other brokers.

    `number` is a connection number, by which AlterPartition requests are ordered.
    """

    def __init__(self, number: int, handler: ResponseHandler) -> None:
        self.origin = Origin("this process", "localhost", number, is_controller_client=True, is_internal=True)
        self._handler = handler
        self._on_unblocked: Callable[[], None] | None = None

    def respond(self, request: Request[Message], message: Message) -> None:
        self._handler.on_response(request, message)
        self._unblock()

    def respond_immediately(self, request: Request[Message], message: Message) -> None:
        self.respond(request, message)

    def respond_encoded(self, request: Request[Message], response: bytes) -> None:
        try:
            message = decode_response(request, response)
        except MalformedMessage as fault:
            self._refuse(request, str(fault))
            return
        self.respond(request, message)

    def extend(self, message: Message, is_rest: bool = True) -> LocalSession:
        return self

    def respond_nothing(self, request: Request[Message]) -> None:
        self._refuse(request, "the request has no response")

    def block(self, request: Request[Message], on_unblocked: Callable[[], None] | None = None) -> None:
        """Call back with the outcome. A channel sends one request at a time, so that none has to wait."""
        del request
        self._on_unblocked = on_unblocked

    def close(self) -> None:
        self._handler.on_closed("the active controller closed the connection")
        self._unblock()

    def respond_not_leader(self, request: Request[Message], message: Message) -> None:
        del message
        self._refuse(request, "this node is no longer the active controller")

    def _refuse(self, request: Request[Message], reason: str) -> None:
        self._handler.on_refused(request, reason)
        self._unblock()

    def _unblock(self) -> None:
        callback, self._on_unblocked = self._on_unblocked, None
        if callback is not None:
            callback()
