"""The session of a broker's requests to the active controller in the same process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quorumd.errors import MalformedMessage
from quorumd.node.api.forwarding import decode_response
from quorumd.ports import ANONYMOUS
from quorumd.protocol.connection import Request
from quorumd.protocol.wire import Message


class Outcomes(Protocol):
    """Receives the outcome of each request, possibly while it is being routed."""

    def on_response(self, request: Request[Message], response: Message) -> None: ...

    def on_refused(self, request: Request[Message], reason: str) -> None: ...

    def on_closed(self, reason: str) -> None: ...


class LocalSession:
    """Takes the place of a connection: handlers, checks and delayed responses are those of other brokers' requests.

    `number`: among the numbers of accepted connections, which order AlterPartition requests.
    """

    is_controller_client = True
    is_peer = False
    comes_from_broker = False
    is_internal = True

    def __init__(self, number: int, outcomes: Outcomes) -> None:
        self.peer = "this process"
        self.principal = ANONYMOUS
        self.token_authenticated = False
        self.listener = ""
        self.host = "localhost"
        self.number = number
        self._outcomes = outcomes

    def respond(self, request: Request[Message], message: Message) -> None:
        self._outcomes.on_response(request, message)

    def respond_immediately(self, request: Request[Message], message: Message) -> None:
        self.respond(request, message)

    def respond_encoded(self, request: Request[Message], response: bytes) -> None:
        try:
            message = decode_response(request, response)
        except MalformedMessage as fault:
            self._outcomes.on_refused(request, str(fault))
            return
        self.respond(request, message)

    def respond_nothing(self, request: Request[Message]) -> None:
        self._outcomes.on_refused(request, "the request has no response")

    def block(self, request: Request[Message], on_unblocked: Callable[[], None] | None = None) -> None:
        """Nothing to do: a channel has one request at a time, and holds no encoded response."""
        del request
        if on_unblocked is not None:
            on_unblocked()

    def close(self) -> None:
        self._outcomes.on_closed("the active controller closed the connection")

    def respond_not_leader(self, request: Request[Message], message: Message) -> None:
        del message
        self._outcomes.on_refused(request, "this node is no longer the active controller")
