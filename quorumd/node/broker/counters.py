"""Counters of a broker for its metrics."""

from __future__ import annotations

from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.replication.replica import Transition
from quorumd.controller.partition import PartitionId


class BrokerCounters:
    """A `PartitionListener` that counts the records that leaders append."""

    def __init__(self) -> None:
        self.messages_in = 0
        self._ends: dict[PartitionId, int] = {}
        """The end offset up to which the records of each led partition are counted."""

    def appended(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""
        end = hosted.log.end_offset
        self.messages_in += end - self._ends.get(hosted.id, end)
        self._ends[hosted.id] = end

    def high_watermark_advanced(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def changed(self, hosted: HostedPartition, transition: Transition) -> None:
        """See `PartitionListener`."""
        if transition is Transition.LEADS:
            self._ends[hosted.id] = hosted.log.end_offset
        elif transition is not Transition.STILL_LEADS:
            self._ends.pop(hosted.id, None)
