"""Outgoing connections to other nodes: one per address and purpose.

Purposes have separate connections because responses arrive in order: a vote must not wait behind a delayed fetch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from math import inf
from typing import NamedTuple

from quorumd.errors import AuthenticationFailed, MalformedMessage, UnsupportedVersion
from quorumd.node.deadline_timer import DeadlineTimer
from quorumd.ports import Clock, Network, Transport
from quorumd.protocol.apis import api
from quorumd.protocol.codec import encode
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.handshake import Handshake, SaslClient, choose_version
from quorumd.protocol.wire import Message

REAUTHENTICATION_SHARE = 0.85
"""The fraction of its lifetime after which an authentication is renewed, as in Kafka's clients (KIP-368)."""


class Purpose(Enum):
    """The purpose of a connection."""

    FETCH = "fetch"
    QUORUM = "quorum"
    FORWARD = "forward"
    DISCOVERY = "discovery"


class Failure:
    """Why a call got no response."""

    __slots__ = ("reason", "refused", "unsent", "unsupported")

    def __init__(
        self, reason: str, *, unsupported: bool = False, refused: bool = False, unsent: bool = False
    ) -> None:
        self.reason = reason
        self.unsupported = unsupported
        """Whether the peer does not support the API."""
        self.refused = refused
        """Whether no process listens at the address."""
        self.unsent = unsent
        """Whether the request was not sent, so that it had no effect."""


class Call:
    """One request and its callbacks, exactly one of which is called later.

    `build(version)` builds the message for the negotiated version. A peer that does not support the API gets
    `fallback`, if there is one.
    """

    __slots__ = ("api_key", "build", "deadline_ms", "encoded", "fallback", "on_failure", "on_response")

    def __init__(
        self,
        api_key: int,
        build: Callable[[int], Message],
        on_response: Callable[[Message], None],
        on_failure: Callable[[Failure], None],
        deadline_ms: float,
        fallback: Call | None = None,
    ) -> None:
        self.api_key = api_key
        self.build = build
        self.on_response = on_response
        self.on_failure = on_failure
        self.deadline_ms = deadline_ms
        self.fallback = fallback
        self.encoded: tuple[int, bytes] | None = None
        """Version and bytes of the message, once it is encoded."""


class PeerSettings(NamedTuple):
    """How a node connects to other nodes."""

    client_id: str
    """The name of the node in request headers."""
    listener: str = ""
    """The name of the peers' listener, "" for any."""
    new_sasl_client: Callable[[], SaslClient] | None = None
    """Creates the SASL client of a connection; None without SASL."""
    private_apis: bool = True
    """Whether APIs that Kafka does not have may be used."""


