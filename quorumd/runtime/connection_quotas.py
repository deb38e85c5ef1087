"""Limits on accepted connections: in total, per host, and by the process's limit of open files."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from quorumd.quotas.connection_rates import ConnectionRateLimits
from quorumd.runtime.descriptors import NO_LIMIT, DescriptorLimit

logger = logging.getLogger(__name__)

REJECTION_LOG_INTERVAL_S = 10.0
"""Refused connections are logged at most once per interval, with their count."""
MAX_RESERVED_FOR_PEERS = 64


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Limits on accepted connections, and timeouts."""

    max_connections: int = 10_000
    max_connections_per_host: int = 10_000
    max_idle_ms: int = 600_000
    connect_timeout_ms: int = 2000
    descriptors: DescriptorLimit = NO_LIMIT
    rates: ConnectionRateLimits = field(default_factory=ConnectionRateLimits)

    @property
    def reserved_for_peers(self) -> int:
        """The number of connections that are reserved for the hosts of other nodes of the quorum."""
        return min(MAX_RESERVED_FOR_PEERS, self.max_connections // 10)


class ConnectionQuotas:
    """Counts accepted connections. `on_rejected` is called for every connection that a limit refuses."""

    def __init__(
        self,
        limits: NetworkLimits,
        on_rejected: Callable[[], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._on_rejected = on_rejected
        self._now_s = now_s
        self._peer_hosts: set[str] = set()
        self._open = 0
        self._open_by_host: dict[str, int] = {}
        self._rejected_since_log = 0
        self._next_log_s = float("-inf")

    def reserve_for(self, host: str) -> None:
        """Let a host use the connections that are reserved for the quorum."""
        self._peer_hosts.add(host)

    def admit(self, host: str, descriptor: int = 0) -> bool:
        """Count one connection from `host`. Returns False, without counting it, if a limit is reached."""
        limits, from_host = self._limits, self._open_by_host.get(host, 0)
        is_peer = host in self._peer_hosts
        if self._open >= limits.max_connections - (0 if is_peer else limits.reserved_for_peers):
            self._reject(host, f"max.connections={limits.max_connections}")
        elif from_host >= limits.max_connections_per_host:
            self._reject(host, f"max.connections.per.ip={limits.max_connections_per_host}")
        elif not limits.descriptors.admits(descriptor, is_peer):
            self._reject(host, f"the limit of {limits.descriptors.limit} open files")
        else:
            self._open += 1
            self._open_by_host[host] = from_host + 1
            return True
        return False

    def release(self, host: str) -> None:
        """Stop counting a closed connection from `host`."""
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
