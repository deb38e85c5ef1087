"""Calls back in the next iteration of the event loop, once however often it is requested."""

from __future__ import annotations

from collections.abc import Callable


class NextIteration:
    """`call_soon` calls back in the next iteration, in which `callback` is to be called if it was requested."""

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], callback: Callable[[], None]
    ) -> None:
        self._call_soon = call_soon
        self._callback = callback
        self._is_requested = False

    def request(self) -> None:
        """Let the callback be called in the next iteration."""
        if not self._is_requested:
            self._is_requested = True
            self._call_soon(self._begin)

    def _begin(self) -> None:
        self._is_requested = False
        self._callback()
