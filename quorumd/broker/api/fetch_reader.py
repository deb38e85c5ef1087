"""Reads one partition for a fetch of a consumer or a follower."""

from __future__ import annotations

from typing import Final, NamedTuple

from quorumd.broker.api.context import BrokerApiContext
from quorumd.broker.log.data_segment import StoredBatches
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.replication.replica import Replica
from quorumd.broker.replication.replica_fetch import FetchDecision, ReplicaFetch
from quorumd.broker.replication.replica_log import NO_EPOCH, divergence
from quorumd.errors import ErrorCode, RequestError, StorageError
from quorumd.ids import KafkaUuid, OffsetAndEpoch
from quorumd.log.batch_extents import end_offset_of
from quorumd.protocol.messages.fetch_request import FetchPartition
from quorumd.protocol.messages.fetch_response import AbortedTransaction, EpochEndOffset, PartitionData

CONSUMER: Final = -1
"""The replica id of consumers."""
READ_COMMITTED: Final = 1
"""The isolation level of consumers that read only committed records."""
NO_REPLICA: Final = -1


class Fetcher(NamedTuple):
    """The sender of a fetch."""

    replica_id: int = CONSUMER
    """The broker id of a follower, negative for a consumer."""
    broker_epoch: int = -1
    reads_committed: bool = False
    rack: str = ""
    may_read_followers: bool = False
    """Whether the consumer supports fetches from followers (KIP-392)."""

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0


class ReadPartition(PartitionData):
    """A partition in a Fetch response."""

    __slots__ = ()

    records: bytes | StoredBatches | None  # type: ignore[assignment]  # only sent

    @property
    def has_diverged(self) -> bool:
        """Whether the fetcher has to truncate its log."""
        return self.diverging_epoch.epoch != NO_EPOCH

    @property
    def must_be_sent(self) -> bool:
        """Whether the response must not wait for records."""
        return self.error_code != 0 or self.has_diverged or self.preferred_read_replica != NO_REPLICA


class PartitionReader:
    """Finds records, and reads them unless they are many, without decoding them."""

    def __init__(self, context: BrokerApiContext) -> None:
        self._context = context

    def read(
        self,
        fetcher: Fetcher,
        topic: KafkaUuid | str,
        requested: FetchPartition,
        max_bytes: int,
        *,
        at_least_one: bool,
        is_delayed: bool,
    ) -> ReadPartition:
        """Read up to `max_bytes` from the requested offset; if `at_least_one`, the first batch even if it is larger.

        `is_delayed` means that the fetch has waited: its first read has already recorded the follower's progress.
        """
        try:
            hosted = self._context.partitions.find(topic, requested.partition)
            decision = self._decide(hosted, fetcher, requested, is_delayed)
        except RequestError as unavailable:
            return failed_partition(requested, unavailable.error)
        if decision.error is not ErrorCode.NONE:
            return failed_partition(requested, decision.error)
        replica, log = hosted.replica, hosted.log
        stable = log.last_stable_offset(replica.high_watermark)
        # The follower's fetch may have advanced the high watermark; the response has the new value.
        result = ReadPartition(
            requested.partition,
            0,
            replica.high_watermark,
            stable,
            decision.start_offset,
            aborted_transactions=None,
        )
        if decision.diverging is not None:
            result.diverging_epoch = EpochEndOffset(decision.diverging.epoch, decision.diverging.offset)
            return result
        preferred = self._preferred_replica(hosted, fetcher, requested.fetch_offset)
        if preferred != NO_REPLICA:
            result.preferred_read_replica = preferred
            return result
        end = min(decision.end_offset, stable) if fetcher.reads_committed else decision.end_offset
        try:
            if max_bytes > 0 or at_least_one:
                result.records = log.find(requested.fetch_offset, max_bytes, end, at_least_one)
            if fetcher.reads_committed:
                result.aborted_transactions = _aborted(hosted, requested.fetch_offset, result.records or b"")
        except StorageError as fault:
            return failed_partition(requested, self._context.partitions.handle_log_error(hosted, fault))
        return result

    def _decide(
        self, hosted: HostedPartition, fetcher: Fetcher, requested: FetchPartition, is_delayed: bool
    ) -> FetchDecision:
        if not fetcher.is_follower:
            return _consumer_decision(hosted.replica, fetcher, requested)
        fetch = replica_fetch(fetcher, requested)
        return hosted.replica.serve_fetch(fetch, self._context.clock.now_ms(), is_delayed=is_delayed)

    def _preferred_replica(self, hosted: HostedPartition, fetcher: Fetcher, offset: int) -> int:
        """Return the in-sync follower in the consumer's rack with the highest log end offset.

        NO_REPLICA if there is none, or if this leader is in the same rack.
        """
        context, leadership = self._context, hosted.replica.leadership
        may_redirect = fetcher.may_read_followers and fetcher.rack and not fetcher.is_follower
        if leadership is None or not may_redirect or not context.settings.api.is_rack_aware:
            return NO_REPLICA
        if context.settings.rack == fetcher.rack:
            return NO_REPLICA
        found = [
            (state.end_offset, -follower)
            for follower, state in leadership.followers.items()
            if follower in hosted.replica.isr
            and state.start_offset <= offset <= state.end_offset
            and (broker := context.unfenced(follower)) is not None
            and broker.rack == fetcher.rack
        ]
        return -max(found)[1] if found else NO_REPLICA


def replica_fetch(fetcher: Fetcher, requested: FetchPartition) -> ReplicaFetch:
    """Return one partition of a follower's Fetch."""
    return ReplicaFetch(
        fetcher.replica_id,
        fetcher.broker_epoch,
        requested.current_leader_epoch,
        requested.fetch_offset,
        requested.last_fetched_epoch,
        requested.log_start_offset,
    )


def _consumer_decision(
    replica: Replica[PartitionLog], fetcher: Fetcher, requested: FetchPartition
) -> FetchDecision:
    """Decide on a consumer's fetch: it may read below the high watermark of the leader or, if the client supports it,
    of a follower (KIP-392)."""
    error = replica.check_leader(requested.current_leader_epoch)
    if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and fetcher.may_read_followers:
        error = ErrorCode.NONE
    log, offset = replica.log, requested.fetch_offset
    diverging: OffsetAndEpoch | None = None
    if error is ErrorCode.NONE and requested.last_fetched_epoch != NO_EPOCH:
        if log.end_of_epoch(requested.last_fetched_epoch) is None or offset < log.start_offset:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            diverging = divergence(log, requested.last_fetched_epoch, offset)
    if error is ErrorCode.NONE and diverging is None and not log.start_offset <= offset <= log.end_offset:
        error = ErrorCode.OFFSET_OUT_OF_RANGE
    return FetchDecision(error, replica.high_watermark, log.start_offset, replica.high_watermark, diverging)


def failed_partition(requested: FetchPartition, error: ErrorCode) -> ReadPartition:
    return ReadPartition(requested.partition, int(error), -1, aborted_transactions=None)


def _aborted(
    hosted: HostedPartition, offset: int, records: bytes | StoredBatches
) -> list[AbortedTransaction]:
    """Return the aborted transactions in these records, for consumers that read only committed records."""
    if not records:
        return []
    end = records.end_offset if isinstance(records, StoredBatches) else end_offset_of(records)
    found = hosted.log.aborted_transactions(offset, end)
    return [AbortedTransaction(each.producer_id, each.first_offset) for each in found]
