"""The time to wait before retrying a request (KIP-580)."""

from __future__ import annotations

JITTER = 0.2
_LARGEST_EXPONENT = 32
"""Beyond this exponent every wait exceeds the maximum; prevents a float overflow."""


def backoff_ms(attempt: int, initial_ms: float, maximum_ms: float, fraction: float) -> float:
    """Return the wait in milliseconds after failed attempt number `attempt`, counted from 0.

    `fraction` is drawn by the caller, uniformly from [0, 1): the wait is uniform within 20 % around `initial_ms` x
    2^attempt, and at most `maximum_ms`.
    """
    jitter = 1 - JITTER + 2 * JITTER * fraction
    return min(maximum_ms, initial_ms * 2.0 ** min(attempt, _LARGEST_EXPONENT) * jitter)
