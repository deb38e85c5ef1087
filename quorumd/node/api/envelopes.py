"""Envelope (KIP-590): the leader's side of forwarding."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from ipaddress import ip_address

from quorumd.errors import ErrorCode, MalformedMessage, UnsupportedVersion
from quorumd.node.api.context import ApiContext
from quorumd.node.api.error_responses import ENVELOPE_APIS, STOCK_ENVELOPE_APIS
from quorumd.node.sessions.decoding_task import DecodingTask
from quorumd.node.settings import CLIENT_ID_PREFIX
from quorumd.protocol.connection import Request, encode_response, read_request
from quorumd.protocol.messages.envelope_request import EnvelopeRequest
from quorumd.protocol.messages.envelope_response import EnvelopeResponse
from quorumd.protocol.routes import Origin, Route, Session
from quorumd.protocol.wire import Message
from quorumd.security.acls import java_host
from quorumd.security.forwarded_principals import ForwardedPrincipal, deserialize

logger = logging.getLogger("quorumd.forwarding")


class EnvelopeSession:
    """Wraps the response to the request inside an Envelope into an EnvelopeResponse."""

    def __init__(
        self, outer: Session, envelope: Request[EnvelopeRequest], client: ForwardedPrincipal, host: str
    ) -> None:
        is_from_node = (envelope.client_id or "").startswith(CLIENT_ID_PREFIX)
        self.origin = Origin(
            outer.origin.peer,
            host,
            outer.origin.number,
            outer.origin.listener,
            client.principal,
            token_authenticated=client.is_token,
            is_controller_client=True,
            # Unlike stock brokers, quorumd nodes forward requests unchecked, unless `is_checked` is set.
            comes_from_broker=envelope.message.is_checked or not is_from_node,
        )
        self._outer = outer
        self._envelope = envelope

    def respond(self, request: Request[Message], message: Message) -> None:
        try:
            response = encode_response(request, message)
        except (UnsupportedVersion, ValueError) as error:
            logger.error("the response to %r of %s cannot be encoded: %s", request, self.origin.peer, error)
            self._outer.respond(self._envelope, EnvelopeResponse(None, int(ErrorCode.UNKNOWN_SERVER_ERROR)))
            return
        self.respond_encoded(request, response)

    def extend(self, message: Message, is_rest: bool = True) -> Session:
        return self

    def respond_nothing(self, request: Request[Message]) -> None:
        raise AssertionError(f"{request!r} is forwarded and needs a response")

    def block(self, request: Request[Message], on_unblocked: Callable[[], None] | None = None) -> None:
        del request
        self._outer.block(self._envelope, on_unblocked)

    def close(self) -> None:
        self._outer.close()

    def respond_not_leader(self, request: Request[Message], message: Message) -> None:
        """Respond in the envelope's own error field, where the sender of the Envelope looks for a reason to retry."""
        del request, message
        self._outer.respond(self._envelope, EnvelopeResponse(None, int(ErrorCode.NOT_CONTROLLER)))

    def respond_immediately(self, request: Request[Message], message: Message) -> None:
        self.respond(request, message)

    def respond_encoded(self, request: Request[Message], response: bytes) -> None:
        del request
        self._outer.respond(self._envelope, EnvelopeResponse(response))


class EnvelopeApis:
    """Unwraps forwarded requests and routes them."""

    def __init__(self, context: ApiContext) -> None:
        self._role = context.quorum.role
        self._router = context.gates.router
        self._scheduler = context.execution.scheduler
        settings = context.node.settings
        self._large_request_bytes = settings.large_request_bytes
        self._accepted = ENVELOPE_APIS if settings.private_apis else STOCK_ENVELOPE_APIS

    def routes(self) -> Iterable[Route]:
        return (Route(EnvelopeRequest, self.envelope),)

    def envelope(self, session: Session, request: Request[EnvelopeRequest]) -> None:
        if not self._role.is_active_controller:
            session.respond(request, EnvelopeResponse(None, int(ErrorCode.NOT_CONTROLLER)))
            return
        try:
            inner = read_request(
                request.message.request_data, self._router.supported_versions, self._large_request_bytes
            )
        except (MalformedMessage, UnsupportedVersion):
            session.respond(request, EnvelopeResponse(None, int(ErrorCode.UNSUPPORTED_VERSION)))
            return
        if inner.api_key not in self._accepted:
            session.respond(request, EnvelopeResponse(None, int(ErrorCode.INVALID_REQUEST)))
            return
        try:
            client = deserialize(request.message.request_principal or b"")
        except MalformedMessage:
            error = int(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
            session.respond(request, EnvelopeResponse(None, error))
            return
        try:
            host = java_host(str(ip_address(request.message.client_host_address)))
        except ValueError:
            session.respond(request, EnvelopeResponse(None, int(ErrorCode.INVALID_REQUEST)))
            return
        inner_session = EnvelopeSession(session, request, client, host)
        if inner.is_whole:
            self._router.route(inner_session, inner)
            return
        inner_session.block(inner)
        errors: list[MalformedMessage] = []

        def continue_decoding(inner: Request[Message], steps: int) -> int:
            try:
                return inner.continue_decoding(steps)
            except MalformedMessage as error:
                errors.append(error)
                inner.decoding = None
                return steps

        def decoded() -> None:
            if errors:
                session.respond(request, EnvelopeResponse(None, int(ErrorCode.UNSUPPORTED_VERSION)))
            elif self._role.is_active_controller:
                self._router.route(inner_session, inner)
            else:
                session.respond(request, EnvelopeResponse(None, int(ErrorCode.NOT_CONTROLLER)))

        self._scheduler.begin(DecodingTask(inner, continue_decoding, decoded))
