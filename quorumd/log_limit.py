"""Limits the log lines that clients can cause to one per interval and kind, with the number of lines suppressed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from math import inf
from typing import Final

INTERVAL_MS: Final = 10_000.0
MAX_KINDS: Final = 256
"""Number of kinds that are distinguished within an interval; further kinds share one line."""
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
        """Number of remembered kinds."""
        return len(self._kinds)

    def admit(self, kind: Hashable) -> int | None:
        """Return the number of lines of this kind suppressed since the last one, None to suppress this one too."""
        now = self._now_ms()
        if kind not in self._kinds:
            kind = self._add_kind(kind, now)
        logged_at, suppressed = self._kinds.get(kind, (-inf, 0))
        if now - logged_at >= INTERVAL_MS:
            self._kinds[kind] = (now, 0)
            return suppressed
        self._kinds[kind] = (logged_at, suppressed + 1)
        return None

    def warn(self, logger: logging.Logger, kind: Hashable, text: str) -> None:
        """Log a warning unless one of its kind was logged within the interval."""
        suppressed = self.admit(kind)
        if suppressed is None:
            return
        more = f" ({suppressed} more warnings of this kind were suppressed)" if suppressed else ""
        logger.warning("%s%s", text, more)

    def _add_kind(self, kind: Hashable, now: float) -> Hashable:
        """Return the kind if it can be added, forgetting those of earlier intervals; else the shared kind."""
        if len(self._kinds) < self._max_kinds:
            return kind
        recent = {each: last for each, last in self._kinds.items() if now - last[0] < INTERVAL_MS}
        self._kinds = recent
        return kind if len(recent) < self._max_kinds else _FURTHER
