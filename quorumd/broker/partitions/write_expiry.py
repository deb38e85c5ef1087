"""Times out writes with acks=all that the high watermark does not reach in time."""

from __future__ import annotations

from math import inf

from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.controller.partition import PartitionId
from quorumd.ports import Clock, Timer


class WriteExpiry:
    """Times out pending writes, with one timer for all partitions at the earliest deadline."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[PartitionId, HostedPartition] = {}
        self._timer: Timer | None = None
        self._deadline_ms = inf

    def add(self, hosted: HostedPartition, deadline_ms: float) -> None:
        """Register a pending write of this leader."""
        self._waiting[hosted.id] = hosted
        if deadline_ms < self._deadline_ms:
            self.stop()
            self._deadline_ms = deadline_ms
            self._timer = self._clock.call_at(deadline_ms, self._expire)

    def remove(self, hosted: HostedPartition) -> None:
        """Forget a partition that is no longer hosted."""
        self._waiting.pop(hosted.id, None)

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._deadline_ms = None, inf

    def _expire(self) -> None:
        self._timer, self._deadline_ms = None, inf
        now_ms = self._clock.now_ms()
        for hosted in list(self._waiting.values()):
            hosted.replica.expire_produces(now_ms)
        for hosted in list(self._waiting.values()):
            leadership = hosted.replica.leadership
            if leadership is None or not leadership.pending:
                del self._waiting[hosted.id]
            else:
                self.add(hosted, min(write.deadline_ms for write in leadership.pending))
