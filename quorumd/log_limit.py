"""Limits the log lines that any client can cause: one per interval and kind, with the number of those suppressed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import inf
from typing import Final

INTERVAL_MS: Final = 10_000.0
MAX_KINDS: Final = 256
"""Kinds that are distinguished within an interval; further ones share a line."""
_FURTHER: Final = object()


class LogLimit:
    """Selects the lines to log. `now_ms`: monotonic milliseconds."""

    def __init__(self, now_ms: Callable[[], float], max_kinds: int = MAX_KINDS) -> None:
        self._now_ms = now_ms
        self._max_kinds = max_kinds
        self._kinds: dict[Hashable, tuple[float, int]] = {}
        """When a line of the kind was logged, and how many have been suppressed since."""

    @property
    def kinds(self) -> int:
        """How many kinds it remembers."""
        return len(self._kinds)

    def admit(self, kind: Hashable) -> int | None:
        """Return how many lines of this kind were suppressed since the last one, None to suppress this one."""
        now = self._now_ms()
        if kind not in self._kinds:
            kind = self._kind_with_room(kind, now)
        logged_at, suppressed = self._kinds.get(kind, (-inf, 0))
        if now - logged_at >= INTERVAL_MS:
            self._kinds[kind] = (now, 0)
            return suppressed
        self._kinds[kind] = (logged_at, suppressed + 1)
        return None

    def _kind_with_room(self, kind: Hashable, now: float) -> Hashable:
        """The kind, after the kinds of earlier intervals are forgotten, or the shared one if all are recent."""
        if len(self._kinds) < self._max_kinds:
            return kind
        recent = {each: last for each, last in self._kinds.items() if now - last[0] < INTERVAL_MS}
        self._kinds = recent
        return kind if len(recent) < self._max_kinds else _FURTHER
