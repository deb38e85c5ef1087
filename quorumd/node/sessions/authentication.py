"""SASL on accepted connections: which requests are allowed before, during and after it (KIP-43, KIP-152, KIP-368).

Before a client has authenticated, only ApiVersions and the SASL requests are read. Afterwards SaslHandshake starts a
re-authentication, with the same mechanism and principal.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from quorumd.errors import AuthenticationFailed, ErrorCode
from quorumd.log_limit import LogLimit
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import ANONYMOUS, Clock, Entropy
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request, VersionRanges
from quorumd.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from quorumd.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from quorumd.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from quorumd.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from quorumd.protocol.wire import Message
from quorumd.security.credentials import CredentialStore
from quorumd.security.sasl.exchange import Proof, SaslServer
from quorumd.security.sasl.settings import ListenerSasl, ServerSasl

logger = logging.getLogger("quorumd.connections")

MIN_REAUTHENTICATION_MS: Final = 1000.0
"""A re-authentication sooner than this is rejected, as by Kafka."""
MAX_REASONS: Final = 8
"""Reasons of failures that are logged, once each per interval with their count; clients choose some of them."""
_OPEN_APIS: Final = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


def versions_before_authentication(supported_versions: VersionRanges) -> VersionRanges:
    """The APIs that a client may use before it has authenticated."""
    return {key: supported_versions[key] for key in _OPEN_APIS if key in supported_versions}


class Reply(NamedTuple):
    """The response to a SASL request; without a message the connection is closed at once."""

    message: Message | None
    closes: bool = False
    """Whether the connection is closed after the response."""

    @property
    def is_failure(self) -> bool:
        """Whether the client failed to authenticate."""
        message = self.message
        return isinstance(message, SaslAuthenticateResponse) and (
            message.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        )


class Authenticator:
    """Creates the authentication of each connection of a listener with SASL, and logs failed ones."""

    def __init__(
        self,
        listeners: Mapping[str, ListenerSasl],
        store: CredentialStore,
        clock: Clock,
        entropy: Entropy,
        statistics: NodeStatistics,
    ) -> None:
        self.store = store
        self.clock = clock
        self._listeners = listeners
        self._entropy = entropy
        self._statistics = statistics
        self._reasons = LogLimit(clock.now_ms, MAX_REASONS)

    def for_connection(self, listener: str) -> SessionAuthentication | None:
        """The authentication of a new connection, None if the listener has no SASL."""
        found = self._listeners.get(listener)
        if found is None or found.server is None:
            return None
        return SessionAuthentication(self, found.server)

    def new_nonce(self) -> str:
        """Generate a nonce for SCRAM."""
        return f"{self._entropy.uuid()}{self._entropy.uuid()}"

    def log_failure(self, peer: str, reason: str) -> None:
        """Count a failed authentication, and log it at most once per interval and reason."""
        self._statistics.failed_authentications += 1
        suppressed = self._reasons.admit(reason)
        if suppressed is not None:
            logger.warning(
                "authentication of the client at %s failed: %s (%d failed)", peer, reason, suppressed + 1
            )


class SessionAuthentication:
    """Authentication of one connection. `max_request_bytes` bounds its frames before it is complete."""

    def __init__(self, authenticator: Authenticator, sasl: ServerSasl) -> None:
        self.proof: Proof | None = None
        self.max_request_bytes = sasl.max_token_bytes
        self.expects_plain_tokens = False
        """Whether the next frames are tokens without a header: after SaslHandshake v0."""
        self._authenticator = authenticator
        self._sasl = sasl
        self._mechanism = ""
        self._exchange: SaslServer | None = None
        self._expires_at_ms = inf
        self._authenticated_at_ms = -inf

    @property
    def principal(self) -> str:
        return ANONYMOUS if self.proof is None else self.proof.principal

    def handles(self, request: Request[Message]) -> bool:
        """Whether `respond` handles the request: a SASL request, or any that is not allowed now."""
        if request.api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            return True
        if self.proof is None:
            return request.api_key != ApiKey.API_VERSIONS or self._exchange is not None
        return self._exchange is not None or self._authenticator.clock.now_ms() >= self._expires_at_ms

    def respond(self, request: Request[Message], peer: str) -> Reply:
        """Handle a request for which `handles` is true."""
        message = request.message
        if isinstance(message, SaslHandshakeRequest):
            return self._begin(message.mechanism, request.api_version, peer)
        if isinstance(message, SaslAuthenticateRequest):
            return self._continue(message.auth_bytes, peer)
        reason = f"unexpected {message.NAME}"
        if self.proof is not None and self._exchange is None:
            reason = f"{self.principal} did not re-authenticate in time"
        self._authenticator.log_failure(peer, reason)
        return Reply(None)

    def _begin(self, mechanism: str, version: int, peer: str) -> Reply:
        now_ms = self._authenticator.clock.now_ms()
        is_too_soon = now_ms - self._authenticated_at_ms < MIN_REAUTHENTICATION_MS
        mechanisms = list(self._sasl.mechanisms)
        if self._exchange is not None or is_too_soon:
            illegal = SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, mechanisms)
            return Reply(illegal, closes=self._exchange is not None)
        is_changed = self.proof is not None and mechanism != self._mechanism
        if mechanism not in mechanisms or is_changed:
            problem = (
                "not enabled"
                if not is_changed
                else f"not the mechanism of the first authentication, {self._mechanism}"
            )
            self._authenticator.log_failure(peer, f"mechanism {mechanism[:30]!r} is {problem}")
            return Reply(SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms), closes=True)
        self._mechanism = mechanism
        self.expects_plain_tokens = version == 0
        self._exchange = self._sasl.new_server(
            mechanism,
            self._authenticator.store,
            self._authenticator.new_nonce,
            self._authenticator.clock.wall_ms,
        )
        return Reply(SaslHandshakeResponse(ErrorCode.NONE, mechanisms))

    def _continue(self, token: bytes, peer: str) -> Reply:
        exchange = self._exchange
        if exchange is None:
            text = "SaslAuthenticate must follow a SaslHandshake"
            closes = self.proof is None
            return Reply(SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, text), closes)
        try:
            response = exchange.evaluate(token)
            if exchange.proof is not None:
                self._complete(exchange.proof)
        except AuthenticationFailed as failure:
            self._authenticator.log_failure(peer, f"{self._mechanism}: {failure}")
            text = f"Authentication failed: {failure}"
            return Reply(SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, text), closes=True)
        return Reply(SaslAuthenticateResponse(0, None, response, self._lifetime_ms()))

    def _complete(self, proof: Proof) -> None:
        if self.proof is not None and self.proof.principal != proof.principal:
            raise AuthenticationFailed("the principal cannot change on one connection")
        self.proof = proof
        self._exchange = None
        self.expects_plain_tokens = False
        clock = self._authenticator.clock
        self._authenticated_at_ms = now_ms = clock.now_ms()
        limits = [inf, float(self._sasl.max_reauth_ms.get(self._mechanism) or inf)]
        if proof.expires_at_ms is not None:
            limits.append(max(0.0, float(proof.expires_at_ms - clock.wall_ms())))
        self._expires_at_ms = now_ms + min(limits)

    def _lifetime_ms(self) -> int:
        """The remaining session lifetime, for the response; 0 without a limit."""
        if self._exchange is not None or self._expires_at_ms == inf:
            return 0
        return max(1, int(self._expires_at_ms - self._authenticator.clock.now_ms()))
