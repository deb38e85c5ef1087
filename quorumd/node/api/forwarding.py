"""Forwarding of clients' requests to the leader in an Envelope (KIP-590).

A request waits here while there is no leader. It is retried only if it cannot have had an effect: if it was never
sent, if the Envelope itself was rejected with NOT_CONTROLLER, or if it is a read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy

from quorumd.errors import ErrorCode, MalformedMessage
from quorumd.node.leader_role import LeaderRole
from quorumd.node.peers.connection import Call, Failure
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey, response_class, response_header_version
from quorumd.protocol.codec import decode
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.envelope_response import EnvelopeResponse
from quorumd.protocol.primitives import skip_tagged_fields
from quorumd.protocol.routes import Handler, Session
from quorumd.protocol.wire import Message
from quorumd.security.forwarded_principals import envelope

logger = logging.getLogger("quorumd.forwarding")

LEADER_WAIT_MS = 10_000.0
"""How long a request waits for a leader before its client gets NOT_CONTROLLER."""
RETRY_MS = 50.0

READ_ONLY_APIS = frozenset(
    {ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_QUORUM, ApiKey.LIST_PARTITION_REASSIGNMENTS}
)
"""The APIs that change nothing, so that their requests may be retried."""

UNSUPPORTED_ENVELOPE_ERRORS = (ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION)
"""The errors of a leader that does not support an API inside an Envelope."""

ResponseHook = Callable[[Message], None]
"""Extends the leader's response before it is sent to the client."""


class Forwarder:
    """Forwards requests of clients to the leader and returns its responses.

    `call_leader(call)` returns False if no other node is known to lead. A request that waited while this node became
    the active controller goes to its handler (`route`). `error_response(request, code)` builds the error response of
    the request's API. `admit` checks the rights of a client whose request the leader will not check
    (`RequestAuthorization.admit`).
    """

    def __init__(
        self,
        clock: Clock,
        call_leader: Callable[[Call], bool],
        role: LeaderRole,
        route: Handler[Message],
        error_response: Callable[[Request[Message], ErrorCode], Message],
        admit: Callable[[Session, Request[Message]], Session | None],
        request_timeout_ms: float,
    ) -> None:
        self._clock = clock
        self._role = role
        self._route = route
        self._call_leader = call_leader
        self._error_response = error_response
        self._admit = admit
        self._request_timeout_ms = request_timeout_ms

    def forward(self, session: Session, request: Request[Message], hook: ResponseHook | None = None) -> None:
        """Forward the request; the client gets an error after LEADER_WAIT_MS without a leader."""
        self._attempt(session, request, hook, self._clock.now_ms() + LEADER_WAIT_MS)

    def _attempt(
        self, session: Session, request: Request[Message], hook: ResponseHook | None, deadline_ms: float
    ) -> None:
        if self._role.is_active_controller:
            self._route(session, request)
            return
        origin = session.origin
        forwarded = envelope(
            request.frame,
            origin.principal,
            origin.token_authenticated,
            origin.host,
            origin.comes_from_broker,
        )

        def retry() -> None:
            if self._clock.now_ms() >= deadline_ms:
                self._fail(session, request, ErrorCode.NOT_CONTROLLER)
            else:
                self._clock.call_at(
                    self._clock.now_ms() + RETRY_MS,
                    lambda: self._attempt(session, request, hook, deadline_ms),
                )

        def on_failure(failure: Failure) -> None:
            if failure.unsent or request.api_key in READ_ONLY_APIS:
                retry()
            else:
                self._fail(session, request, ErrorCode.REQUEST_TIMED_OUT)

        def on_response(message: Message) -> None:
            assert isinstance(message, EnvelopeResponse)
            data = message.response_data or b""
            if message.error_code == ErrorCode.NOT_CONTROLLER:
                retry()
            elif message.error_code in UNSUPPORTED_ENVELOPE_ERRORS:
                self._send_directly(session, request, hook, on_failure)
            elif message.error_code or not is_response_to(request, data):
                self._fail(session, request, ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                self._return_response(session, request, hook, data)

        deadline = self._clock.now_ms() + self._request_timeout_ms
        call = Call(ApiKey.ENVELOPE, lambda version: forwarded, on_response, on_failure, deadline)
        if not self._call_leader(call):
            retry()

    def _send_directly(
        self,
        session: Session,
        request: Request[Message],
        hook: ResponseHook | None,
        on_failure: Callable[[Failure], None],
    ) -> None:
        """Send a read to a stock leader that does not support its API in an Envelope, as a client would. The leader
        checks the rights of this node, so this node checks those of the client. Writes are not sent that way."""
        if request.api_key not in READ_ONLY_APIS:
            self._fail(session, request, ErrorCode.UNSUPPORTED_VERSION)
            return
        # The check removes what the client may not read, which the next attempt must check again.
        whole = request.message
        request.message = copy(whole)
        admitted = self._admit(session, request)
        message, request.message = request.message, whole
        if admitted is None:
            return

        def on_response(response: Message) -> None:
            if hook is not None:
                hook(response)
            admitted.respond(request, response)

        deadline = self._clock.now_ms() + self._request_timeout_ms
        call = Call(request.api_key, lambda version: message, on_response, on_failure, deadline)
        if not self._call_leader(call):
            on_failure(Failure("the leader is no longer known", unsent=True))

    def _return_response(
        self, session: Session, request: Request[Message], hook: ResponseHook | None, data: bytes
    ) -> None:
        if hook is None:
            session.respond_encoded(request, data)
            return
        try:
            response = decode_response(request, data)
        except MalformedMessage:
            self._fail(session, request, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        hook(response)
        session.respond(request, response)

    def _fail(self, session: Session, request: Request[Message], error: ErrorCode) -> None:
        session.respond(request, self._error_response(request, error))


def is_response_to(request: Request[Message], data: bytes) -> bool:
    """Whether `data` begins with the correlation id of `request`."""
    return data[:4] == request.correlation_id.to_bytes(4, "big", signed=True)


def decode_response(request: Request[Message], data: bytes) -> Message:
    """The response to `request` in `data`, which begins with the response header. Raises MalformedMessage."""
    position = 4
    if response_header_version(request.api_key, request.api_version) == 1:
        try:
            position = skip_tagged_fields(data, position)
        except IndexError:
            raise MalformedMessage("the header of a forwarded response is truncated") from None
    return decode(response_class(request.api_key), request.api_version, data, position)
