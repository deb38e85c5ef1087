"""One incoming connection: frames in, handlers called, answers out in the order of the requests."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.node.sliced_decoding import SlicedDecoding
from quorumd.node.sliced_work import SlicedWork
from quorumd.node.statistics import Histogram, NodeStatistics
from quorumd.node.turn import Turn
from quorumd.ports import Clock, Transport
from quorumd.protocol.connection import LARGE_REQUEST, Request, ServerConnection, VersionRanges
from quorumd.protocol.wire import Message

logger = logging.getLogger("quorumd.connections")

MAX_UNANSWERED = 1000
"""Requests of one connection that may wait for an answer before no more are read from it."""
MAX_UNSENT_BYTES = 16 * 1024 * 1024
"""Of answers that a client does not take, besides the largest it asked for."""
DRAIN_MS = 20.0
"""How often it is seen whether a client has taken its large answer."""


class Session(Protocol):
    """Where a request came from, and where its answer goes: a connection, or an envelope around the request."""

    peer: str
    number: int
    """Of the connection: a newer one has a larger number."""
    asked_as_controller_client: bool
    """Whether this client looks for controllers (DescribeCluster, endpoint type 2): it re-finds the leader itself."""

    def answer(self, request: Request, message: Message) -> None: ...

    def answer_at_once(self, request: Request, message: Message) -> None:
        """As `answer`, without waiting for others to leave with it: peers wait for this one alone."""

    def answer_encoded(self, request: Request, answer: bytes) -> None:
        """As `answer`, with response header and message encoded already: by the node that a request was forwarded to,
        or in slices."""

    def hold(self, request: Request) -> None:
        """What else comes from here waits until this request is answered: one large answer at a time."""

    def close(self) -> None:
        """Close the connection: no answer is given, nor waited for."""

    def answer_not_leader(self, request: Request, message: Message) -> None:
        """As `answer`, where this node does not lead and the request had no effect: it may go to another node."""


class ServerSession:
    """The node's side of one accepted connection (`ports.Connection`)."""

    def __init__(
        self,
        route: Callable[[Session, Request], None],
        spoken: VersionRanges,
        max_request_bytes: int,
        clock: Clock,
        statistics: NodeStatistics,
        turn: Turn,
        sliced: SlicedWork,
        on_closed: Callable[[ServerSession], None],
        number: int,
    ) -> None:
        self.number = number
        self.peer = "?"
        self.asked_as_controller_client = False
        self._route = route
        self._connection = ServerConnection(max_request_bytes, spoken, LARGE_REQUEST)
        self._clock = clock
        self._statistics = statistics
        self._turn = turn
        self._sliced = sliced
        self._on_closed = on_closed
        self._transport: Transport | None = None
        self._arrivals: dict[int, float] = {}
        self._flush_is_due = False
        self._is_paused = False
        self._is_ending = False
        """Whether the connection is closed once every request that came has its answer."""
        self._largest_output = 0
        self._held_by: Request | None = None
        self._held: deque[Request] = deque()
        """What came behind the request that all wait for."""

    def connected(self, transport: Transport) -> None:
        self._transport = transport
        self.peer = transport.peer
        self._statistics.connections_open += 1

    def received(self, data: bytes) -> None:
        if self._transport is None or self._is_ending:
            return
        try:
            requests = self._connection.receive(data)
        except MalformedMessage as fault:
            self._report(fault)
            self.close()
            return
        if self._connection.has_output:
            # An error that no handler gives: it waits for none of the requests beside it.
            self.flush()
        self._turn.begin()
        now = self._clock.now_ms()
        for request in requests:
            self._arrivals[request.correlation_id] = now
            self._held.append(request)
        self._end_at_fault()
        self._route_held()
        self._turn.end()
        is_enough = (
            self._is_ending or self._held_by is not None or self._connection.unanswered > MAX_UNANSWERED
        )
        if is_enough and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def _report(self, fault: MalformedMessage) -> None:
        self._statistics.malformed_frames += 1
        logger.warning("closing the connection from %s: %s", self.peer, fault)

    def _route_held(self) -> None:
        """Hand on what waits, up to the next request that all behind it wait for."""
        while self._held and self._held_by is None and self._transport is not None:
            request = self._held.popleft()
            if request.is_whole:
                self._route(self, request)
            else:
                self.hold(request)
                self._sliced.begin(SlicedDecoding(request, self._connection.decode_on, self._decode_ended))

    def _decode_ended(self) -> None:
        self._clock.call_soon(self._decoded)

    def _decoded(self) -> None:
        """Go on with the request that all behind it wait for."""
        transport, connection, request = self._transport, self._connection, self._held_by
        if transport is None or request is None:
            return
        self._turn.begin()
        if connection.awaits_answer(request):
            self._route(self, request)
        else:
            # It was refused, or it is malformed and the last one whose bytes were looked at.
            self._arrivals.pop(request.correlation_id, None)
            self._held_by = None
            self._held = deque(behind for behind in self._held if connection.awaits_answer(behind))
            self._end_at_fault()
            self.flush()
            self._route_held()
        self._turn.end()
        if self._transport is not None:
            self._resume_reading(transport)

    def _end_at_fault(self) -> None:
        """No more can be read after a fault: the connection ends once what came before it has its answers."""
        fault = self._connection.fault
        if fault is not None and not self._is_ending:
            self._report(fault)
            self._is_ending = True

    def hold(self, request: Request) -> None:
        self._held_by = request

    def _release(self) -> None:
        """The large answer is on its way: go on once the client has taken most of it."""
        transport = self._transport
        if transport is None:
            return
        if transport.unsent_bytes > MAX_UNSENT_BYTES:
            self._clock.call_at(self._clock.now_ms() + DRAIN_MS, self._release)
            return
        self._held_by = None
        self._turn.begin()
        self._route_held()
        self._turn.end()
        self._resume_reading(transport)

    def closed(self, reason: str, refused: bool) -> None:
        del reason, refused
        self._transport = None
        self._arrivals.clear()
        self._held.clear()
        self._statistics.connections_open -= 1
        self._on_closed(self)

    def close(self) -> None:
        """Close once what is queued has left; what comes in from now on is not looked at."""
        self.flush()
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def answer(self, request: Request, message: Message) -> None:
        """Queue the answer; it leaves at the end of this turn, in order, together with the others."""
        if self._encode(request, message):
            self._answered(request)

    def answer_not_leader(self, request: Request, message: Message) -> None:
        self.answer(request, message)

    def answer_at_once(self, request: Request, message: Message) -> None:
        if self._encode(request, message):
            self._observe(request)
            self.flush()

    def _encode(self, request: Request, message: Message) -> bool:
        """Queue the answer. False where there is nobody for it, or it cannot be encoded."""
        if self._transport is None:
            return False
        try:
            self._connection.answer(request, message)
        except (UnsupportedVersion, ValueError) as error:
            # Something in the request led to it. Nothing is queued, and the node is as good as before.
            logger.error(
                "closing the connection from %s: %r cannot be answered: %s", self.peer, request, error
            )
            self.close()
            return False
        return True

    def answer_encoded(self, request: Request, answer: bytes) -> None:
        if self._transport is not None:
            self._connection.answer_encoded(request, answer)
            self._answered(request)

    def _answered(self, request: Request) -> None:
        self._observe(request)
        if not self._flush_is_due:
            self._flush_is_due = True
            self._turn.at_end(self.flush)

    def _observe(self, request: Request) -> None:
        if request is self._held_by:
            self._clock.call_soon(self._release)
        arrived = self._arrivals.pop(request.correlation_id, None)
        if arrived is not None:
            histogram = self._statistics.request_latency_ms.get(request.api_key)
            if histogram is None:
                histogram = self._statistics.request_latency_ms[request.api_key] = Histogram()
            histogram.observe(self._clock.now_ms() - arrived)

    def flush(self) -> None:
        """Send the answers that may leave now."""
        self._flush_is_due = False
        transport = self._transport
        if transport is None:
            return
        out = self._connection.take_output()
        if out:
            transport.write(out)
            self._largest_output = max(self._largest_output, len(out))
        if self._is_ending and not self._connection.unanswered:
            transport.close()
            self._transport = None
            return
        self._resume_reading(transport)
        if transport.unsent_bytes > MAX_UNSENT_BYTES + self._largest_output:
            logger.warning("closing the connection from %s: it takes no answers", self.peer)
            transport.close()
            self._transport = None

    def _resume_reading(self, transport: Transport) -> None:
        is_little = self._held_by is None and self._connection.unanswered < MAX_UNANSWERED // 2
        if self._is_paused and is_little and not self._is_ending:
            self._is_paused = False
            transport.resume_reading()
