"""A timer of what somebody else has to do in time, for a node that may itself stand still or be busy past it."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from quorumd.ports import Clock, Timer

LATE_MS = 5.0
"""A timer that comes so late shows that the node was busy, or stood still."""


class DeadlineTimer:
    """`expired()` is called at the deadline. If the node itself is late, `stood_still(late_ms)` is called
    instead, and `expired` once what came meanwhile is read: the peer that seems late may have been in time."""

    def __init__(
        self, clock: Clock, expired: Callable[[], None], stood_still: Callable[[float], None] | None = None
    ) -> None:
        self._clock = clock
        self._expired = expired
        self._stood_still = stood_still
        self._timer: Timer | None = None
        self._deadline_ms = inf
        self._has_read = False
        """Whether what came during a standstill is read; a node that is always late expires all the same."""

    def arm(self, deadline_ms: float) -> None:
        """Expire then, or at the deadline that it is armed for if that is earlier."""
        if deadline_ms >= self._deadline_ms:
            return
        self.cancel()
        self._deadline_ms = deadline_ms
        self._timer = self._clock.call_at(deadline_ms, self._fired)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._deadline_ms = None, inf

    def _fired(self) -> None:
        late_ms = self._clock.now_ms() - self._deadline_ms
        self._timer, self._deadline_ms = None, inf
        if late_ms >= LATE_MS and not self._has_read:
            self._has_read = True
            if self._stood_still is not None:
                self._stood_still(late_ms)
            self.arm(self._clock.now_ms())
        else:
            self._has_read = False
            self._expired()
