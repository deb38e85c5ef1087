"""Shares a node's time and memory fairly among its connections.

requests   An iteration of the event loop decodes and routes a limited number, and none after a few milliseconds of
           handling events. Connections with more to read take turns. Received bytes count as requests, so that large
           frames get no larger share than small ones. Both limits are renewed in the next iteration once half of one
           is used: renewing them in every iteration would cost each request a callback. Sessions of proven peers read
           all they receive, so that no client delays the followers of a leader.
bytes      Received but not yet handled, or written but not yet read by the client. Above the limit, the connection
           that holds the most is aborted, a proven peer only if no other connection holds any.
warnings   Warnings that any client can cause are logged once per interval and kind, with a count of those suppressed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from quorumd.log_limit import LogLimit
from quorumd.node.settings import MAX_HELD_BYTES
from quorumd.node.tick import Tick
from quorumd.ports import Clock
from quorumd.protocol.routes import Origin

logger = logging.getLogger("quorumd.connections")

REQUESTS_PER_ITERATION: Final = 128
"""A few milliseconds of work."""
ITERATION_MS: Final = 5.0
"""Time limit per iteration, which slow requests reach before REQUESTS_PER_ITERATION."""
BYTES_PER_REQUEST: Final = 16 * 1024
"""Received bytes that take about as long as a request, including the memory that they need."""
BULK_BYTES: Final = 64 * 1024
"""A connection that received this much at once waits for its next turn: otherwise the event loop would keep reading
it for as long as more data arrives."""
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
    """Shared by the connections of a node. `call_soon` calls back in a later iteration of the event loop; `busy_ms()`
    returns the time spent handling events so far."""

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], None],
        busy_ms: Callable[[], float],
        warnings: LogLimit,
        requests_per_iteration: int = REQUESTS_PER_ITERATION,
        max_held_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self._call_soon = call_soon
        self._busy_ms = busy_ms
        self._per_iteration = self._remaining = requests_per_iteration
        self._busy_limit_ms = busy_ms() + ITERATION_MS
        self._max_held_bytes = max_held_bytes
        self._waiting: deque[Member] = deque()
        self._is_scheduled = False
        self._holders: dict[Member, int] = {}
        self._held_bytes = 0
        self._warnings = warnings

    @classmethod
    def of(cls, clock: Clock, tick: Tick, max_held_bytes: int = MAX_HELD_BYTES) -> FairShares:
        """The shares of a node with this clock, which handles events in ticks."""
        warnings = LogLimit(clock.now_ms)
        return cls(clock.call_soon, tick.busy_ms, warnings, max_held_bytes=max_held_bytes)

    # Requests

    def grant(self) -> int:
        """The number of requests that a connection may read in this iteration."""
        share = max(1, self._per_iteration // (1 + len(self._waiting)))
        return max(0, min(share, self._remaining))

    def record_read(self, requests: int, received_bytes: int) -> bool:
        """Record what a connection read in this iteration. Returns whether it must not receive more before its next
        turn."""
        self._remaining -= requests + received_bytes // BYTES_PER_REQUEST
        if self._remaining < self._per_iteration // 2:
            self._schedule_next_iteration()
        return received_bytes >= BULK_BYTES

    def must_yield(self) -> bool:
        """Whether a connection that has handled a request must leave further requests to its next turn."""
        remaining_ms = self._busy_limit_ms - self._busy_ms()
        if remaining_ms < ITERATION_MS / 2:
            self._schedule_next_iteration()
        if remaining_ms > 0:
            return False
        self._remaining = 0
        return True

    def wait(self, member: Member) -> None:
        """Let a connection continue when it is its turn."""
        self._waiting.append(member)
        self._schedule_next_iteration()

    def _schedule_next_iteration(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._next_iteration)

    def _next_iteration(self) -> None:
        self._is_scheduled = False
        self._remaining = self._per_iteration
        self._busy_limit_ms = self._busy_ms() + ITERATION_MS
        for _ in range(len(self._waiting)):
            if self._remaining <= 0:
                break
            self._waiting.popleft().continue_reading()
        if self._waiting:
            self._schedule_next_iteration()

    # Bytes

    def record_held_bytes(self, member: Member, held_bytes: int) -> None:
        """Record what a connection holds now, and abort the largest holder if all hold too much."""
        self._count(member, held_bytes)
        if self._held_bytes <= self._max_held_bytes:
            return
        for each in list(self._holders):
            self._count(each, each.held_bytes)
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

    def _count(self, member: Member, held_bytes: int) -> None:
        self.release(member)
        if held_bytes >= MIN_COUNTED_BYTES:
            self._holders[member] = held_bytes
            self._held_bytes += held_bytes

    def _cost(self, member: Member) -> tuple[bool, int]:
        return not member.origin.is_peer, self._holders[member]

    # Warnings

    def warn(self, kind: str, text: str) -> None:
        """Log a warning that a client has caused, unless one of its kind was logged within the interval."""
        self._warnings.warn(logger, kind, text)
