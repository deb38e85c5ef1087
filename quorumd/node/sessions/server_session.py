"""One accepted connection: reads frames, calls handlers, sends responses in the order of the requests."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.node.payers import Payer
from quorumd.node.sessions.authentication import (
    Reply,
    SessionAuthentication,
    versions_before_authentication,
)
from quorumd.node.sessions.context import SessionContext
from quorumd.node.sessions.decoding_task import DecodingTask
from quorumd.node.sessions.fair_shares import MIN_COUNTED_BYTES
from quorumd.node.sessions.router import RequestRouter
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.sessions.throttle import RequestPayer, Throttle
from quorumd.node.statistics import Histogram
from quorumd.ports import Transport
from quorumd.protocol.connection import UNLIMITED, Request, ServerConnection
from quorumd.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from quorumd.protocol.routes import Origin
from quorumd.protocol.wire import Message
from quorumd.security.acls import host_of_peer

logger = logging.getLogger("quorumd.connections")

MAX_PENDING_REQUESTS = 1000
"""Requests of one connection that may wait for a response before reading from it pauses."""
MAX_PENDING_BYTES = 1024 * 1024
"""Bytes of such requests; the last request may exceed the limit."""
ELEMENTS_AT_ONCE = 64
"""Elements of a large request that are decoded before any other event is handled: a tenth of a millisecond."""
DRAINED_BYTES = 1024 * 1024
"""A client has read its large response once fewer bytes than this are unsent."""


class ServerSession:
    """The node's side of one accepted connection (`ports.Connection`)."""

    _is_waiting = False
    """Whether the session waits for its turn to read more requests."""
    _has_quotas = False
    """Whether there was any quota when requests were last passed to their handlers."""
    _is_muted = False
    """Whether no requests are read and handled because the client exceeds a quota (KIP-219)."""

    def __init__(
        self,
        context: SessionContext,
        router: RequestRouter,
        scheduler: SliceScheduler,
        listener: str,
        number: int,
        on_closed: Callable[[ServerSession], None],
    ) -> None:
        settings = context.node.settings
        self.origin = Origin("?", "", number, listener)
        self._router = router
        self._max_request_bytes = settings.max_request_bytes
        self._max_unsent_bytes = settings.max_unsent_bytes
        self._failure_delay_ms = settings.failed_authentication_delay_ms
        self._authentication = context.authenticator.for_connection(listener)
        self._connection = ServerConnection(
            settings.max_request_bytes, router.supported_versions, settings.large_request_bytes
        )
        if self._authentication is not None:
            versions = versions_before_authentication(router.supported_versions)
            self._connection.serve(self._authentication.max_request_bytes, versions)
        self._clock = context.node.clock
        self._statistics = context.node.statistics
        self._tick = context.tick
        self._scheduler = scheduler
        self._on_closed = on_closed
        self._shares = context.shares
        self._throttle = Throttle(context.quotas, context.node.clock)
        self._paying = context.node.paying
        self._transport: Transport | None = None
        self._received_at: dict[int, float] = {}
        self._is_flush_scheduled = False
        self._is_paused = False
        self._is_closing = False
        """Whether the connection is to be closed once every received request has its response."""
        self._largest_write = 0
        self._blocking_request: Request[Message] | None = None
        self._on_unblocked: Callable[[], None] | None = None
        self._queued: deque[Request[Message]] = deque()
        """Requests after the blocking one."""

    def connected(self, transport: Transport) -> None:
        self._transport = transport
        self.origin.peer = transport.peer
        self.origin.principal = transport.principal
        self.origin.host = host_of_peer(transport.peer)
        self._statistics.connections_open += 1
        if self._throttle.is_enabled:
            delay_ms = self._throttle.connected(self.origin.host)
            if delay_ms > 0:
                self._is_closing = True
                transport.pause_reading()
                self._clock.call_at(self._clock.now_ms() + delay_ms, self.abort)

    @property
    def held_bytes(self) -> int:
        """Memory that the node needs for this connection: requests and unsent responses."""
        transport = self._transport
        return self._connection.gathered_bytes + (transport.held_bytes if transport is not None else 0)

    def continue_reading(self) -> None:
        """Handle requests that were received in an earlier iteration."""
        self._is_waiting = False
        if self._queued:
            self._continue_routing()
        if not self._queued and self._may_route:
            self.received(b"")
        if self._transport is not None:
            self._resume_reading(self._transport)

    def abort(self) -> None:
        """Close without sending what is queued."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def received(self, data: bytes) -> None:
        if self._transport is None or self._is_closing:
            return
        shares, connection = self._shares, self._connection
        is_peer = self.origin.is_peer
        granted = 0 if self._queued or self._is_waiting else UNLIMITED if is_peer else shares.grant()
        # Decoding takes most of the time of some requests: it counts as time of this iteration.
        now = self._tick.begin()
        try:
            requests = connection.receive(data, granted)
        except MalformedMessage as fault:
            self._report_malformed(fault)
            self.close()
            self._tick.end()
            return
        if self._connection.has_output:
            # The connection itself rejected a request, so that its response is complete.
            self.flush()
        must_wait = not is_peer and shares.record_read(len(requests), len(data))
        for request in requests:
            self._received_at[request.correlation_id] = now
            self._queued.append(request)
        if connection.fault is not None:
            self._close_on_fault()
        self._route_queued()
        self._tick.end()
        may_route = self._may_route
        if must_wait or (may_route and (self._queued or connection.has_more)):
            self._await_turn()
        holds_much = connection.gathered_bytes >= MIN_COUNTED_BYTES
        if holds_much:
            shares.record_held_bytes(self, self.held_bytes)
        # Not for a small request that waits: under load a third of the connections wait with one, and to pause and
        # resume costs two system calls.
        must_pause = (
            self._is_closing
            or must_wait
            or bool(self._queued)
            or (connection.has_more and holds_much)
            or not may_route
            or connection.pending > MAX_PENDING_REQUESTS
            or connection.pending_bytes > MAX_PENDING_BYTES
        )
        if must_pause and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    @property
    def _may_route(self) -> bool:
        """Whether the next request may be passed to its handler."""
        return self._blocking_request is None and not self._is_muted

    @property
    def _has_more(self) -> bool:
        """Whether requests wait for the next turn."""
        return (self._connection.has_more or bool(self._queued)) and self._may_route

    def _await_turn(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._shares.wait(self)

    def _report_malformed(self, fault: MalformedMessage) -> None:
        self._statistics.malformed_frames += 1
        # The connection keeps the fault, whose frames refer to the connection.
        fault.__traceback__ = None
        is_unauthenticated = self._authentication is not None and self._authentication.proof is None
        hint = f"; listener {self.origin.listener} requires SASL" if is_unauthenticated else ""
        self._shares.warn("malformed", f"closing the connection from {self.origin.peer}: {fault}{hint}")

    def _continue_routing(self) -> None:
        self._tick.begin()
        self._route_queued()
        self._tick.end()

    def _route_queued(self) -> None:
        """Route queued requests until one blocks or the turn of this connection ends."""
        shares, is_peer = self._shares, self.origin.is_peer
        self._has_quotas = not is_peer and self._throttle.is_enabled
        while self._queued and not self._is_waiting and self._may_route and self._transport is not None:
            request = self._queued.popleft()
            if self._authentication is not None and self._authentication.handles(request):
                self._authenticate(request, self._authentication)
            elif request.decoding is None:
                self._handle(request)
            else:
                self._decode(request)
            if not is_peer and shares.must_yield() and self._has_more:
                self._await_turn()
                break

    def _decode(self, request: Request[Message]) -> None:
        """Handle a large request of few elements, such as a Produce, at once; decode others in slices first."""
        self._continue_decoding(request, ELEMENTS_AT_ONCE)
        if request.decoding is None:
            self._handle_decoded(request)
        else:
            decoding = DecodingTask(request, self._continue_decoding, self._on_decoded)
            self.block(request, decoding.cancel)
            self._paying.payer = self._payer(request)
            self._scheduler.begin(decoding)
            self._paying.payer = None

    def _handle(self, request: Request[Message]) -> None:
        if not self._has_quotas:
            self._router.route(self, request)
            return
        throttle = self._throttle
        throttle.begin(self, request)
        self._paying.payer = self._payer(request)
        try:
            self._router.route(self, request)
        finally:
            self._paying.payer = None
        throttle.end(self)
        self._mute()

    def _payer(self, request: Request[Message]) -> Payer | None:
        return RequestPayer(self._throttle, self, request, self._mute) if self._has_quotas else None

    def _mute(self) -> None:
        """Stop reading and handling requests while the client is throttled."""
        throttle, transport = self._throttle, self._transport
        if throttle.remaining_ms <= 0 or self._is_muted or transport is None:
            return
        self._is_muted = True
        if not self._is_paused:
            self._is_paused = True
            transport.pause_reading()
        self._clock.call_at(throttle.until_ms, self._unmute)

    def _unmute(self) -> None:
        self._is_muted = False
        if self._transport is not None:
            self._mute()
            if not self._is_muted:
                self._continue(self._transport)

    def _authenticate(self, request: Request[Message], authentication: SessionAuthentication) -> None:
        is_plain_token = authentication.expects_plain_tokens
        reply = authentication.respond(request, self.origin.peer)
        if authentication.proof is not None:
            self.origin.principal = authentication.proof.principal
            self.origin.token_authenticated = authentication.proof.is_token
            self._connection.serve(self._max_request_bytes, self._router.supported_versions)
        self._connection.reads_plain_tokens = authentication.expects_plain_tokens
        respond = partial(self._respond_to_authentication, request, reply, is_plain_token)
        if reply.is_failure and self._failure_delay_ms > 0:
            self.block(request)
            self._clock.call_at(self._clock.now_ms() + self._failure_delay_ms, respond)
        else:
            respond()

    def _respond_to_authentication(
        self, request: Request[Message], reply: Reply, is_plain_token: bool
    ) -> None:
        if reply.message is None or (is_plain_token and reply.closes):
            self.close()
        elif is_plain_token and isinstance(reply.message, SaslAuthenticateResponse):
            self.respond_encoded(request, reply.message.auth_bytes)
        else:
            self.respond(request, reply.message)
            if reply.closes:
                self._drop_queued()

    def _drop_queued(self) -> None:
        """Close the connection after the responses to earlier requests, without handling the queued ones."""
        self._is_closing = True
        while self._queued:
            self._connection.respond_nothing(self._queued.popleft())

    def _continue_decoding(self, request: Request[Message], steps: int) -> int:
        """Decode up to `steps` elements, and count their memory."""
        taken = self._connection.continue_decoding(request, steps)
        self._shares.record_held_bytes(self, self.held_bytes)
        return taken

    def _on_decoded(self) -> None:
        self._clock.call_soon(self._resume_after_decoding)

    def _resume_after_decoding(self) -> None:
        """Route the blocking request once it is decoded."""
        transport, connection, request = self._transport, self._connection, self._blocking_request
        if transport is None or request is None:
            return
        self._tick.begin()
        if not connection.awaits_response(request):
            self._blocking_request = self._on_unblocked = None
        self._handle_decoded(request)
        self._route_queued()
        self._tick.end()
        if self._transport is not None:
            self._resume_reading(transport)

    def _handle_decoded(self, request: Request[Message]) -> None:
        """Handle a large request, unless the connection refused it or it is malformed."""
        connection = self._connection
        if connection.awaits_response(request):
            self._handle(request)
            return
        self._received_at.pop(request.correlation_id, None)
        # No request after a malformed one can be read.
        self._queued = deque(queued for queued in self._queued if connection.awaits_response(queued))
        if connection.fault is not None:
            self._close_on_fault()
        self.flush()

    def _close_on_fault(self) -> None:
        """Close the connection after a fault, once the requests before it have their responses."""
        fault = self._connection.fault
        assert fault is not None
        if not self._is_closing:
            self._report_malformed(fault)
            self._is_closing = True

    def block(self, request: Request[Message], on_unblocked: Callable[[], None] | None = None) -> None:
        self._blocking_request, self._on_unblocked = request, on_unblocked

    def _call_on_unblocked(self) -> None:
        callback, self._on_unblocked = self._on_unblocked, None
        if callback is not None:
            callback()

    def _unblock(self) -> None:
        """Continue with queued requests once the client has read most of the large response."""
        transport = self._transport
        if transport is None:
            return
        if transport.unsent_bytes > DRAINED_BYTES:
            transport.call_when_sent(self._unblock)
            return
        self._blocking_request = None
        self._call_on_unblocked()
        self._continue(transport)

    def _continue(self, transport: Transport) -> None:
        """Route queued requests, and read more."""
        self._continue_routing()
        self._resume_reading(transport)

    def closed(self, reason: str, refused: bool) -> None:
        del reason, refused
        self._transport = None
        self._queued.clear()
        self._shares.release(self)
        self._call_on_unblocked()
        self._connection.close()
        self._statistics.connections_open -= 1
        self._on_closed(self)

    def close(self) -> None:
        """Send the queued responses and close; data received from now on is ignored."""
        self.flush()
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def respond(self, request: Request[Message], message: Message) -> None:
        """Queue the response; it is sent at the end of the tick, in order, together with others."""
        if self._encode(request, message):
            self._schedule_flush(request)

    def respond_not_leader(self, request: Request[Message], message: Message) -> None:
        self.respond(request, message)

    def respond_immediately(self, request: Request[Message], message: Message) -> None:
        if self._encode(request, message):
            self._complete(request)
            self.flush()

    def _encode(self, request: Request[Message], message: Message) -> bool:
        """Queue the response. Returns False if the connection is closed or the response cannot be encoded."""
        if self._transport is None:
            return False
        if self._has_quotas:
            self._throttle.apply(self, request, message)
            self._mute()
        try:
            self._connection.respond(request, message)
        except (UnsupportedVersion, ValueError) as error:
            # The content of the request caused it; nothing is queued, and other connections are not affected.
            logger.error(
                "closing the connection from %s: the response to %r cannot be encoded: %s",
                self.origin.peer,
                request,
                error,
            )
            self.close()
            return False
        return True

    def respond_encoded(self, request: Request[Message], response: bytes) -> None:
        if self._transport is not None:
            if self._has_quotas:
                response = self._throttle.apply_encoded(self, request, response)
                self._mute()
            self._connection.respond_encoded(request, response)
            self._schedule_flush(request)

    def extend(self, message: Message, is_rest: bool = True) -> ServerSession:
        return self

    def respond_nothing(self, request: Request[Message]) -> None:
        if self._transport is not None:
            self._connection.respond_nothing(request)
            self._schedule_flush(request)

    def _schedule_flush(self, request: Request[Message]) -> None:
        self._complete(request)
        if not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._tick.defer(self.flush)

    def _complete(self, request: Request[Message]) -> None:
        if request is self._blocking_request:
            self._clock.call_soon(self._unblock)
        received_at = self._received_at.pop(request.correlation_id, None)
        if received_at is not None:
            histogram = self._statistics.request_latency_ms.get(request.api_key)
            if histogram is None:
                histogram = self._statistics.request_latency_ms[request.api_key] = Histogram()
            histogram.observe(self._clock.now_ms() - received_at)

    def flush(self) -> None:
        """Send the responses that are next in order."""
        self._is_flush_scheduled = False
        transport = self._transport
        if transport is None:
            return
        parts = self._connection.take_parts()
        if parts:
            transport.write_parts(parts)
            written = 0
            for part in parts:
                written += len(part)
            self._largest_write = max(self._largest_write, written)
        self._shares.record_held_bytes(self, self.held_bytes)
        if self._transport is None:
            return
        if self._is_closing and not self._connection.pending:
            transport.close()
            self._transport = None
            return
        if self._is_paused:
            self._resume_reading(transport)
        if transport.unsent_bytes > self._max_unsent_bytes + self._largest_write:
            self._shares.warn(
                "unread", f"aborting the connection from {self.origin.peer}: the client reads no responses"
            )
            self.abort()

    def _resume_reading(self, transport: Transport) -> None:
        connection = self._connection
        if self._is_closing:
            return
        if self._has_more:
            self._await_turn()
        may_resume = (
            self._may_route
            and not self._is_waiting
            and not connection.has_more
            and connection.pending < MAX_PENDING_REQUESTS // 2
            and connection.pending_bytes <= MAX_PENDING_BYTES // 2
        )
        if self._is_paused and may_resume:
            self._is_paused = False
            transport.resume_reading()