class PeerConnection:
    """One connection: connects at the first call, negotiates versions, sends calls in order.

    When it is lost or times out, it fails all calls in progress and reconnects at the next call. If `is_quorum`, the
    peer is a voter or leader, and its host may use the connections that are reserved for voters.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        host: str,
        port: int,
        settings: PeerSettings,
        is_quorum: bool = False,
    ) -> None:
        self._settings = settings
        self._is_quorum = is_quorum
        self._network = network
        self._clock = clock
        self._host = host
        self._port = port
        self._attempt: _ConnectionAttempt | None = None
        self._pending: deque[Call] = deque()
        self._timer = DeadlineTimer(clock, self._check_timeouts)

    def call(self, call: Call) -> None:
        """Send a call, now or once connected."""
        if self._attempt is None:
            self._attempt = _ConnectionAttempt(self, self._clock, self._settings)
            self._network.connect(self._host, self._port, self._attempt, self._settings.listener)
        if self._attempt.is_ready:
            self._attempt.renew_authentication()
        if self._attempt.is_ready:
            self._attempt.send(call)
        else:
            self._pending.append(call)
        self._timer.arm(call.deadline_ms)

    def prepare(self, call: Call) -> None:
        """Encode a call that will probably be sent soon, if the version is known."""
        if self._attempt is not None and self._attempt.is_ready:
            with suppress(UnsupportedVersion):
                self._attempt.encode(self._attempt.supported_call(call))

    def close(self) -> None:
        """Close the connection; calls in flight get no callback."""
        self._timer.cancel()
        if self._attempt is not None:
            self._attempt.abandon()

    @property
    def is_idle(self) -> bool:
        """Whether there is neither a connection nor a pending call."""
        return self._attempt is None and not self._pending

    def fail_unsupported(self, call: Call, reason: str) -> None:
        """Fail a call that the peer does not support, in a later iteration, since its sender is still running."""
        failure = Failure(f"{self._host}:{self._port}: {reason}", unsupported=True, unsent=True)
        self._clock.call_soon(lambda: call.on_failure(failure))

    def on_ready(self, transport: Transport) -> None:
        """Send the pending calls after the handshake."""
        if self._is_quorum:
            transport.reserve_for_host()
        while self._pending and self._attempt is not None and self._attempt.is_ready:
            self._attempt.send(self._pending.popleft())

    def on_ended(self, attempt: _ConnectionAttempt, reason: str, refused: bool) -> None:
        """Fail all calls of a connection that ended."""
        if attempt is not self._attempt:
            return
        self._attempt = None
        sent, unsent = list(attempt.in_flight.values()), list(self._pending)
        self._pending.clear()
        text = f"{self._host}:{self._port}: {reason}"
        for call in sent:
            call.on_failure(Failure(text, refused=refused))
        for call in unsent:
            call.on_failure(Failure(text, refused=refused, unsent=True))

    def _check_timeouts(self) -> None:
        calls = [*(self._attempt.in_flight.values() if self._attempt else ()), *self._pending]
        if not calls:
            return
        earliest = min(call.deadline_ms for call in calls)
        if earliest <= self._clock.now_ms() and self._attempt is not None:
            attempt = self._attempt
            attempt.abandon()
            self.on_ended(attempt, "no response in time", refused=False)
        else:
            self._timer.arm(earliest)


class _ConnectionAttempt:
    """One established or attempted connection; late events of an abandoned one are ignored."""

    def __init__(self, owner: PeerConnection, clock: Clock, settings: PeerSettings) -> None:
        self._private_apis = settings.private_apis
        self.in_flight: dict[int, Call] = {}
        self.is_ready = False
        self._owner = owner
        self._clock = clock
        self._connection = ClientConnection(settings.client_id)
        self._handshake = Handshake(self._connection, settings.new_sasl_client)
        self._renew_at_ms = inf
        self._transport: Transport | None = None
        self._versions: dict[int, int | None] = {}
        """API key -> version, chosen once per connection; None if the peer does not support the API."""
        self._is_abandoned = False

    def connected(self, transport: Transport) -> None:
        self._transport = transport
        if self._is_abandoned:
            transport.close()
        else:
            transport.write(self._handshake.begin())

    def received(self, data: bytes) -> None:
        if self._is_abandoned:
            return
        try:
            responses = self._connection.receive(data)
        except (MalformedMessage, UnsupportedVersion) as error:
            self._fail(str(error))
            return
        for correlation_id, response in responses:
            call = self.in_flight.pop(correlation_id, None)
            if call is None:
                self._on_handshake_response(response)
            else:
                call.on_response(response)
            if self.is_abandoned:
                return

    @property
    def is_abandoned(self) -> bool:
        """Whether the connection was abandoned, possibly by a response's callback."""
        return self._is_abandoned

    def closed(self, reason: str, refused: bool) -> None:
        if not self._is_abandoned:
            self._owner.on_ended(self, reason or "the connection was closed", refused)

    def encode(self, call: Call) -> None:
        """Encode a call. Raises UnsupportedVersion if the peer does not support it."""
        version = self._version(call.api_key)
        if version is None:
            raise UnsupportedVersion(f"API {call.api_key} is not supported by the peer")
        call.encoded = (version, encode(call.build(version), version))

    def supported_call(self, call: Call) -> Call:
        """Return the fallback of a call if the peer supports only that, else the call itself."""
        fallback = call.fallback
        if fallback is None or self._version(call.api_key) is not None:
            return call
        fallback.deadline_ms = call.deadline_ms
        return fallback

    def send(self, call: Call) -> None:
        assert self._transport is not None
        call = self.supported_call(call)
        if call.encoded is None or call.encoded[0] != self._version(call.api_key):
            try:
                self.encode(call)
            except UnsupportedVersion as error:
                self._owner.fail_unsupported(call, str(error))
                return
        assert call.encoded is not None
        version, body = call.encoded
        correlation_id, data = self._connection.request_encoded(call.api_key, version, body)
        self.in_flight[correlation_id] = call
        self._transport.write(data)

    def _version(self, api_key: int) -> int | None:
        if api_key not in self._versions:
            is_allowed = self._private_apis or not api(api_key).private
            self._versions[api_key] = (
                choose_version(api_key, self._handshake.peer_ranges) if is_allowed else None
            )
        return self._versions[api_key]

    def abandon(self) -> None:
        """Close the connection and ignore its further events."""
        self._is_abandoned = True
        if self._transport is not None:
            self._transport.close()

    def _on_handshake_response(self, response: Message) -> None:
        try:
            next_request = self._handshake.handle_response(response)
        except (AuthenticationFailed, MalformedMessage, UnsupportedVersion) as error:
            self._fail(str(error))
            return
        if next_request is not None:
            assert self._transport is not None
            self._transport.write(next_request)
        else:
            self._on_authenticated()

    def _on_authenticated(self) -> None:
        lifetime_ms = self._handshake.session_lifetime_ms
        self._renew_at_ms = (
            self._clock.now_ms() + lifetime_ms * REAUTHENTICATION_SHARE if lifetime_ms else inf
        )
        self.is_ready = True
        assert self._transport is not None
        self._owner.on_ready(self._transport)

    def renew_authentication(self) -> None:
        """Authenticate again if it is due; until that is complete the connection is not ready."""
        if self._renew_at_ms > self._clock.now_ms():
            return
        request = self._handshake.authenticate()
        assert request is not None, "only authentications with SASL have a lifetime"
        assert self._transport is not None
        self.is_ready = False
        self._transport.write(request)

    def _fail(self, reason: str) -> None:
        self.abandon()
        self._owner.on_ended(self, reason, refused=False)
