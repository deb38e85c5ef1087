"""One turn of the event loop: what is gathered in it is done at its end.

Requests of one turn become one batch, answers of one turn one write. Waiting for the loop to come round would cost
each of them a turn of latency, so whoever handles an event that usually has such work says where the turn ends.
"""

from __future__ import annotations

from collections.abc import Callable


class Tick:
    """`defer(callback)` runs the callback when the open turn ends; without an open turn, in the next of the loop."""

    def __init__(self, schedule: Callable[[Callable[[], None]], None]) -> None:
        self._schedule = schedule
        self._callbacks: list[Callable[[], None]] = []
        self._is_open = False
        self._is_scheduled = False

    def begin(self) -> None:
        """An event is about to be handled; `end` follows before control returns to the loop."""
        self._is_open = True

    def end(self) -> None:
        """Do what was left for the end, and what that leaves again."""
        self._is_open = self._is_scheduled = False
        while self._callbacks:
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()

    def defer(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)
        if not self._is_open and not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self.end)
