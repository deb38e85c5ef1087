"""Callbacks on changes of hosted partitions, for purgatories, fetchers and coordinators."""

from __future__ import annotations

from typing import Protocol

from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.replication.replica import Transition


class PartitionListener(Protocol):
    """Callbacks on changes of hosted partitions. They run during the change, and must not change the partition."""

    def appended(self, hosted: HostedPartition) -> None:
        """The log of a leader has grown."""

    def high_watermark_advanced(self, hosted: HostedPartition) -> None:
        """The high watermark of a leader or a follower has advanced."""

    def changed(self, hosted: HostedPartition, transition: Transition) -> None:
        """The metadata of the partition has changed.

        The transition is REMOVED also if the log directory has failed or the broker stops: the partition is no longer
        hosted, and its log must not be used.
        """
