"""The Clock port on an asyncio event loop."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Handle
from collections.abc import Callable
from math import ceil
from time import monotonic, time_ns


class LoopTimer:
    """The Timer port. Calls back at or after the deadline, never before."""

    __slots__ = ("_callback", "_deadline_ms", "_handle", "_loop")

    def __init__(self, loop: AbstractEventLoop, deadline_ms: float, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._deadline_ms = deadline_ms
        self._callback = callback
        self._handle: Handle
        self._arm()

    def cancel(self) -> None:
        """See `ports.Timer`."""
        self._handle.cancel()

    def _arm(self) -> None:
        # uvloop counts whole milliseconds of its own clock and may call 1 ms too early, so `_fire` checks the time.
        remaining_ms = max(0, ceil(self._deadline_ms - monotonic() * 1000))
        self._handle = self._loop.call_later(remaining_ms / 1000, self._fire)

    def _fire(self) -> None:
        if monotonic() * 1000 < self._deadline_ms:
            self._arm()
        else:
            self._callback()


class LoopClock:
    """The Clock port. `now_ms` has the resolution of the system clock; the loop's own clock has milliseconds."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> float:
        """See `ports.Clock`."""
        return monotonic() * 1000

    def wall_ms(self) -> int:
        """See `ports.Clock`."""
        return time_ns() // 1_000_000

    def call_at(self, deadline_ms: float, callback: Callable[[], None]) -> LoopTimer:
        """See `ports.Clock`."""
        return LoopTimer(self._loop, deadline_ms, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """See `ports.Clock`."""
        self._loop.call_soon(callback)

    def charge(self, records: int) -> None:
        """See `ports.Clock`."""
