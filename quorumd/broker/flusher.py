"""Flushes logs in the background: sealed segments, and what `flush.messages` and `flush.ms` require."""

from __future__ import annotations

from quorumd.broker.hosted_partition import HostedPartition
from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.partitions import Partitions
from quorumd.controller.partition import PartitionId
from quorumd.ports import Clock

_NEVER_MS = PartitionLogSettings().flush_ms
_NEVER_MESSAGES = PartitionLogSettings().flush_messages


class Flusher:
    """Examines logs that have grown: at once if they have `flush.messages`, else at `check`."""

    def __init__(self, clock: Clock, partitions: Partitions) -> None:
        self._clock = clock
        self._partitions = partitions
        self._grown: dict[PartitionId, HostedPartition] = {}
        self._flushing: dict[PartitionId, HostedPartition] = {}

    def grown(self, hosted: HostedPartition) -> None:
        """A log has grown."""
        self._grown[hosted.id] = hosted
        if hosted.log.settings.flush_messages != _NEVER_MESSAGES:
            self._flush_if_needed(hosted)

    def forget(self, hosted: HostedPartition) -> None:
        """A partition is not hosted any more."""
        self._grown.pop(hosted.id, None)

    def check(self) -> None:
        """Flush the logs that need it."""
        for hosted in list(self._grown.values()):
            self._flush_if_needed(hosted)

    def _flush_if_needed(self, hosted: HostedPartition) -> None:
        if hosted.id in self._flushing or not hosted.is_open:
            return
        log = hosted.log
        if not log.needs_flush(self._clock.now_ms()):
            if log.settings.flush_ms == _NEVER_MS:
                self._grown.pop(hosted.id, None)
            return
        self._flushing[hosted.id] = hosted
        flush = log.begin_flush()

        def flushed(outcome: object) -> None:
            del self._flushing[hosted.id]
            if not hosted.is_open:
                return
            if isinstance(outcome, BaseException):
                self._partitions.handle_log_error(hosted, outcome)
            elif hosted.id in self._grown:
                self._flush_if_needed(hosted)

        self._partitions.logs.run(flush, flushed)
