"""A session that keeps responses, for tests of handlers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quorumd.node.api.forwarding import decode_response
from quorumd.protocol.connection import Request, encode_response
from quorumd.protocol.routes import Origin
from quorumd.protocol.wire import Message


class RecordingSession:
    """Satisfies `routes.Session`. Encodes every response, so that an invalid response fails the test."""

    def __init__(
        self, peer: str = "192.0.2.7:4711", is_controller_client: bool = False, number: int = 0
    ) -> None:
        self.origin = Origin(
            peer, "192.0.2.7", number, "PLAINTEXT", is_controller_client=is_controller_client
        )
        self.is_closed = False
        self.responses: list[Any] = []
        self.held: list[Request] = []
        self.on_unblocked: list[Callable[[], None]] = []
        """The callbacks that were passed to `block`."""
        self.completed: list[Request] = []
        """Requests that were completed without a response."""
        self.refusals = 0
        """Number of responses with a not-leader error, without any effect."""

    def respond(self, request: Request, message: Message) -> None:
        encode_response(request, message)
        self.responses.append(message)

    def respond_not_leader(self, request: Request, message: Message) -> None:
        self.respond(request, message)
        self.refusals += 1

    def extend(self, message: Message, is_rest: bool = True) -> RecordingSession:
        return self

    def respond_nothing(self, request: Request) -> None:
        self.completed.append(request)

    def block(self, request: Request, on_unblocked: Callable[[], None] | None = None) -> None:
        self.held.append(request)
        if on_unblocked is not None:
            self.on_unblocked.append(on_unblocked)

    def close(self) -> None:
        self.is_closed = True

    def respond_immediately(self, request: Request, message: Message) -> None:
        self.respond(request, message)

    def respond_encoded(self, request: Request, response: bytes) -> None:
        self.responses.append(response)


class DecodingSession(RecordingSession):
    """Decodes responses that arrive encoded."""

    def respond_encoded(self, request: Request, response: bytes) -> None:
        self.responses.append(decode_response(request, response))


def request_of(
    message: Message, version: int, correlation_id: int = 7, client_id: str | None = "test"
) -> Request:
    """Return a request with `message`, without received bytes."""
    assert message.API_KEY is not None
    return Request(message.API_KEY, version, correlation_id, client_id, message, b"", 0)
