"""Counters of one node: plain numbers, cheap to update on the hot path.

`observability` converts them into Prometheus metrics at each scrape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from quorumd.quotas.client_quotas import QuotaCounters
from quorumd.security.authorizer import AuthorizerCounters

LATENCY_BOUNDS_MS = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
BUILD_BOUNDS_MS = (100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000)


class Histogram:
    """Counts of observations per bucket; made cumulative when they are read."""

    __slots__ = ("bounds", "counts", "maximum", "total")

    def __init__(self, bounds: Sequence[float] = LATENCY_BOUNDS_MS) -> None:
        self.bounds = [float(bound) for bound in bounds]
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.maximum = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """Record `count` observations of the same value."""
        # Compiled, a loop over a few floats is faster than a bisection by Python's library.
        bucket = 0
        for bound in self.bounds:
            if value <= bound:
                break
            bucket += 1
        self.counts[bucket] += count
        self.total += value * count
        if value > self.maximum:
            self.maximum = value


@dataclass(slots=True)
class NodeStatistics:
    """The counters of one node. Latencies in milliseconds."""

    request_latency_ms: dict[int, Histogram] = field(default_factory=dict)
    """By API key, from the complete frame to the queued response; the counts are the requests."""
    error_responses: dict[tuple[int, int], int] = field(default_factory=dict)
    """By (API key, error code), in responses to peers and clients."""
    authorization: AuthorizerCounters = field(default_factory=AuthorizerCounters)
    quotas: QuotaCounters = field(default_factory=QuotaCounters)
    commit_latency_ms: Histogram = field(default_factory=Histogram)
    """Leader: per record, from append until the high watermark passes it."""
    election_latency_ms: Histogram = field(default_factory=Histogram)
    """Voter: from becoming prospective or candidate until a leader is known."""
    flush_latency_ms: Histogram = field(default_factory=Histogram)
    event_processing_ms: Histogram = field(default_factory=Histogram)
    """Time that the event thread takes to handle an event: received data or the end of a flush."""
    fetched_records: int = 0
    appended_records: int = 0
    snapshot_end_offset: int = 0
    """The end offset of the newest local snapshot, 0 if there is none."""
    snapshot_bytes: int = 0
    snapshot_timestamp_ms: int = 0
    """The timestamp of the last record in the newest local snapshot, Unix milliseconds; 0 if there is none."""
    snapshots_built: int = 0
    snapshots_failed: int = 0
    snapshot_build_ms: Histogram = field(default_factory=lambda: Histogram(BUILD_BOUNDS_MS))
    sessions_expired: int = 0
    """Leader: brokers fenced because their session expired."""
    last_known_leader_elections: int = 0
    """Leader: elections of the last known leader after every eligible replica was lost; always allowed."""
    unclean_elections: int = 0
    """Leader: elections of another replica, which may lack committed records."""
    preferred_leader_elections: int = 0
    """Leader: partitions that leader balancing returned to their preferred leaders."""
    connections_open: int = 0
    connections_refused: int = 0
    malformed_frames: int = 0
    failed_authentications: int = 0
    certificate_expiry_s: dict[str, float] = field(default_factory=dict)
    """By listener with TLS: Unix time at which its certificate expires."""

    def count_error(self, api_key: int, error_code: int) -> None:
        """Count a response that contains this error in any of its fields."""
        key = (api_key, error_code)
        self.error_responses[key] = self.error_responses.get(key, 0) + 1
