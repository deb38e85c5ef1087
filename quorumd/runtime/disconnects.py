"""Closes the connections that clients have ended, a few per iteration of the event loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from quorumd.runtime.next_iteration import NextIteration

CLOSED_PER_ITERATION: Final = 64
"""One or two milliseconds of work. A client may end thousands of connections at once."""


class Disconnects:
    """Bounds the connections that are closed per iteration. `call_soon` calls back in the next iteration."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._next_iteration = NextIteration(call_soon, self._begin_iteration)
        self._remaining = CLOSED_PER_ITERATION
        self._waiting: deque[Callable[[], None]] = deque()

    def defers(self, close: Callable[[], None]) -> bool:
        """Whether `close` will be called in a later iteration; if not, the caller must close the connection."""
        self._next_iteration.request()
        if self._remaining > 0:
            self._remaining -= 1
            return False
        self._waiting.append(close)
        return True

    def close(self, close: Callable[[], None]) -> None:
        """Call `close`, now or in a later iteration."""
        if not self.defers(close):
            close()

    def _begin_iteration(self) -> None:
        self._remaining = CLOSED_PER_ITERATION
        while self._waiting and self._remaining > 0:
            self._remaining -= 1
            self._waiting.popleft()()
        if self._waiting:
            self._next_iteration.request()
