"""Rejects SaslHandshake and SaslAuthenticate on connections that do not use SASL.

`quorumd.node.sessions.authentication` handles them where the listener has SASL.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorumd.errors import ErrorCode
from quorumd.node.api.context import ApiContext
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from quorumd.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from quorumd.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from quorumd.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from quorumd.protocol.routes import Route, Session


class SaslApis:
    """Responds with ILLEGAL_SASL_STATE, as Kafka does on listeners without SASL."""

    def __init__(self, context: ApiContext) -> None:
        del context

    def routes(self) -> Iterable[Route]:
        return (
            Route(SaslHandshakeRequest, self.sasl_handshake),
            Route(SaslAuthenticateRequest, self.sasl_authenticate),
        )

    def sasl_handshake(self, session: Session, request: Request[SaslHandshakeRequest]) -> None:
        session.respond(request, SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))

    def sasl_authenticate(self, session: Session, request: Request[SaslAuthenticateRequest]) -> None:
        text = "this listener does not use SASL"
        session.respond(request, SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, text))
