"""How long to wait before asking again (KIP-580)."""

from __future__ import annotations

JITTER = 0.2
_LARGEST_EXPONENT = 32
"""Beyond this every wait is above every sensible maximum; keeps the power from overflowing a float."""


def backoff_ms(attempt: int, initial_ms: float, maximum_ms: float, fraction: float) -> float:
    """The wait in milliseconds after failed attempt number `attempt`, counted from 0.

    `fraction` is uniform in [0, 1) and drawn by the caller: the wait is uniform within 20 % around
    `initial_ms` x 2^attempt, and never above `maximum_ms`.
    """
    jitter = 1 - JITTER + 2 * JITTER * fraction
    return min(maximum_ms, initial_ms * 2.0 ** min(attempt, _LARGEST_EXPONENT) * jitter)
