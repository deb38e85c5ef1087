"""Callbacks about the replicas of a broker: for purgatories, fetchers and coordinators."""

from __future__ import annotations

from typing import Protocol

from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.replication.replica import Transition


class PartitionListener(Protocol):
    """Callbacks run during the change; a listener must not change the partition in them."""

    def appended(self, hosted: HostedPartition) -> None:
        """The log of a leader has grown."""

    def high_watermark_advanced(self, hosted: HostedPartition) -> None:
        """The high watermark of a leader or a follower has advanced."""

    def changed(self, hosted: HostedPartition, transition: Transition) -> None:
        """The metadata changed. REMOVED also if the log directory failed or the broker stops: the partition
        is no longer hosted, and its log is unusable."""
