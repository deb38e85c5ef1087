"""One turn of the event loop: what is gathered in it is done at its end.

Requests of one turn become one batch, answers of one turn one write. Waiting for the loop to come round would cost
each of them a turn of latency, so whoever handles an event that usually has such work says where the turn ends.
"""

from __future__ import annotations

from collections.abc import Callable

from quorumd.node.statistics import Histogram


class Tick:
    """`defer(callback)` runs the callback when the open turn ends; without an open turn, in the next of the loop.

    `durations_ms`: how long each turn took that an event opened, by the clock `now_ms`."""

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
        """An event is about to be handled; `end` follows before control returns to the loop."""
        if not self._is_open and self._durations_ms is not None:
            self._began_ms = self._now_ms()
        self._is_open = True

    def end(self) -> None:
        """Do what was left for the end, and what that leaves again."""
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
