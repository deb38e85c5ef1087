"""A session that wraps another one."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.protocol.connection import Request
from quorumd.protocol.routes import Origin, Session
from quorumd.protocol.wire import Message


class DelegatingSession:
    """Passes every response on to another session. `origin` is by default the origin of that session."""

    def __init__(self, outer: Session, origin: Origin | None = None) -> None:
        self.origin = outer.origin if origin is None else origin
        self.outer = outer

    def respond(self, request: Request[Message], message: Message) -> None:
        self.outer.respond(request, message)

    def respond_immediately(self, request: Request[Message], message: Message) -> None:
        self.outer.respond_immediately(request, message)

    def respond_encoded(self, request: Request[Message], response: bytes) -> None:
        self.outer.respond_encoded(request, response)

    def extend(self, message: Message, is_rest: bool = True) -> Session:
        return self.outer.extend(message, is_rest)

    def respond_nothing(self, request: Request[Message]) -> None:
        self.outer.respond_nothing(request)

    def respond_not_leader(self, request: Request[Message], message: Message) -> None:
        self.outer.respond_not_leader(request, message)

    def block(self, request: Request[Message], on_unblocked: Callable[[], None] | None = None) -> None:
        self.outer.block(request, on_unblocked)

    def close(self) -> None:
        self.outer.close()
