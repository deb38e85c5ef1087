"""A tick is one iteration of the event loop, at whose end deferred callbacks run.

The requests of one tick become one batch, its responses one write. To defer them to the next iteration would add its
latency to each, so the handlers of events that usually cause such work mark the end of the tick.
"""

from __future__ import annotations

from collections.abc import Callable

from quorumd.node.statistics import Histogram


class Tick:
    """`defer(callback)` runs the callback when the open tick ends; without an open tick, in the next iteration of the
    event loop.

    `durations_ms`: the duration of each tick that an event opened, by the clock `now_ms`."""

    def __init__(
        self,
        schedule: Callable[[Callable[[], None]], None],
        now_ms: Callable[[], float] = lambda: 0.0,
        durations_ms: Histogram | None = None,
    ) -> None:
        self._schedule = schedule
        self._now_ms = now_ms
        self._durations_ms = durations_ms
        self._began_ms = 0.0
        self._callbacks: list[Callable[[], None]] = []
        self._is_open = False
        self._is_scheduled = False

    def begin(self) -> None:
        """Open a tick before an event is handled; `end` follows before control returns to the loop."""
        if not self._is_open and self._durations_ms is not None:
            self._began_ms = self._now_ms()
        self._is_open = True

    def end(self) -> None:
        """Run the deferred callbacks, and those that they defer."""
        was_open = self._is_open
        self._is_open = self._is_scheduled = False
        while self._callbacks:
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()
        if was_open and self._durations_ms is not None:
            self._durations_ms.observe(self._now_ms() - self._began_ms)

    def defer(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)
        if not self._is_open and not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self.end)
