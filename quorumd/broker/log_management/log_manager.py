"""Opens, deletes and closes the logs of a broker, one operation at a time, without blocking the event thread."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.offset_checkpoint import LOG_START_OFFSETS, RECOVERY_POINTS
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log_management.directories import LogDirectories, LogDirectory
from quorumd.broker.log_management.log_folders import (
    Folder,
    OpenRequest,
    close_files,
    delete_log,
    list_folders,
    open_log,
    remove_deleted,
    remove_folder,
    rename_for_deletion,
)
from quorumd.controller.partition import PartitionId
from quorumd.errors import DiskFull, StorageError
from quorumd.ids import KafkaUuid
from quorumd.log.atomic_file import is_disk_full
from quorumd.ports import Clock, Disk, Entropy

logger = logging.getLogger("quorumd.broker")

FolderKey = tuple[str, int]
"""(topic, partition)"""
Opened = Callable[[LogDirectory, "PartitionLog | BaseException"], None]


def is_disk_failure(fault: BaseException) -> bool:
    """Whether an error makes the log directory unusable; a full disk does not, and no other error should occur."""
    if isinstance(fault, OSError):
        return not is_disk_full(fault)
    return isinstance(fault, StorageError) and not isinstance(fault, DiskFull)


class LogManager:
    """`is_busy` folders are being opened or deleted; `on_free` is called with each one that is free again.

    `on_failure(directory, reason)`: a log directory has failed.
    """

    def __init__(
        self,
        clock: Clock,
        disk: Disk,
        entropy: Entropy,
        directories: LogDirectories,
        on_free: Callable[[FolderKey], None],
        on_failure: Callable[[LogDirectory, str], None],
    ) -> None:
        self.directories = directories
        self._clock = clock
        self._disk = disk
        self._entropy = entropy
        self._on_free = on_free
        self._on_failure = on_failure
        self._folders: dict[FolderKey, LogDirectory] = {}
        """The directory of every known folder."""
        self._busy: dict[FolderKey, None] = {}
        self._queue: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._is_running = False

    def is_busy(self, key: FolderKey) -> bool:
        """Whether the folder is being opened or deleted."""
        return key in self._busy

    def directory_of(self, key: FolderKey) -> LogDirectory | None:
        """Return the directory of a folder, None if there is no folder."""
        return self._folders.get(key)

    # Start

    def scan(self, expected: Callable[[Folder], bool], done: Callable[[], None]) -> None:
        """Find the folders of all online directories; delete those that are not `expected`, and leftovers."""
        for directory in self.directories.online:
            self._scan(directory, expected)
        self.run(lambda: None, lambda _: done())

    def _scan(self, directory: LogDirectory, expected: Callable[[Folder], bool]) -> None:
        def scan() -> list[Folder]:
            remove_deleted(self._disk, directory.path)
            return list_folders(self._disk, directory.path)

        def scanned(outcome: list[Folder] | BaseException) -> None:
            if isinstance(outcome, BaseException):
                self._on_failure(directory, f"its folders cannot be listed: {outcome}")
                return
            for folder in outcome:
                key = (folder.topic, folder.number)
                known = self._folders.get(key)
                if folder.topic_id is not None and not expected(folder):
                    self._delete_stray(directory, folder)
                elif known is not None:
                    logger.error("%s-%d is in %s and in %s", *key, known.path, directory.path)
                else:
                    self._folders[key] = directory

        self.run(scan, scanned)

    def _delete_stray(self, directory: LogDirectory, folder: Folder) -> None:
        path = f"{directory.path}/{folder.topic}-{folder.number}"
        logger.warning("%s no longer belongs to this broker and is deleted", path)
        marker = self._entropy.uuid()

        def delete() -> None:
            remove_folder(self._disk, rename_for_deletion(self._disk, path, marker))

        self.run(delete, lambda outcome: self.check(directory, f"{path} cannot be deleted", outcome))

    # Logs

    def open(
        self,
        id: PartitionId,
        topic: str,
        assigned: KafkaUuid,
        settings: PartitionLogSettings,
        opened: Opened,
    ) -> bool:
        """Open or create the log of a partition; `assigned` is its directory in the metadata.

        Returns False if its directory is offline. The folder must not be busy.
        """
        key = (topic, id.number)
        directory = self._folders.get(key)
        is_new = directory is None
        if directory is None:
            counts: dict[str, int] = {}
            for used in self._folders.values():
                counts[used.path] = counts.get(used.path, 0) + 1
            directory = self.directories.choose(assigned, counts)
        if directory is None or not directory.is_online:
            return False
        self._folders[key] = directory
        self._busy[key] = None
        saved = {} if is_new else directory.saved
        request = OpenRequest(
            directory.path,
            topic,
            id.number,
            id.topic_id,
            settings,
            saved.get(RECOVERY_POINTS, {}).pop(key, 0),
            saved.get(LOG_START_OFFSETS, {}).pop(key, 0),
            directory.was_clean and not is_new,
            self._entropy.uuid(),
        )

        def done(outcome: PartitionLog | BaseException) -> None:
            del self._busy[key]
            if isinstance(outcome, BaseException):
                self.check(directory, f"{request.folder} cannot be opened", outcome)
            opened(directory, outcome)

        self.run(lambda: open_log(self._disk, request), done)
        return True

    def delete(self, key: FolderKey, log: PartitionLog, delay_ms: float) -> None:
        """Rename the folder of a log, and remove its files after `delay_ms`. The log must no longer be in use."""
        directory = self._folders[key]
        self._busy[key] = None
        marker = self._entropy.uuid()

        def renamed(outcome: str | BaseException) -> None:
            del self._busy[key]
            self._folders.pop(key, None)
            if isinstance(outcome, BaseException):
                self.check(directory, f"{log.directory} cannot be renamed", outcome)
            else:
                self._clock.call_at(
                    self._clock.now_ms() + delay_ms, lambda: self._remove_files(directory, outcome)
                )
            self._on_free(key)

        self.run(lambda: delete_log(self._disk, log, marker), renamed)

    def _remove_files(self, directory: LogDirectory, path: str) -> None:
        if directory.is_online:
            self.run(
                lambda: remove_folder(self._disk, path),
                lambda outcome: self.check(directory, f"{path} cannot be removed", outcome),
            )

    def abandon(self, log: PartitionLog) -> None:
        """Close the files of a log whose directory has failed."""

        def ignore(outcome: object) -> None:
            if isinstance(outcome, BaseException):
                logger.info("%s: %s", log.directory, outcome)

        self.run(lambda: close_files(log), ignore)

    def check(self, directory: LogDirectory, what: str, outcome: object) -> None:
        """Handle the outcome of an operation: report an error, which may fail the directory."""
        if isinstance(outcome, BaseException):
            if is_disk_failure(outcome):
                self._on_failure(directory, f"{what}: {outcome}")
            else:
                logger.error("%s: %s", what, outcome)

    def run(self, operation: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Run a blocking operation after those before it; other users of the disk get their turn in between."""
        self._queue.append((operation, done))
        if not self._is_running:
            self._next()

    def _next(self) -> None:
        operation, done = self._queue.popleft()
        self._is_running = True

        def completed(outcome: Any) -> None:
            self._is_running = False
            try:
                done(outcome)
            finally:
                if self._queue and not self._is_running:
                    self._next()

        self._disk.submit(operation, completed)
