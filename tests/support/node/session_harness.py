"""A session on a recording transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from random import Random
from typing import Any

from quorumd.node.sessions.authentication import Authenticator
from quorumd.node.sessions.context import SessionContext
from quorumd.node.sessions.fair_shares import FairShares
from quorumd.node.sessions.router import RequestRouter
from quorumd.node.sessions.server_session import ServerSession
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.settings import NodeSettings
from quorumd.protocol.apis import ApiKey, request_class
from quorumd.protocol.connection import ClientConnection, Request
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.output_buffer import Part, whole
from quorumd.protocol.routes import Route, Session
from quorumd.quotas.client_quotas import NO_QUOTAS, ClientQuotas
from quorumd.security.credentials import NoCredentials
from quorumd.security.sasl.settings import ListenerSasl
from quorumd.simulator.environment.entropy import SimulatedEntropy
from tests.support.node.parts import NodeParts

LISTENER = "CLIENTS"
SLICE = 100
MAX_REQUEST_BYTES = 1 << 20
SUPPORTED_VERSIONS = {
    int(ApiKey.API_VERSIONS): (0, 4),
    int(ApiKey.METADATA): (0, 13),
    int(ApiKey.PRODUCE): (3, 13),
    int(ApiKey.CREATE_TOPICS): (2, 7),
    int(ApiKey.SASL_HANDSHAKE): (0, 1),
    int(ApiKey.SASL_AUTHENTICATE): (0, 2),
}


class RecordingTransport:
    """Satisfies `ports.Transport`."""

    def __init__(self) -> None:
        self.peer = "192.0.2.7:4711"
        self.principal = "User:alice"
        self.unsent_bytes = 0
        self.stored_bytes = 0
        self.writes: list[bytes] = []
        self.is_closed = False
        self.reading: list[str] = []
        self.on_sent: Callable[[], None] | None = None

    def write(self, data: bytes) -> None:
        if not self.is_closed:
            self.writes.append(data)

    def write_parts(self, parts: Sequence[Part]) -> None:
        self.write(b"".join(map(whole, parts)))

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.reading.append("pause")

    def resume_reading(self) -> None:
        self.reading.append("resume")

    def reserve_for_host(self) -> None: ...

    @property
    def held_bytes(self) -> int:
        return self.unsent_bytes - self.stored_bytes

    def call_when_sent(self, callback: Callable[[], None]) -> None:
        self.on_sent = callback

    def send_all(self) -> None:
        """Send all queued bytes."""
        self.unsent_bytes = self.stored_bytes = 0
        callback, self.on_sent = self.on_sent, None
        if callback is not None:
            callback()


class SessionHarness(NodeParts):
    """A session of LISTENER on a recording transport, with a client that encodes requests and decodes responses.
    `sasl` has the SASL settings by the name of the listener."""

    @cached_property
    def settings(self) -> NodeSettings:
        return replace(NodeParts().settings, max_request_bytes=MAX_REQUEST_BYTES)

    def __init__(
        self, quotas: ClientQuotas = NO_QUOTAS, sasl: Mapping[str, ListenerSasl] | None = None
    ) -> None:
        super().__init__()
        authenticator = Authenticator(
            sasl or {}, NoCredentials(), self.time.clock, SimulatedEntropy(Random(1)), self.statistics
        )
        shares = FairShares.of(self.time.clock, self.tick)
        self.client = ClientConnection("client")
        self.requests: list[Request] = []
        self.route: Callable[[Session, Request], None] = lambda session, request: None
        self.forgotten: list[ServerSession] = []
        self.context = SessionContext(self.basics, self.tick, authenticator, shares, quotas)
        self.session = ServerSession(
            self.context,
            self._router(),
            SliceScheduler(self.time.clock.call_soon, SLICE, self.basics.paying),
            LISTENER,
            number=1,
            on_closed=self.forgotten.append,
        )
        self.transport = RecordingTransport()
        self.session.connected(self.transport)

    def _router(self) -> RequestRouter:
        router = RequestRouter()
        router.add(Route(request_class(key), self._route) for key in SUPPORTED_VERSIONS)
        router.supported_versions = SUPPORTED_VERSIONS
        return router

    def _route(self, session: Session, request: Request) -> None:
        self.requests.append(request)
        self.route(session, request)

    def send(self, count: int = 1) -> None:
        """Deliver `count` requests in one chunk of bytes."""
        data = [self.client.request(MetadataRequest([]), 12)[1] for _ in range(count)]
        self.session.received(b"".join(data))

    def respond(self, number: int, controller_id: int = 0) -> None:
        self.session.respond(self.requests[number], MetadataResponse(controller_id=controller_id))

    def received(self) -> list[int]:
        """Return the controller ids of the responses written since the last call."""
        data = b"".join(self.transport.writes)
        self.transport.writes.clear()
        responses: list[Any] = [response for _, response in self.client.receive(data)]
        return [response.controller_id for response in responses]
