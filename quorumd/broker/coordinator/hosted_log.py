"""The hosted partitions of an internal topic, as the logs of a coordinator's shards."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from quorumd.broker.coordinator.shards import Shards
from quorumd.broker.log.validation import Origin
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.partitions.partitions import AppendResult, Partitions
from quorumd.broker.replication.replica import Transition
from quorumd.errors import ErrorCode
from quorumd.ports import Clock

_LEADER_ONLY = 1
"""acks=1: the shard itself waits for the high watermark."""


class HostedLog:
    """The `CoordinatorLog` of one hosted partition.

    With `flush.messages`, records count as committed only once they are flushed here; then `on_flushed` is called.
    """

    def __init__(
        self, partitions: Partitions, hosted: HostedPartition, on_flushed: Callable[[HostedPartition], None]
    ) -> None:
        self._partitions = partitions
        self._hosted = hosted
        self._on_flushed = on_flushed
        self._unflushed: deque[int] = deque()
        """The offset of each append that awaits its flush."""

    @property
    def partition(self) -> int:
        return self._hosted.id.number

    @property
    def leader_epoch(self) -> int:
        return self._hosted.replica.leader_epoch

    @property
    def start_offset(self) -> int:
        return self._hosted.log.start_offset

    @property
    def end_offset(self) -> int:
        return self._hosted.log.end_offset

    @property
    def high_watermark(self) -> int:
        high_watermark = self._hosted.replica.high_watermark
        return min(high_watermark, self._unflushed[0]) if self._unflushed else high_watermark

    def read(self, offset: int, max_bytes: int) -> bytes:
        """See `CoordinatorLog`."""
        log = self._hosted.log
        return log.read(offset, max_bytes, log.end_offset)

    def append(self, records: bytes) -> ErrorCode:
        """See `CoordinatorLog`."""
        offset, results = self.end_offset, list[AppendResult]()
        is_pending = False

        def done(result: AppendResult) -> None:
            results.append(result)
            if is_pending:
                self._flushed()

        self._partitions.append(self._hosted, records, _LEADER_ONLY, 0.0, done, origin=Origin.COORDINATOR)
        if results:
            return results[0].error
        is_pending = True
        self._unflushed.append(offset)
        return ErrorCode.NONE

    def _flushed(self) -> None:
        # Flushes complete in the order of the appends; one that fails takes the directory offline.
        self._unflushed.popleft()
        self._on_flushed(self._hosted)


class CoordinatorPartitions:
    """A `PartitionListener` that loads the shards of one topic when this broker leads them, and unloads them."""

    def __init__(self, partitions: Partitions, clock: Clock, shards: Shards[Any]) -> None:
        self._partitions = partitions
        self._clock = clock
        self._shards = shards
        self._advanced: dict[int, None] = {}
        partitions.add_listener(self)

    def appended(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def high_watermark_advanced(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""
        if hosted.topic == self._shards.topic:
            self._note_commit(hosted)

    def _note_commit(self, hosted: HostedPartition) -> None:
        """Complete writes after this callback has returned, because their completion may change the partition."""
        if not self._advanced:
            self._clock.call_soon(self._on_advanced)
        self._advanced[hosted.id.number] = None

    def _on_advanced(self) -> None:
        advanced, self._advanced = self._advanced, {}
        for partition in advanced:
            self._shards.high_watermark_advanced(partition)

    def changed(self, hosted: HostedPartition, transition: Transition) -> None:
        """See `PartitionListener`. Loads or unloads the partition."""
        if hosted.topic != self._shards.topic:
            return
        if transition is Transition.LEADS:
            self._clock.call_soon(lambda: self._elect(hosted))
        elif transition is not Transition.STILL_LEADS and transition is not Transition.NONE:
            self._shards.resigned(hosted.id.number)

    def _elect(self, hosted: HostedPartition) -> None:
        if hosted.is_open and hosted.is_leader:
            self._shards.elected(HostedLog(self._partitions, hosted, self._note_commit))
