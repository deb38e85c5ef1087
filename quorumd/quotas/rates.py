"""A rate over windows, and a token bucket: the two ways in which Kafka measures the usage of a quota."""

from __future__ import annotations

from collections import deque
from math import inf


class _Window:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: float) -> None:
        self.start_ms = now_ms
        self.last_ms = now_ms
        self.value = 0.0


class WindowedRate:
    """The rate per second over the last `count` windows of `window_ms`. A client may use the quota of all windows in
    one burst."""

    __slots__ = ("_count", "_window_ms", "_windows")

    def __init__(self, count: int, window_ms: float) -> None:
        self._count = count
        self._window_ms = window_ms
        self._windows: deque[_Window] = deque()

    def record(self, value: float, now_ms: float) -> None:
        """Add usage; a negative value subtracts it."""
        windows = self._windows
        if not windows or now_ms - windows[-1].start_ms >= self._window_ms:
            windows.append(_Window(now_ms))
        windows[-1].value += value
        windows[-1].last_ms = now_ms

    def throttle_ms(self, limit: float, now_ms: float) -> int:
        """Return the time after which the rate would be within the limit again without further usage."""
        total, measured_ms = self._measure(now_ms)
        rate = total / measured_ms * 1000.0
        return round((rate - limit) / limit * measured_ms) if rate > limit else 0

    def rate(self, now_ms: float) -> float:
        """Return the rate per second."""
        total, measured_ms = self._measure(now_ms)
        return total / measured_ms * 1000.0

    def _measure(self, now_ms: float) -> tuple[float, float]:
        """Return the usage, and the time over which it is measured: at least all windows but the current one."""
        windows = self._windows
        while windows and now_ms - windows[0].last_ms >= self._count * self._window_ms:
            windows.popleft()
        if not windows:
            return 0.0, max(1.0, (self._count - 1) * self._window_ms)
        elapsed_ms = now_ms - windows[0].start_ms
        missing = self._count - 1 - elapsed_ms // self._window_ms
        elapsed_ms += max(0.0, missing) * self._window_ms
        return sum(window.value for window in windows), max(1.0, elapsed_ms)


class TokenBucket:
    """A bucket of tokens, refilled at a rate per second up to the tokens of `burst_s` seconds; initially full."""

    __slots__ = ("_burst_s", "_tokens", "_updated_ms")

    def __init__(self, burst_s: float) -> None:
        self._burst_s = burst_s
        self._tokens = inf
        self._updated_ms = 0.0

    def tokens(self, rate: float, now_ms: float) -> float:
        """Return the remaining tokens; negative if the bucket is overdrawn."""
        refilled = self._tokens + rate * (now_ms - self._updated_ms) / 1000.0
        self._tokens = min(rate * self._burst_s, refilled)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, rate: float, now_ms: float) -> None:
        """Take tokens; this may overdraw the bucket."""
        self.tokens(rate, now_ms)
        self._tokens -= count

    def throttle_ms(self, rate: float, now_ms: float) -> int:
        """Return the time after which the bucket is no longer overdrawn."""
        return max(0, round(-self.tokens(rate, now_ms) / rate * 1000.0))
