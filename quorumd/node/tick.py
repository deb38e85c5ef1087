"""A tick is one iteration of the event loop, at whose end deferred callbacks run.

The requests of one tick become one batch, its responses one write. Deferring them to the next iteration would add its
latency to each, so the handlers of events that usually cause such work mark the end of the tick.
"""

from __future__ import annotations

from collections.abc import Callable

from quorumd.node.statistics import Histogram
from quorumd.ports import Clock


class Tick:
    """Opens and ends ticks, and runs deferred callbacks.

    `defer(callback)` runs the callback when the open tick ends; without an open tick, in the next iteration of the
    event loop. `durations_ms` observes the duration of each tick that an event opened.
    """

    def __init__(self, clock: Clock, durations_ms: Histogram) -> None:
        self._schedule = clock.call_soon
        self._now_ms = clock.now_ms
        self._durations_ms = durations_ms
        self._began_ms = 0.0
        self._callbacks: list[Callable[[], None]] = []
        self._is_open = False
        self._is_scheduled = False

    def begin(self) -> float:
        """Open a tick before an event is handled; `end` follows before control returns to the loop. Returns the time
        at which the open tick began."""
        if not self._is_open:
            self._is_open = True
            self._began_ms = self._now_ms()
        return self._began_ms

    def end(self) -> None:
        """Run the deferred callbacks, and the callbacks that they defer."""
        was_open = self._is_open
        self._is_open = self._is_scheduled = False
        while self._callbacks:
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()
        if was_open:
            self._durations_ms.observe(self._now_ms() - self._began_ms)

    def busy_ms(self) -> float:
        """The time spent in ticks so far, including the open one."""
        ended_ms = self._durations_ms.total
        return ended_ms + self._now_ms() - self._began_ms if self._is_open else ended_ms

    def defer(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)
        if not self._is_open and not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self.end)
