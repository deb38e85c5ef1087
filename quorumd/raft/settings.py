"""Settings of the quorum, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """All times in milliseconds."""

    fetch_timeout_ms: int = 2000
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 1000
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 * 1024 * 1024
    snapshot_max_bytes: int = 1024 * 1024
    """Maximum bytes per FetchSnapshot request."""
    high_watermark_linger_ms: int = 5
    """How long a delayed fetch waits for records after the high watermark advanced."""
    observer_session_ms: int = 300_000
    """Observers that have not fetched for this long are dropped from DescribeQuorum."""
    epoch_tokens: bool = True
    """Whether voters' fetches must return the token of the epoch; False in nodes that act like stock controllers."""
    unauthenticated_stock_voters: bool = True
    """Whether fetches in the name of a voter that is a stock controller count on unauthenticated connections."""
