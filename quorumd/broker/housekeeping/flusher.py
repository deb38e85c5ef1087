"""Background flushes of logs: after a segment is sealed, and by `flush.messages` and `flush.ms`."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.partitions.partitions import Partitions
from quorumd.controller.partition import PartitionId
from quorumd.ports import Clock

_NEVER_MS = PartitionLogSettings().flush_ms
_NEVER_MESSAGES = PartitionLogSettings().flush_messages


class Flusher:
    """Flushes logs for which a flush is due: after an append if `flush.messages` is set, otherwise in `check`."""

    def __init__(self, clock: Clock, partitions: Partitions) -> None:
        self._clock = clock
        self._partitions = partitions
        self._unflushed: dict[PartitionId, HostedPartition] = {}
        self._flushing: dict[PartitionId, HostedPartition] = {}
        self._waiting: dict[PartitionId, list[tuple[int, Callable[[bool], None]]]] = {}
        """(end offset, callback) pairs: callbacks that wait until the log is flushed up to the offset."""

    def handle_append(self, hosted: HostedPartition) -> None:
        """Record an append to a log, and flush the log if `flush.messages` requires it."""
        self._unflushed[hosted.id] = hosted
        if hosted.log.settings.flush_messages != _NEVER_MESSAGES:
            self._flush_if_needed(hosted)

    def forget(self, hosted: HostedPartition) -> None:
        """Forget a partition that is no longer hosted."""
        self._unflushed.pop(hosted.id, None)
        for _, callback in self._waiting.pop(hosted.id, []):
            callback(False)

    def is_required(self, hosted: HostedPartition) -> bool:
        """Whether the log has at least `flush.messages` unflushed records; see `FlushGate`."""
        settings = hosted.log.settings
        if settings.flush_messages == _NEVER_MESSAGES:
            return False
        return hosted.log.end_offset - hosted.log.recovery_point >= settings.flush_messages

    def after_flush(self, hosted: HostedPartition, end_offset: int, callback: Callable[[bool], None]) -> None:
        """See `FlushGate`."""
        self._waiting.setdefault(hosted.id, []).append((end_offset, callback))
        self._flush_if_needed(hosted)

    def _complete(self, hosted: HostedPartition) -> None:
        waiting = self._waiting.pop(hosted.id, [])
        recovery_point = hosted.log.recovery_point
        remaining = [entry for entry in waiting if entry[0] > recovery_point]
        if remaining:
            self._waiting[hosted.id] = remaining
        for end_offset, callback in waiting:
            if end_offset <= recovery_point:
                callback(True)

    def check(self) -> None:
        """Flush the logs for which a flush is due."""
        for hosted in list(self._unflushed.values()):
            self._flush_if_needed(hosted)

    def _flush_if_needed(self, hosted: HostedPartition) -> None:
        if hosted.id in self._flushing or not hosted.is_open:
            return
        log = hosted.log
        if hosted.id not in self._waiting and not log.needs_flush(self._clock.now_ms()):
            if log.settings.flush_ms == _NEVER_MS:
                self._unflushed.pop(hosted.id, None)
            return
        self._flushing[hosted.id] = hosted
        previous_point = log.recovery_point
        flush = log.begin_flush()

        def flushed(outcome: object) -> None:
            del self._flushing[hosted.id]
            if not hosted.is_open:
                return
            if hosted.log is not log:
                # The replica has moved to another directory.
                self._flush_if_needed(hosted)
                return
            if isinstance(outcome, BaseException):
                self._partitions.handle_log_error(hosted, outcome)
                return
            self._complete(hosted)
            if log.recovery_point == previous_point:
                # The disk is full: try again at the next check.
                self._unflushed[hosted.id] = hosted
            elif hosted.id in self._unflushed or hosted.id in self._waiting:
                self._flush_if_needed(hosted)

        self._partitions.logs.operations.run(flush, flushed)
