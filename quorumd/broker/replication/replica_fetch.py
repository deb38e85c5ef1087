"""One partition of a Fetch between replicas, and of its response."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch


class ReplicaFetch(NamedTuple):
    """The request of a follower.

    `broker_epoch`: of the follower's incarnation, -1 from a broker that does not send it. `leader_epoch`: -1 if not
    given. `offset`: the follower's log end offset. `last_epoch`: that of its last record, -1 if not given.
    """

    replica_id: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    last_epoch: int = -1
    start_offset: int = -1


class FetchDecision(NamedTuple):
    """The response of a leader without its records: those from the fetch offset to `end_offset`.

    All offsets are from before the records are read. A response with `diverging` or an error has no records.
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
    """A partition in a response, as the follower receives it."""

    error: ErrorCode
    high_watermark: int = -1
    start_offset: int = -1
    records: bytes = b""
    diverging: OffsetAndEpoch | None = None
