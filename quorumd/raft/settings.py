"""Settings of one replica of the quorum."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """Timeouts, backoffs and limits (KIP-595), with Kafka's defaults where Kafka has the setting."""

    fetch_timeout_ms: int = 2000
    """A follower without a successful fetch for this long campaigns. A leader without fetches from a majority resigns
    after 1.5 times as long."""
    election_timeout_ms: int = 1000
    """Lower bound of the random election timeout; the upper bound is twice as long."""
    election_backoff_max_ms: int = 1000
    """Maximum wait after a failed election."""
    retry_backoff_ms: int = 20
    """Wait before the first retry of a failed request; it doubles with each retry (KIP-580)."""
    retry_backoff_max_ms: int = 1000
    """Maximum wait before a retry."""
    fetch_max_wait_ms: int = 500
    """How long the leader may delay a fetch while there are no new records."""
    fetch_max_bytes: int = 8 * 1024 * 1024
    """Maximum bytes of records per fetch, but at least one batch."""
    snapshot_max_bytes: int = 1024 * 1024
    """Maximum bytes per FetchSnapshot request and response."""
    high_watermark_linger_ms: int = 5
    """How long a delayed fetch waits for records after the high watermark advanced."""
    observer_session_ms: int = 300_000
    """DescribeQuorum omits observers that have not fetched for this long."""
    epoch_tokens: bool = True
    """Whether voters' fetches must return the token of the epoch (`voter_proof`); False if this node behaves like a
    stock controller."""
    unauthenticated_stock_voters: bool = True
    """Whether a fetch of a voter that is a stock controller counts if its connection is not authenticated."""
