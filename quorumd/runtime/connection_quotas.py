"""Limits on accepted connections, in total and per host."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

logger = logging.getLogger(__name__)

REJECTION_LOG_INTERVAL_S = 10.0
"""Refused connections are logged at most once per interval, with their number."""


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Limits on accepted connections, and timeouts."""

    max_connections: int = 10_000
    max_connections_per_host: int = 10_000
    max_idle_ms: int = 600_000
    connect_timeout_ms: int = 2000


class ConnectionQuotas:
    """Counts accepted connections. `on_rejected` is called for every connection refused by a limit."""

    def __init__(
        self,
        limits: NetworkLimits,
        on_rejected: Callable[[], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._on_rejected = on_rejected
        self._now_s = now_s
        self._open = 0
        self._open_by_host: dict[str, int] = {}
        self._rejected_since_log = 0
        self._next_log_s = float("-inf")

    def admit(self, host: str) -> bool:
        """Count one connection from `host`; returns False if a limit is reached."""
        from_host = self._open_by_host.get(host, 0)
        if self._open >= self._limits.max_connections:
            self._reject(host, f"max.connections={self._limits.max_connections}")
            return False
        if from_host >= self._limits.max_connections_per_host:
            self._reject(host, f"max.connections.per.ip={self._limits.max_connections_per_host}")
            return False
        self._open += 1
        self._open_by_host[host] = from_host + 1
        return True

    def release(self, host: str) -> None:
        """Uncount a closed connection from `host`."""
        self._open -= 1
        self._open_by_host[host] -= 1
        if not self._open_by_host[host]:
            del self._open_by_host[host]

    def _reject(self, host: str, limit: str) -> None:
        self._on_rejected()
        self._rejected_since_log += 1
        now_s = self._now_s()
        if now_s >= self._next_log_s:
            count = self._rejected_since_log
            logger.warning("refused a connection from %s: %s is reached (%d refused)", host, limit, count)
            self._next_log_s = now_s + REJECTION_LOG_INTERVAL_S
            self._rejected_since_log = 0
