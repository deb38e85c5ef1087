"""Counters of one node: plain numbers that the hot path can bump for next to nothing.

`observability` turns them into Prometheus metrics when it is asked; nothing here knows about that.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

LATENCY_BOUNDS_MS = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
BUILD_BOUNDS_MS = (100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000)


class Histogram:
    """Counts of observations below each bound, cumulative only when read."""

    __slots__ = ("bounds", "counts", "maximum", "total")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_MS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.maximum = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """Record `count` observations of the same value."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count
        if value > self.maximum:
            self.maximum = value


@dataclass(slots=True)
class NodeStatistics:
    """All that one node counts. Latencies in milliseconds."""

    request_latency_ms: dict[int, Histogram] = field(default_factory=dict)
    """By API key, from the frame being complete to the answer being queued; the counts are the requests."""
    error_answers: dict[tuple[int, int], int] = field(default_factory=dict)
    """By (API key, error code) of answers to peers and clients."""
    commit_latency_ms: Histogram = field(default_factory=Histogram)
    """Leader: from append to the high watermark passing it, a record."""
    election_latency_ms: Histogram = field(default_factory=Histogram)
    """Voter: from becoming prospective or candidate to knowing a leader."""
    flush_latency_ms: Histogram = field(default_factory=Histogram)
    event_processing_ms: Histogram = field(default_factory=Histogram)
    """How long the event thread handled an event: what a connection brought, or the end of a flush."""
    fetched_records: int = 0
    appended_records: int = 0
    snapshot_end_offset: int = 0
    """Of the newest snapshot here, 0 for none."""
    snapshot_bytes: int = 0
    snapshot_timestamp_ms: int = 0
    """Of the last record in the newest snapshot here, Unix milliseconds; 0 for none."""
    snapshots_built: int = 0
    snapshots_failed: int = 0
    snapshot_build_ms: Histogram = field(default_factory=lambda: Histogram(BUILD_BOUNDS_MS))
    sessions_expired: int = 0
    """Leader: brokers that were fenced because they were not heard of."""
    last_known_leader_elections: int = 0
    """Leader: partitions led by who led last, since every eligible replica is lost; no topic has to allow that."""
    unclean_elections: int = 0
    """Leader: partitions led by another replica that may lack committed records."""
    preferred_leader_elections: int = 0
    """Leader: partitions that leader balance gave back to their preferred leaders."""
    connections_open: int = 0
    connections_refused: int = 0
    malformed_frames: int = 0

    def count_error(self, api_key: int, error_code: int) -> None:
        """An answer with this error has been given, in whatever field of it."""
        key = (api_key, error_code)
        self.error_answers[key] = self.error_answers.get(key, 0) + 1
