"""A timer for deadlines of peers, on a node that may itself stall past the deadline."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from quorumd.ports import Clock, Timer

LATE_MS = 5.0
"""A timer that fires later than this shows that the node stalled or was busy."""


class DeadlineTimer:
    """Calls `on_expired()` at the deadline.

    If this node itself is late, it first reads the data received meanwhile, since the peer may have been in time. If
    it is late by `LATE_MS` or more, `on_stall(stalled_ms)` is called before that, once per stall."""

    def __init__(
        self, clock: Clock, on_expired: Callable[[], None], on_stall: Callable[[float], None] | None = None
    ) -> None:
        self._clock = clock
        self._on_expired = on_expired
        self._on_stall = on_stall
        self._timer: Timer | None = None
        self._deadline_ms = inf
        self._fired_ms = -inf
        """When the timer last fired: the node was running then."""
        self._has_read = False
        """Whether the data received during a stall has been read; without this a slow node would never expire."""

    def arm(self, deadline_ms: float) -> None:
        """Expire at this deadline, or at the current one if that is earlier."""
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
        now_ms = self._clock.now_ms()
        late_ms, stalled_ms = now_ms - self._deadline_ms, now_ms - max(self._deadline_ms, self._fired_ms)
        self._timer, self._deadline_ms, self._fired_ms = None, inf, now_ms
        if stalled_ms >= LATE_MS and self._on_stall is not None:
            # Also if another stall follows before the data received in the first one is read.
            self._on_stall(stalled_ms)
        if late_ms > 0 and not self._has_read:
            # A stall of any duration may end just after the deadline.
            self._has_read = True
            self.arm(self._clock.now_ms())
        else:
            self._has_read = False
            self._on_expired()
