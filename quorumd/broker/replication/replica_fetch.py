"""One partition of a Fetch between replicas, and of its response."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch


class ReplicaFetch(NamedTuple):
    """The request of a follower."""

    replica_id: int
    broker_epoch: int
    """The epoch of the follower's incarnation, -1 from a broker that does not send it."""
    leader_epoch: int
    """The leader epoch in the follower's metadata, -1 if not given."""
    offset: int
    """The follower's log end offset."""
    last_epoch: int = -1
    """The last leader epoch in the follower's log, -1 if not given."""
    start_offset: int = -1
    """The follower's log start offset."""


class FetchDecision(NamedTuple):
    """The response of a leader, before the records from the fetch offset to `end_offset` are read.

    A response with `diverging` or an error has no records.
    """

    error: ErrorCode
    high_watermark: int = -1
    start_offset: int = -1
    end_offset: int = -1
    diverging: OffsetAndEpoch | None = None

    @property
    def has_records(self) -> bool:
        """Whether records may be read for the response."""
        return self.error is ErrorCode.NONE and self.diverging is None


class FetchedPartition(NamedTuple):
    """One partition of the response that a follower receives."""

    error: ErrorCode
    high_watermark: int = -1
    start_offset: int = -1
    records: bytes = b""
    diverging: OffsetAndEpoch | None = None
