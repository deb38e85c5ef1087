"""The fetchers of a broker, one per leader."""

from __future__ import annotations

from quorumd.broker.channels.broker_client import BrokerClient
from quorumd.broker.fetching.fetcher import FetcherContext, LeaderFetcher
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.replication.replica import Transition
from quorumd.broker.settings.broker_settings import ReplicaFetchSettings
from quorumd.controller.partition import PartitionId
from quorumd.ports import Clock


class ReplicaFetchers:
    """A `PartitionListener` that makes followers fetch from the leader in the metadata."""

    def __init__(
        self,
        broker_id: int,
        settings: ReplicaFetchSettings,
        clock: Clock,
        client: BrokerClient,
        context: FetcherContext,
    ) -> None:
        self._broker_id = broker_id
        self._settings = settings
        self._clock = clock
        self._client = client
        self._context = context
        self._fetchers: dict[int, LeaderFetcher] = {}
        self.leaders: dict[PartitionId, int] = {}
        """The leader from which each partition is fetched."""

    def appended(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def high_watermark_advanced(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def changed(self, hosted: HostedPartition, transition: Transition) -> None:
        """See `PartitionListener`."""
        if transition is Transition.STILL_LEADS:
            return
        known = self.leaders.pop(hosted.id, None)
        if known is not None:
            self._fetchers[known].remove(hosted.id)
        metadata = hosted.replica.metadata
        if transition is Transition.FOLLOWS and metadata is not None:
            self.leaders[hosted.id] = metadata.leader
            self._fetcher(metadata.leader).add(hosted)

    def _fetcher(self, leader_id: int) -> LeaderFetcher:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = LeaderFetcher(
                leader_id, self._broker_id, self._settings, self._clock, self._client, self._context
            )
        return fetcher

    def stop(self) -> None:
        """Stop fetching."""
        for fetcher in self._fetchers.values():
            fetcher.stop()
