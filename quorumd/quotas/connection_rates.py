"""The rate of new connections of a node and of each of its listeners (KIP-612)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quorumd.quotas.rates import WindowedRate

NO_RATE_LIMIT: Final = 2_147_483_647
"""The default of `max.connection.creation.rate`."""


@dataclass(frozen=True, slots=True)
class ConnectionRateLimits:
    """Limits in connections per second."""

    node: int = NO_RATE_LIMIT
    """The limit of all listeners together."""
    listeners: Mapping[str, int] = field(default_factory=dict)
    """The limits of single listeners, by name."""
    protected: frozenset[str] = frozenset()
    """Listeners of nodes and brokers, at which the limit of the node does not delay connections."""
    windows: int = 11
    window_s: int = 1


class ConnectionRates:
    """Counts accepted connections."""

    def __init__(self, limits: ConnectionRateLimits) -> None:
        self._limits = limits
        self._of_node = self._new_rate()
        self._of_listener = {name: self._new_rate() for name in limits.listeners}

    def connected(self, listener: str, now_ms: float) -> int:
        """Count a connection; return the time in milliseconds for which the listener must not accept another."""
        limits = self._limits
        wait_ms = 0
        if limits.node < NO_RATE_LIMIT:
            self._of_node.record(1, now_ms)
            if listener not in limits.protected:
                wait_ms = self._of_node.throttle_ms(limits.node, now_ms)
        rate = self._of_listener.get(listener)
        if rate is not None:
            rate.record(1, now_ms)
            wait_ms = max(wait_ms, rate.throttle_ms(limits.listeners[listener], now_ms))
        return wait_ms

    def _new_rate(self) -> WindowedRate:
        return WindowedRate(self._limits.windows, self._limits.window_s * 1000)
