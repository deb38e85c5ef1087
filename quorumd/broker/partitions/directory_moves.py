"""Moves of replicas between the log directories of this broker (KIP-113), requested by AlterReplicaLogDirs.

    copying      batches of the current log are copied to the future log
    assigned     the future log has caught up: its directory is reported to the controller (KIP-858)
    accepted     the controller has recorded the directory: once the future log has caught up again, it replaces the
                 current log

The controller records the directory before the log is replaced. Otherwise the metadata could name a directory that
does not have the log of the replica; if the other directory then failed, an empty log would be created.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log_management.directories import LogDirectory
from quorumd.broker.log_management.disk_operations import is_disk_failure
from quorumd.broker.log_management.log_manager import LogManager
from quorumd.broker.partitions.hosted_partition import Completion, FutureLog, HostedPartition
from quorumd.broker.partitions.partitions import Partitions
from quorumd.broker.replication.future_replica import align, is_caught_up
from quorumd.broker.replication.replica import Transition
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode, RequestError, StorageError
from quorumd.ids import KafkaUuid
from quorumd.ports import Clock

logger = logging.getLogger("quorumd.broker")

COPY_BYTES: Final = 256 * 1024
"""The number of bytes to copy per iteration of the event loop."""
FULL_DISK_RETRY_MS: Final = 1_000.0
_DEFAULTS: Final = PartitionLogSettings()


class DirectoryMoves:
    """A `PartitionListener` that moves replicas, and resumes the moves that a restart interrupted.

    `max_bytes_per_s()` returns the throttle. `report(hosted)` reports the assigned directory of a replica to the
    controller, and returns False if that needs no report. `on_moved(hosted, previous)` is called after the log was
    replaced; `previous` is its previous directory.
    """

    def __init__(
        self,
        clock: Clock,
        partitions: Partitions,
        max_bytes_per_s: Callable[[], float],
        report: Callable[[HostedPartition], bool],
        on_moved: Callable[[HostedPartition, LogDirectory], None],
    ) -> None:
        self._clock = clock
        self._partitions = partitions
        self._logs: LogManager = partitions.logs
        self._max_bytes_per_s = max_bytes_per_s
        self._report = report
        self._on_moved = on_moved
        self._removals: dict[PartitionId, Completion] = {}
        """The removal of the future log of a cancelled move, by replica."""

    # Requests

    def alter(self, topic: str, number: int, path: str, done: Callable[[ErrorCode], None]) -> None:
        """Move a replica to the log directory `path`, or create it there if this broker does not have it yet.

        `done` is called with an error, or with NONE once a restart would resume the move: the partition directory of
        the future log is durable, and the directory of a cancelled move is durably removed.
        """

        def cancelled(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self.alter(topic, number, path, done)
            else:
                done(error)

        error = self._alter(topic, number, path, done, cancelled)
        if error is not None:
            done(error)

    def _alter(
        self,
        topic: str,
        number: int,
        path: str,
        created: Callable[[ErrorCode], None],
        cancelled: Callable[[ErrorCode], None],
    ) -> ErrorCode | None:
        """Return the outcome, or None if `created` or `cancelled` will be called with it."""
        key, directories = (topic, number), self._partitions.directories
        name = self._logs.new_future_name(key)
        if name is None:
            return ErrorCode.INVALID_TOPIC
        directory = directories.find(path)
        if directory is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if not directory.is_online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if directory.is_cordoned:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        try:
            hosted = self._partitions.find(topic, number)
        except RequestError as unavailable:
            if unavailable.error is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                return unavailable.error
            self._logs.preferred_directories[key] = directory
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if hosted.future is not None and hosted.future.directory is not directory:
            self._cancel(hosted, hosted.future)
        removal = self._removals.get(hosted.id)
        if removal is not None:
            removal.when_complete(cancelled)
            return None
        if hosted.future is not None:
            hosted.future.creation.when_complete(created)
            return None
        if hosted.directory is directory:
            return ErrorCode.NONE
        if len(directories.online) < len(directories.all):
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._begin(hosted, directory, name).creation.when_complete(created)
        return None

    # PartitionListener

    def appended(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def high_watermark_advanced(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def changed(self, hosted: HostedPartition, transition: Transition) -> None:
        """See `PartitionListener`."""
        if transition is Transition.REMOVED:
            if hosted.future is not None:
                self._drop(hosted, hosted.future)
            return
        found = self._logs.partition_directories.future.pop((hosted.topic, hosted.id.number), None)
        if found is None:
            return
        directory, name = found
        if hosted.directory is directory:
            self._logs.operations.discard(directory, f"{directory.path}/{name}")
        elif directory.is_online:
            self._begin(hosted, directory, name).creation.complete(ErrorCode.NONE)

    def directory_failed(self, directory: LogDirectory) -> None:
        """Cancel the moves to a failed directory."""
        for hosted in self._partitions.all():
            if hosted.future is not None and hosted.future.directory is directory:
                self._cancel(hosted, hosted.future)

    def accepted(self, hosted: HostedPartition, directory: KafkaUuid) -> None:
        """Continue a move after the controller has recorded the directory of the replica."""
        future = hosted.future
        is_awaited = future is not None and future.is_assigned and not future.is_accepted
        if future is not None and is_awaited and future.directory.id == directory:
            future.is_accepted = True
            self._schedule(hosted, future)

    # Steps of a move

    def _begin(self, hosted: HostedPartition, directory: LogDirectory, name: str) -> FutureLog:
        logger.info("%s: moving from %s to %s", hosted.name, hosted.directory.path, directory.path)
        future = hosted.future = FutureLog(directory)

        def opened(outcome: PartitionLog | BaseException) -> None:
            if isinstance(outcome, BaseException):
                if hosted.future is future:
                    self._cancel(hosted, future)
                future.creation.complete(ErrorCode.KAFKA_STORAGE_ERROR)
                future.removal.complete(ErrorCode.NONE)
                return
            future.log = outcome
            if hosted.future is future:
                self._schedule(hosted, future)
            else:
                self._release(hosted, future)
            future.creation.complete(ErrorCode.NONE)

        # Until the future log replaces the current log, only its sealed segments are flushed.
        settings = replace(
            hosted.log.settings, flush_messages=_DEFAULTS.flush_messages, flush_ms=_DEFAULTS.flush_ms
        )
        self._logs.open_future(hosted.id, hosted.topic, directory, name, settings, opened)
        return future

    def _cancel(self, hosted: HostedPartition, future: FutureLog) -> None:
        self._removals[hosted.id] = future.removal
        future.removal.when_complete(lambda error: self._forget_removal(hosted))
        self._drop(hosted, future)
        if future.is_assigned:
            self._report(hosted)

    def _forget_removal(self, hosted: HostedPartition) -> None:
        self._removals.pop(hosted.id, None)

    def _drop(self, hosted: HostedPartition, future: FutureLog) -> None:
        hosted.future = None
        if future.log is not None:
            self._release(hosted, future)

    def _release(self, hosted: HostedPartition, future: FutureLog) -> None:
        """Delete an unused future log, unless the replica is only offline: the next start resumes the move."""
        assert future.log is not None
        is_kept = not hosted.is_open and self._partitions.assigned_directory(hosted.id) is not None
        if is_kept or not future.directory.is_online:
            self._logs.abandon(future.log)
            future.removal.complete(ErrorCode.KAFKA_STORAGE_ERROR)
            return

        def discarded(outcome: object) -> None:
            has_failed = isinstance(outcome, BaseException)
            future.removal.complete(ErrorCode.KAFKA_STORAGE_ERROR if has_failed else ErrorCode.NONE)

        self._logs.operations.discard(future.directory, future.log.directory, future.log, discarded)

    def _schedule(self, hosted: HostedPartition, future: FutureLog, delay_ms: float = 0.0) -> None:
        def proceed() -> None:
            if hosted.future is future and future.log is not None:
                self._proceed(hosted, future, future.log)

        self._clock.call_at(self._clock.now_ms() + delay_ms, proceed)

    def _proceed(self, hosted: HostedPartition, future: FutureLog, log: PartitionLog) -> None:
        copied = self._copy(hosted, future, log)
        if copied is None:
            return
        if log.needs_flush(self._clock.now_ms()):
            self._flush(hosted, future, log, lambda: self._schedule(hosted, future))
        elif not is_caught_up(hosted.log, log):
            self._schedule(hosted, future, 1000.0 * copied / self._max_bytes_per_s())
        elif future.is_accepted:
            self._flush(hosted, future, log, lambda: self._replace(hosted, future, log))
        elif not future.is_assigned:
            future.is_assigned = True
            if not self._report(hosted):
                self.accepted(hosted, future.directory.id)

    def _copy(self, hosted: HostedPartition, future: FutureLog, log: PartitionLog) -> int | None:
        """Copy one chunk, and return its size; None after an error."""
        current = hosted.log
        try:
            records = b""
            if align(current, log):
                records = self._read(hosted, log.end_offset)
                if records:
                    log.append_as_follower(records, self._clock.now_ms())
        except _CurrentLogFailed as fault:
            self._partitions.handle_log_error(hosted, fault.cause)
            return None
        except (StorageError, ValueError) as fault:
            self._handle_error(hosted, future, fault)
            return None
        return len(records)

    def _read(self, hosted: HostedPartition, offset: int) -> bytes:
        try:
            return hosted.log.read(offset, COPY_BYTES, hosted.log.end_offset)
        except StorageError as fault:
            raise _CurrentLogFailed(fault) from fault

    def _handle_error(self, hosted: HostedPartition, future: FutureLog, fault: BaseException) -> None:
        """Handle an error of a future log: retry, unless its disk failed."""
        logger.error("%s: error of the future log in %s: %s", hosted.name, future.directory.path, fault)
        if is_disk_failure(fault):
            self._partitions.fail_directory(future.directory, f"{hosted.name}: {fault}")
        else:
            self._schedule(hosted, future, FULL_DISK_RETRY_MS)

    def _flush(
        self, hosted: HostedPartition, future: FutureLog, log: PartitionLog, done: Callable[[], None]
    ) -> None:
        flush = log.begin_flush()

        def flushed(outcome: object) -> None:
            if hosted.future is not future:
                return
            if isinstance(outcome, BaseException):
                self._handle_error(hosted, future, outcome)
            elif log.recovery_point < flush.end_offset:
                self._schedule(hosted, future, FULL_DISK_RETRY_MS)
            else:
                done()

        self._logs.operations.run(flush, flushed)

    def _replace(self, hosted: HostedPartition, future: FutureLog, log: PartitionLog) -> None:
        """Copy what was appended during the flush, and replace the current log by the future log.

        Of what is copied here the current log has flushed nothing, since the flushes of all logs run one after
        another. So with `flush.messages` its acknowledgement waits until the new log is flushed.
        """
        if self._copy(hosted, future, log) is None:
            return
        if not is_caught_up(hosted.log, log):
            self._schedule(hosted, future)
            return
        current, previous = hosted.log, hosted.directory
        if not self._logs.replace_with_future(
            (hosted.topic, hosted.id.number), current, log, future.directory
        ):
            self._schedule(hosted, future, FULL_DISK_RETRY_MS)
            return
        log.settings = current.settings
        hosted.replica.log, hosted.directory, hosted.future = log, future.directory, None
        logger.info("%s: moved from %s to %s", hosted.name, previous.path, hosted.directory.path)
        self._on_moved(hosted, previous)


class _CurrentLogFailed(Exception):
    """The current log cannot be read."""

    def __init__(self, cause: StorageError) -> None:
        self.cause = cause
