"""Shares a node's time and memory fairly among its connections.

requests   An iteration of the event loop decodes and routes a limited number, and none after a few milliseconds.
           Connections with more to read take turns; proven peers do not wait, so that no client delays the followers
           of a leader. Received bytes count as requests, so that large frames get no larger share than small ones.
bytes      Received but not yet handled, or written but not yet read by the client. Above the limit, the connection
           that holds the most is aborted.
warnings   Those that any client can cause are logged once per interval and kind, with a count of those suppressed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final, Protocol

from quorumd.log_limit import LogLimit
from quorumd.ports import Clock
from quorumd.protocol.connection import ALL
from quorumd.protocol.routes import Origin

logger = logging.getLogger("quorumd.connections")

REQUESTS_PER_ITERATION: Final = 128
"""A few milliseconds of work."""
ITERATION_MS: Final = 5.0
"""Time limit, which slow requests reach before the limit of their number."""
BYTES_PER_REQUEST: Final = 16 * 1024
"""Received bytes that take about as long as a request, including the memory that they need."""
BULK_BYTES: Final = 64 * 1024
"""A connection that received this much at once waits for its next turn: otherwise the event loop would keep reading
it for as long as more data arrives."""
MAX_HELD_BYTES: Final = 48 * 1024 * 1024
MIN_COUNTED_BYTES: Final = 4096
"""A connection that holds less is not counted: 10,000 of them hold 40 MB."""


class Member(Protocol):
    """A connection that takes part in the sharing."""

    origin: Origin

    @property
    def held_bytes(self) -> int: ...

    def continue_reading(self) -> None:
        """Read requests that were received in an earlier iteration."""

    def abort(self) -> None:
        """Close without sending what is queued."""


class FairShares:
    """Shared by the connections of a node. `call_soon` calls back in a later iteration of the event loop."""

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], None],
        now_ms: Callable[[], float],
        requests_per_iteration: int = REQUESTS_PER_ITERATION,
        max_held_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self._call_soon = call_soon
        self._now_ms = now_ms
        self._per_iteration = self._remaining = requests_per_iteration
        self._iteration_end_ms = inf
        self._max_held_bytes = max_held_bytes
        self._waiting: deque[Member] = deque()
        self._is_scheduled = False
        self._holders: dict[Member, int] = {}
        self._held_bytes = 0
        self._warnings = LogLimit(now_ms)

    @classmethod
    def of(cls, clock: Clock) -> FairShares:
        """The shares of a node with this clock."""
        return cls(clock.call_soon, clock.now_ms)

    # Requests

    def grant(self, member: Member) -> int:
        """The number of requests that a connection may read in this iteration."""
        self._begin_iteration()
        if member.origin.is_peer:
            return ALL
        share = max(1, self._per_iteration // (1 + len(self._waiting)))
        return max(0, min(share, self._remaining))

    def record_read(self, member: Member, requests: int, received_bytes: int) -> bool:
        """Record what a connection read in this iteration. Returns whether it must not receive more before its next
        turn."""
        self._remaining -= requests + received_bytes // BYTES_PER_REQUEST
        return received_bytes >= BULK_BYTES and not member.origin.is_peer

    def must_yield(self, member: Member) -> bool:
        """Whether the connection must leave the requests that it has read to its next turn."""
        return self._is_scheduled and not member.origin.is_peer and self._now_ms() >= self._iteration_end_ms

    def wait(self, member: Member) -> None:
        """Let a connection continue when it is its turn."""
        self._waiting.append(member)
        self._begin_iteration()

    def _begin_iteration(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._iteration_end_ms = self._now_ms() + ITERATION_MS
            self._call_soon(self._next_iteration)

    def _next_iteration(self) -> None:
        self._is_scheduled = False
        self._remaining = self._per_iteration
        if not self._waiting:
            return
        self._begin_iteration()
        for _ in range(len(self._waiting)):
            if self._remaining <= 0 or self._now_ms() >= self._iteration_end_ms:
                break
            self._waiting.popleft().continue_reading()

    # Bytes

    def record_held_bytes(self, member: Member) -> None:
        """Record what a connection holds now, and abort the largest holder if all hold too much."""
        self._count(member)
        if self._held_bytes <= self._max_held_bytes:
            return
        for each in list(self._holders):
            self._count(each)
        while self._held_bytes > self._max_held_bytes:
            largest = max(self._holders, key=self._cost)
            self.warn(
                "memory",
                f"aborting the connection from {largest.origin.peer}: it holds {self._holders[largest]} bytes",
            )
            self.release(largest)
            largest.abort()

    def release(self, member: Member) -> None:
        """Forget a connection."""
        self._held_bytes -= self._holders.pop(member, 0)

    def _count(self, member: Member) -> None:
        self.release(member)
        held = member.held_bytes
        if held >= MIN_COUNTED_BYTES:
            self._holders[member] = held
            self._held_bytes += held

    def _cost(self, member: Member) -> tuple[bool, int]:
        return not member.origin.is_peer, self._holders[member]

    # Warnings

    def warn(self, kind: str, text: str) -> None:
        """Log a warning that a client has caused, unless one of its kind was logged within the interval."""
        suppressed = self._warnings.admit(kind)
        if suppressed is None:
            return
        more = f" ({suppressed} more warnings of this kind were suppressed)" if suppressed else ""
        logger.warning("%s%s", text, more)
