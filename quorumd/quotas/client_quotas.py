"""The usage of the quotas of all clients of one node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final, TypeVar

from quorumd.quotas.entities import (
    CONNECTION_RATE,
    MUTATION_RATE,
    REQUEST_PERCENTAGE,
    Quota,
    Quotas,
    connection_rate,
    quota_of,
)
from quorumd.quotas.rates import TokenBucket, WindowedRate

MAX_TRACKED: Final = 10_000
"""Maximum number of clients whose usage is tracked; beyond it the least recently used is forgotten."""

_Key = tuple[str, str, str]
"""Key of the quota, user and client id."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """Number and length of the windows: `quota.window.*`, and `controller.quota.window.*` for mutations."""

    windows: int = 11
    window_s: int = 1
    mutation_windows: int = 11
    mutation_window_s: int = 1


class QuotaCounters:
    """Numbers of throttled requests and connections, and the sums of their throttle times, by key of the quota."""

    def __init__(self) -> None:
        self.throttled: dict[str, int] = {}
        self.throttle_ms: dict[str, int] = {}

    def count(self, key: str, throttle_ms: int) -> int:
        """Count a throttle time unless it is 0, and return it."""
        if throttle_ms > 0:
            self.throttled[key] = self.throttled.get(key, 0) + 1
            self.throttle_ms[key] = self.throttle_ms.get(key, 0) + throttle_ms
        return throttle_ms


class MutationQuota:
    """The quota of one request that creates or deletes partitions (KIP-599).

    A strict quota rejects topics once the bucket is overdrawn; a permissive one only throttles, for clients that do
    not know the error THROTTLING_QUOTA_EXCEEDED."""

    def __init__(self, bucket: TokenBucket, rate: float, is_strict: bool, now_ms: float) -> None:
        self.throttle_ms = 0
        self._bucket = bucket
        self._rate = rate
        self._is_strict = is_strict
        self._now_ms = now_ms

    def take(self, partitions: int) -> bool:
        """Charge the partitions of one topic to the quota; return False if the topic is rejected."""
        if self._is_strict:
            self.throttle_ms = self._bucket.throttle_ms(self._rate, self._now_ms)
            if self.throttle_ms > 0:
                return False
        self._bucket.take(partitions, self._rate, self._now_ms)
        if not self._is_strict:
            self.throttle_ms = self._bucket.throttle_ms(self._rate, self._now_ms)
        return True


class ClientQuotas:
    """The usage of all clients. `quotas()` returns the current limits. Principals are `Type:Name`.

    Methods that record usage return the throttle time in milliseconds.
    """

    def __init__(
        self, settings: QuotaSettings, quotas: Callable[[], Quotas], counters: QuotaCounters | None = None
    ) -> None:
        self.counters = counters or QuotaCounters()
        self._settings = settings
        self.quotas = quotas
        self._rates: dict[_Key, WindowedRate] = {}
        self._buckets: dict[_Key, TokenBucket] = {}

    def record(
        self,
        key: str,
        principal: str,
        client_id: str | None,
        value: float,
        now_ms: float,
        counts: bool = True,
    ) -> int:
        """Record usage by a client. `counts`: whether the request counts as throttled if it is."""
        quota = self._quota(key, principal, client_id)
        if quota is None:
            return 0
        rate = self._rate((key, quota.user, quota.client_id))
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(quota.limit, now_ms)
        if key == REQUEST_PERCENTAGE:
            throttle_ms = min(throttle_ms, self._settings.window_s * 1000)
        return self.counters.count(key, throttle_ms) if counts else throttle_ms

    def unrecord(self, key: str, principal: str, client_id: str | None, value: float, now_ms: float) -> None:
        """Subtract usage that was recorded but did not take place."""
        quota = self._quota(key, principal, client_id)
        if quota is not None:
            self._rate((key, quota.user, quota.client_id)).record(-value, now_ms)

    def is_unused(self, key: str, principal: str, client_id: str | None, now_ms: float) -> bool:
        """Whether a client has no usage of a quota in any window."""
        quota = self._quota(key, principal, client_id)
        return quota is None or self._rate((key, quota.user, quota.client_id)).rate(now_ms) == 0

    def max_burst(self, key: str, principal: str, client_id: str | None) -> float:
        """Return the largest amount that a client may use at once; a larger one would always exceed its quota."""
        quota = self._quota(key, principal, client_id)
        settings = self._settings
        return inf if quota is None else quota.limit * (settings.windows - 1) * settings.window_s

    def mutations(
        self, principal: str, client_id: str | None, is_strict: bool, now_ms: float
    ) -> MutationQuota | None:
        """Return the quota for one request that creates or deletes partitions, None if there is no limit."""
        quota = self._quota(MUTATION_RATE, principal, client_id)
        if quota is None:
            return None
        burst_s = self._settings.mutation_windows * self._settings.mutation_window_s
        key = (MUTATION_RATE, quota.user, quota.client_id)
        bucket = _recently_used(self._buckets, key, lambda: TokenBucket(burst_s))
        return MutationQuota(bucket, quota.limit, is_strict, now_ms)

    def connected(self, host: str, now_ms: float) -> int:
        """Record a new connection unless it exceeds the rate of its address; then the caller closes it after the
        throttle time."""
        limit = connection_rate(self.quotas(), host)
        if limit is None:
            return 0
        rate = self._rate((CONNECTION_RATE, host, ""))
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_ms(limit, now_ms), self._settings.window_s * 1000)
        if throttle_ms > 0:
            rate.record(-1, now_ms)
        return self.counters.count(CONNECTION_RATE, throttle_ms)

    def _quota(self, key: str, principal: str, client_id: str | None) -> Quota | None:
        quotas = self.quotas()
        return quota_of(quotas, key, principal.partition(":")[2], client_id or "") if quotas else None

    def _rate(self, key: _Key) -> WindowedRate:
        settings = self._settings
        return _recently_used(
            self._rates, key, lambda: WindowedRate(settings.windows, settings.window_s * 1000.0)
        )


def _recently_used(tracked: dict[_Key, T], key: _Key, make: Callable[[], T]) -> T:
    """Return the usage of a client, creating it if necessary, and mark it as the most recently used."""
    found = tracked.pop(key, None)
    if found is None:
        found = make()
        if len(tracked) >= MAX_TRACKED:
            del tracked[next(iter(tracked))]
    tracked[key] = found
    return found


NO_QUOTAS: Final = ClientQuotas(QuotaSettings(), dict)
"""For parts that run without client quotas."""
