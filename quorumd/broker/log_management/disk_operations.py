"""Runs blocking operations on log directories one at a time, and reports directories that fail."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log_management.directories import LogDirectory
from quorumd.broker.log_management.partition_directory import (
    close_files,
    remove_partition_directory,
    rename_for_deletion,
)
from quorumd.errors import DiskFull, StorageError
from quorumd.log.atomic_file import is_disk_full
from quorumd.ports import Disk, Entropy

T = TypeVar("T")
logger = logging.getLogger("quorumd.broker")


def is_disk_failure(fault: BaseException) -> bool:
    """Whether an error takes the log directory offline; a full disk does not."""
    if isinstance(fault, OSError):
        return not is_disk_full(fault)
    return isinstance(fault, StorageError) and not isinstance(fault, DiskFull)


class DiskOperations:
    """Runs operations without blocking the event thread.

    `on_failure(directory, reason)` is called when a log directory fails.
    """

    def __init__(self, disk: Disk, entropy: Entropy, on_failure: Callable[[LogDirectory, str], None]) -> None:
        self.on_failure = on_failure
        self._disk = disk
        self._entropy = entropy
        self._queue: deque[Callable[[], None]] = deque()
        self._is_running = False

    def run(self, operation: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Queue a blocking operation. Operations are submitted one at a time, so that other users of the disk run in
        between."""
        self._queue.append(lambda: self._submit(operation, done))
        if not self._is_running:
            self._next()

    def _next(self) -> None:
        submit = self._queue.popleft()
        self._is_running = True
        submit()

    def _submit(self, operation: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        def completed(outcome: T | BaseException) -> None:
            self._is_running = False
            try:
                done(outcome)
            finally:
                if self._queue and not self._is_running:
                    self._next()

        self._disk.submit(operation, completed)

    def handle_outcome(self, directory: LogDirectory, what: str, outcome: object) -> None:
        """Handle the outcome of an operation: log an error, or fail the directory on a disk failure."""
        if isinstance(outcome, BaseException):
            if is_disk_failure(outcome):
                self.on_failure(directory, f"{what}: {outcome}")
            else:
                logger.error("%s: %s", what, outcome)

    def discard(
        self,
        directory: LogDirectory,
        path: str,
        log: PartitionLog | None = None,
        done: Callable[[object], None] = lambda outcome: None,
    ) -> None:
        """Remove the partition directory `path`, which no current log uses, and close its `log`, if given.

        `done` is called with None or the error.
        """
        unique_id = self._entropy.uuid()

        def discard() -> None:
            if log is not None:
                close_files(log)
            remove_partition_directory(self._disk, rename_for_deletion(self._disk, path, unique_id))

        def discarded(outcome: object) -> None:
            self.handle_outcome(directory, f"{path} cannot be removed", outcome)
            done(outcome)

        self.run(discard, discarded)
