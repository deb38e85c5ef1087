"""One incoming connection: frames in, handlers called, answers out in the order of the requests."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.node.sessions.decoding_task import DecodingTask
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.statistics import Histogram, NodeStatistics
from quorumd.node.tick import Tick
from quorumd.ports import Clock, Transport
from quorumd.protocol.connection import LARGE_REQUEST, Request, ServerConnection, VersionRanges
from quorumd.protocol.wire import Message

logger = logging.getLogger("quorumd.connections")

MAX_PENDING_REQUESTS = 1000
"""Requests of one connection that may wait for an answer before no more are read from it."""
MAX_UNSENT_BYTES = 16 * 1024 * 1024
"""Of answers that a client does not take, besides the largest it asked for."""
DRAIN_POLL_MS = 20.0
"""How often it is seen whether a client has taken its large answer."""


class Session(Protocol):
    """Where a request came from, and where its answer goes: a connection, or an envelope around the request."""

    peer: str
    number: int
    """Of the connection: a newer one has a larger number."""
    is_controller_client: bool
    """Whether this client looks for controllers (DescribeCluster, endpoint type 2): it re-finds the leader itself."""
    comes_from_broker: bool
    """Whether a broker passed the request on, which checked what only brokers can."""

    def respond(self, request: Request[Message], message: Message) -> None: ...

    def respond_immediately(self, request: Request[Message], message: Message) -> None:
        """As `answer`, without waiting for others to leave with it: peers wait for this one alone."""

    def respond_encoded(self, request: Request[Message], answer: bytes) -> None:
        """As `answer`, with response header and message encoded already: by the node that a request was forwarded to,
        or in slices."""

    def block(self, request: Request[Message]) -> None:
        """What else comes from here waits until this request is answered: one large answer at a time."""

    def close(self) -> None:
        """Close the connection: no answer is given, nor waited for."""

    def respond_not_leader(self, request: Request[Message], message: Message) -> None:
        """As `answer`, where this node does not lead and the request had no effect: it may go to another node."""


class ServerSession:
    """The node's side of one accepted connection (`ports.Connection`)."""

    comes_from_broker = False

    def __init__(
        self,
        route: Callable[[Session, Request[Message]], None],
        spoken: VersionRanges,
        max_request_bytes: int,
        clock: Clock,
        statistics: NodeStatistics,
        tick: Tick,
        scheduler: SliceScheduler,
        on_closed: Callable[[ServerSession], None],
        number: int,
        large_request_bytes: int = LARGE_REQUEST,
    ) -> None:
        self.number = number
        self.peer = "?"
        self.is_controller_client = False
        self._route = route
        self._connection = ServerConnection(max_request_bytes, spoken, large_request_bytes)
        self._clock = clock
        self._statistics = statistics
        self._tick = tick
        self._scheduler = scheduler
        self._on_closed = on_closed
        self._transport: Transport | None = None
        self._received_at: dict[int, float] = {}
        self._is_flush_scheduled = False
        self._is_paused = False
        self._is_closing = False
        """Whether the connection is closed once every request that came has its answer."""
        self._largest_write = 0
        self._blocking_request: Request[Message] | None = None
        self._queued: deque[Request[Message]] = deque()
        """What came behind the request that all wait for."""

    def connected(self, transport: Transport) -> None:
        self._transport = transport
        self.peer = transport.peer
        self._statistics.connections_open += 1

    def received(self, data: bytes) -> None:
        if self._transport is None or self._is_closing:
            return
        try:
            requests = self._connection.receive(data)
        except MalformedMessage as fault:
            self._report_malformed(fault)
            self.close()
            return
        if self._connection.has_output:
            # An error that no handler gives: it waits for none of the requests beside it.
            self.flush()
        self._tick.begin()
        now = self._clock.now_ms()
        for request in requests:
            self._received_at[request.correlation_id] = now
            self._queued.append(request)
        self._close_on_fault()
        self._route_queued()
        self._tick.end()
        must_pause = (
            self._is_closing
            or self._blocking_request is not None
            or self._connection.pending > MAX_PENDING_REQUESTS
        )
        if must_pause and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def _report_malformed(self, fault: MalformedMessage) -> None:
        self._statistics.malformed_frames += 1
        logger.warning("closing the connection from %s: %s", self.peer, fault)

    def _route_queued(self) -> None:
        """Hand on what waits, up to the next request that all behind it wait for."""
        while self._queued and self._blocking_request is None and self._transport is not None:
            request = self._queued.popleft()
            if request.is_whole:
                self._route(self, request)
            else:
                self.block(request)
                self._scheduler.begin(
                    DecodingTask(request, self._connection.continue_decoding, self._on_decoded)
                )

    def _on_decoded(self) -> None:
        self._clock.call_soon(self._resume_after_decoding)

    def _resume_after_decoding(self) -> None:
        """Go on with the request that all behind it wait for."""
        transport, connection, request = self._transport, self._connection, self._blocking_request
        if transport is None or request is None:
            return
        self._tick.begin()
        if connection.awaits_response(request):
            self._route(self, request)
        else:
            # It was refused, or it is malformed and the last one whose bytes were looked at.
            self._received_at.pop(request.correlation_id, None)
            self._blocking_request = None
            self._queued = deque(behind for behind in self._queued if connection.awaits_response(behind))
            self._close_on_fault()
            self.flush()
            self._route_queued()
        self._tick.end()
        if self._transport is not None:
            self._resume_reading(transport)

    def _close_on_fault(self) -> None:
        """No more can be read after a fault: the connection ends once what came before it has its answers."""
        fault = self._connection.fault
        if fault is not None and not self._is_closing:
            self._report_malformed(fault)
            self._is_closing = True

    def block(self, request: Request[Message]) -> None:
        self._blocking_request = request

    def _unblock(self) -> None:
        """The large answer is on its way: go on once the client has taken most of it."""
        transport = self._transport
        if transport is None:
            return
        if transport.unsent_bytes > MAX_UNSENT_BYTES:
            self._clock.call_at(self._clock.now_ms() + DRAIN_POLL_MS, self._unblock)
            return
        self._blocking_request = None
        self._tick.begin()
        self._route_queued()
        self._tick.end()
        self._resume_reading(transport)

    def closed(self, reason: str, refused: bool) -> None:
        del reason, refused
        self._transport = None
        self._received_at.clear()
        self._queued.clear()
        self._statistics.connections_open -= 1
        self._on_closed(self)

    def close(self) -> None:
        """Close once what is queued has left; what comes in from now on is not looked at."""
        self.flush()
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def respond(self, request: Request[Message], message: Message) -> None:
        """Queue the answer; it leaves at the end of this turn, in order, together with the others."""
        if self._encode(request, message):
            self._schedule_flush(request)

    def respond_not_leader(self, request: Request[Message], message: Message) -> None:
        self.respond(request, message)

    def respond_immediately(self, request: Request[Message], message: Message) -> None:
        if self._encode(request, message):
            self._complete(request)
            self.flush()

    def _encode(self, request: Request[Message], message: Message) -> bool:
        """Queue the answer. False where there is nobody for it, or it cannot be encoded."""
        if self._transport is None:
            return False
        try:
            self._connection.respond(request, message)
        except (UnsupportedVersion, ValueError) as error:
            # Something in the request led to it. Nothing is queued, and the node is as good as before.
            logger.error(
                "closing the connection from %s: %r cannot be answered: %s", self.peer, request, error
            )
            self.close()
            return False
        return True

    def respond_encoded(self, request: Request[Message], answer: bytes) -> None:
        if self._transport is not None:
            self._connection.respond_encoded(request, answer)
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
        """Send the answers that may leave now."""
        self._is_flush_scheduled = False
        transport = self._transport
        if transport is None:
            return
        out = self._connection.take_output()
        if out:
            transport.write(out)
            self._largest_write = max(self._largest_write, len(out))
        if self._is_closing and not self._connection.pending:
            transport.close()
            self._transport = None
            return
        self._resume_reading(transport)
        if transport.unsent_bytes > MAX_UNSENT_BYTES + self._largest_write:
            logger.warning("closing the connection from %s: it takes no answers", self.peer)
            transport.close()
            self._transport = None

    def _resume_reading(self, transport: Transport) -> None:
        may_resume = self._blocking_request is None and self._connection.pending < MAX_PENDING_REQUESTS // 2
        if self._is_paused and may_resume and not self._is_closing:
            self._is_paused = False
            transport.resume_reading()
