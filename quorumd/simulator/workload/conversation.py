"""A connection on which a script sends requests one by one, each depending on the responses before it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from quorumd.ports import Transport
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.framing import SIZE, FrameReader
from quorumd.protocol.handshake import SaslClient
from quorumd.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from quorumd.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from quorumd.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from quorumd.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.environment.event_heap import EventHeap, Process

HEADERLESS: Final = -1
"""The version of a SaslAuthenticate request that is sent as a token without a header, as after SaslHandshake v0."""
MAX_TOKEN_BYTES: Final = 64 * 1024


class Pause(NamedTuple):
    """A step without a request."""

    ms: float


Step = tuple[Message, int] | Pause
"""A request and its version, or a pause."""
Script = Generator[Step, Message | None, None]
"""Yields steps and receives the response to each request; None after a pause, and if there is no response because the
connection has ended."""


class Conversation:
    """Runs a script on one connection, and closes it at the end; satisfies `ports.Connection`. `on_end` is called
    once, when the script or the connection has ended."""

    def __init__(
        self, heap: EventHeap, process: Process, client_id: str, script: Script, on_end: Callable[[], None]
    ) -> None:
        self._heap = heap
        self._process = process
        self._connection = ClientConnection(client_id)
        self._tokens: FrameReader | None = None
        """Splits responses without a header, None if the last request had a header."""
        self._script = script
        self._on_end = on_end
        self._transport: Transport | None = None
        self._is_pausing = False
        self._is_over = False

    def abandon(self) -> None:
        """End the script, and close."""
        if not self._is_over:
            self._is_over = True
            self._script.close()
            if self._transport is not None:
                self._transport.close()
            self._on_end()

    def connected(self, transport: Transport) -> None:
        self._transport = transport
        if self._is_over:
            transport.close()
        else:
            self._continue(None)

    def received(self, data: bytes) -> None:
        tokens = self._tokens
        if self._is_over:
            return
        if tokens is not None:
            for frame in tokens.feed(data):
                self._continue(SaslAuthenticateResponse(0, None, frame))
            return
        for _, message in self._connection.receive(data):
            self._continue(message)

    def closed(self, reason: str, refused: bool) -> None:
        was_connected, self._transport = self._transport is not None, None
        if not was_connected:
            self.abandon()
        elif not self._is_pausing:
            self._continue(None)

    def _continue(self, response: Message | None) -> None:
        if self._is_over:
            return
        self._is_pausing = False
        try:
            step = self._script.send(response)
        except StopIteration:
            self.abandon()
            return
        if isinstance(step, Pause):
            self._is_pausing = True
            self._heap.call_later(step.ms, self._resume, b"pause", self._process)
        elif self._transport is None:
            self._continue(None)
        else:
            self._send(self._transport, *step)

    def _resume(self) -> None:
        self._continue(None)

    def _send(self, transport: Transport, request: Message, version: int) -> None:
        if version != HEADERLESS:
            self._tokens = None
            transport.write(self._connection.request(request, version)[1])
            return
        assert isinstance(request, SaslAuthenticateRequest)
        self._tokens = FrameReader(MAX_TOKEN_BYTES)
        transport.write(SIZE.pack(len(request.auth_bytes)) + request.auth_bytes)


class LoginResult(NamedTuple):
    """The end of a login to which the server has responded."""

    error: int
    lifetime_ms: int | None = None
    """How long the login is valid, 0 without limit; None if the response has no such field."""


def log_in(
    client: SaslClient, handshake_version: int = 1
) -> Generator[Step, Message | None, LoginResult | None]:
    """Log in, or log in again. Returns None if the connection has ended. Raises AuthenticationFailed if the server
    does not prove that it knows the credential."""
    response = yield SaslHandshakeRequest(client.mechanism), handshake_version
    if not isinstance(response, SaslHandshakeResponse):
        return None
    if response.error_code:
        return LoginResult(response.error_code)
    version = SaslAuthenticateRequest.MAX_VERSION if handshake_version else HEADERLESS
    token = client.evaluate(b"")
    while True:
        response = yield SaslAuthenticateRequest(token), version
        if not isinstance(response, SaslAuthenticateResponse):
            return None
        if response.error_code:
            return LoginResult(response.error_code)
        if not client.is_complete:
            token = client.evaluate(response.auth_bytes)
            if not client.is_complete:
                continue
        return LoginResult(0, response.session_lifetime_ms if handshake_version else None)
