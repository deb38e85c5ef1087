"""Opens, moves, deletes and closes the logs of a broker without blocking the event thread."""

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
    folder_name,
    future_name,
    list_folders,
    name_for_deletion,
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
    """Whether an error takes the log directory offline; a full disk does not."""
    if isinstance(fault, OSError):
        return not is_disk_full(fault)
    return isinstance(fault, StorageError) and not isinstance(fault, DiskFull)


class LogManager:
    """The logs of a broker, by partition. Runs one disk operation at a time.

    `on_free`: called when the folder of a partition is no longer busy, after a deletion; `on_failure(directory,
    reason)`: called when a log directory fails.
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
        """The directory of each partition folder."""
        self.future_folders: dict[FolderKey, tuple[LogDirectory, str]] = {}
        """Directory and name of the folders of future replicas found at startup."""
        self.preferred_directories: dict[FolderKey, LogDirectory] = {}
        """The directory that AlterReplicaLogDirs requested for the log of a partition before it was created."""
        self._busy: dict[FolderKey, None] = {}
        self._queue: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._is_running = False

    def is_busy(self, key: FolderKey) -> bool:
        """Whether the folder is being opened or deleted."""
        return key in self._busy

    def directory_of(self, key: FolderKey) -> LogDirectory | None:
        """Return the directory of a partition folder, None if there is none."""
        return self._folders.get(key)

    # Start

    def scan(self, assigned: Callable[[Folder], KafkaUuid | None], done: Callable[[], None]) -> None:
        """Scan all online directories: register their partition folders, delete stray ones, complete moves.

        `assigned(folder)`: the directory id of the replica in the metadata; None if this broker has no such replica.
        """
        for directory in self.directories.online:
            self._scan(directory, assigned)
        self.run(lambda: None, lambda _: self._complete_moves(done))

    def _scan(self, directory: LogDirectory, assigned: Callable[[Folder], KafkaUuid | None]) -> None:
        def scan() -> list[Folder]:
            remove_deleted(self._disk, directory.path)
            return list_folders(self._disk, directory.path)

        def scanned(outcome: list[Folder] | BaseException) -> None:
            if isinstance(outcome, BaseException):
                self._on_failure(directory, f"its logs cannot be listed: {outcome}")
                return
            for folder in outcome:
                self._register(directory, folder, assigned(folder))

        self.run(scan, scanned)

    def _register(self, directory: LogDirectory, folder: Folder, assigned: KafkaUuid | None) -> None:
        key = (folder.topic, folder.number)
        known = self._folders.get(key)
        if assigned is None and (folder.topic_id is not None or folder.is_future):
            self._delete_stray(directory, folder)
        elif folder.is_future:
            if key in self.future_folders:
                self._delete_stray(directory, folder)
            else:
                self.future_folders[key] = (directory, folder.name)
        elif known is None:
            self._folders[key] = directory
        elif directory.id == assigned:
            # A crash interrupted a move, or the directory was offline during one.
            self._delete_stray(known, folder)
            self._folders[key] = directory
        elif known.id == assigned:
            self._delete_stray(directory, folder)
        else:
            logger.error(
                "%s-%d is in both %s and %s; using the former: remove the obsolete directory",
                *key,
                known.path,
                directory.path,
            )

    def _complete_moves(self, done: Callable[[], None]) -> None:
        """Complete the moves whose current log is gone.

        Not while a directory is offline: it may have the current log, with more records than the future one.
        """
        if len(self.directories.online) == len(self.directories.all):
            for key in [key for key in self.future_folders if key not in self._folders]:
                self._complete_move(key)
        self.run(lambda: None, lambda _: done())

    def _complete_move(self, key: FolderKey) -> None:
        directory, name = self.future_folders[key]
        path = f"{directory.path}/{name}"

        def rename() -> None:
            self._disk.rename(path, f"{directory.path}/{folder_name(*key)}")
            self._disk.sync_directory(directory.path)

        def renamed(outcome: object) -> None:
            self.handle_outcome(directory, f"{path} cannot be renamed", outcome)
            if not isinstance(outcome, BaseException):
                del self.future_folders[key]
                self._folders[key] = directory

        self.run(rename, renamed)

    def _delete_stray(self, directory: LogDirectory, folder: Folder) -> None:
        path = f"{directory.path}/{folder.name}"
        logger.warning("%s is stray: no replica is assigned to it; deleting it", path)
        self.discard(directory, path)

    # Logs

    def open(
        self,
        id: PartitionId,
        topic: str,
        assigned: KafkaUuid,
        settings: PartitionLogSettings,
        opened: Opened,
    ) -> bool:
        """Open or create the log of a partition; `assigned` is its directory id in the metadata.

        Returns False if no log directory can be used for it. The folder must not be busy.
        """
        key = (topic, id.number)
        directory = self._folders.get(key)
        is_new = directory is None
        if directory is None and key not in self.future_folders:
            directory = self._choose(key, assigned)
        if directory is None or not directory.is_online:
            return False
        self._folders[key] = directory
        self._busy[key] = None
        saved = {} if is_new else directory.checkpoints
        request = OpenRequest(
            directory.path,
            folder_name(*key),
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
                self.handle_outcome(directory, f"{request.folder} cannot be opened", outcome)
            opened(directory, outcome)

        self.run(lambda: open_log(self._disk, request), done)
        return True

    def _choose(self, key: FolderKey, assigned: KafkaUuid) -> LogDirectory | None:
        preferred = self.preferred_directories.pop(key, None)
        if preferred is not None and preferred.is_online:
            return preferred
        counts: dict[str, int] = {}
        for used in self._folders.values():
            counts[used.path] = counts.get(used.path, 0) + 1
        return self.directories.choose(assigned, counts)

    def delete(self, key: FolderKey, log: PartitionLog, delay_ms: float) -> None:
        """Rename the folder of an unused log, and remove its files after `delay_ms`."""
        directory = self._folders[key]
        self._busy[key] = None
        unique_id = self._entropy.uuid()

        def renamed(outcome: str | BaseException) -> None:
            del self._busy[key]
            self._folders.pop(key, None)
            if isinstance(outcome, BaseException):
                self.handle_outcome(directory, f"{log.directory} cannot be renamed", outcome)
            else:
                self._clock.call_at(
                    self._clock.now_ms() + delay_ms, lambda: self._remove_files(directory, outcome)
                )
            self._on_free(key)

        self.run(lambda: delete_log(self._disk, log, unique_id), renamed)

    # Logs of future replicas

    def open_future(
        self,
        id: PartitionId,
        topic: str,
        directory: LogDirectory,
        name: str,
        settings: PartitionLogSettings,
        opened: Callable[[PartitionLog | BaseException], None],
    ) -> None:
        """Open or create the log of a future replica in the folder `name` of `directory`."""
        request = OpenRequest(
            directory.path,
            name,
            topic,
            id.number,
            id.topic_id,
            settings,
            recovery_point=0,
            start_offset=0,
            is_clean=False,
            unique_id=self._entropy.uuid(),
        )

        def done(outcome: PartitionLog | BaseException) -> None:
            self.handle_outcome(directory, f"{request.folder} cannot be opened", outcome)
            opened(outcome)

        self.run(lambda: open_log(self._disk, request), done)

    def new_future_name(self, key: FolderKey) -> str | None:
        """Return a unique folder name for a future replica; None if the topic name is too long for one."""
        return future_name(*key, self._entropy.uuid())

    def replace_with_future(
        self, key: FolderKey, current: PartitionLog, future: PartitionLog, target: LogDirectory
    ) -> bool:
        """Replace the current log by the log of the future replica, and remove the current log after a delay.

        Not while an operation is running. Returns False, with the current log in place, if a rename fails.
        """
        source, path = self._folders[key], f"{target.path}/{folder_name(*key)}"
        deleted_path = name_for_deletion(current.directory, self._entropy.uuid())
        if not self._rename(source, current.directory, deleted_path):
            return False
        if not self._rename(target, future.directory, path):
            self._rename(source, deleted_path, current.directory)
            return False
        future.relocate(path)
        self._folders[key] = target
        delay_ms = current.settings.file_delete_delay_ms

        def close() -> None:
            self._disk.sync_directory(source.path)
            close_files(current)

        def closed(outcome: object) -> None:
            self.handle_outcome(source, f"{deleted_path} cannot be removed", outcome)
            self._clock.call_at(
                self._clock.now_ms() + delay_ms, lambda: self._remove_files(source, deleted_path)
            )

        # Sync the target directory first: a crash then leaves both folders or the new one.
        self.run(
            lambda: self._disk.sync_directory(target.path),
            lambda outcome: self.handle_outcome(target, f"the rename to {path} cannot be synced", outcome),
        )
        self.run(close, closed)
        return True

    def _rename(self, directory: LogDirectory, path: str, renamed: str) -> bool:
        """Rename a folder without a sync; returns whether that succeeded."""
        try:
            self._disk.rename(path, renamed)
        except OSError as fault:
            self.handle_outcome(directory, f"{path} cannot be renamed", fault)
            return False
        return True

    def discard(self, directory: LogDirectory, path: str, log: PartitionLog | None = None) -> None:
        """Remove a folder of `directory` that no current log uses; closes the log in it if given."""
        unique_id = self._entropy.uuid()

        def discard() -> None:
            if log is not None:
                close_files(log)
            remove_folder(self._disk, rename_for_deletion(self._disk, path, unique_id))

        self.run(
            discard, lambda outcome: self.handle_outcome(directory, f"{path} cannot be removed", outcome)
        )

    def _remove_files(self, directory: LogDirectory, path: str) -> None:
        if directory.is_online:
            self.run(
                lambda: remove_folder(self._disk, path),
                lambda outcome: self.handle_outcome(directory, f"{path} cannot be removed", outcome),
            )

    def abandon(self, log: PartitionLog) -> None:
        """Close the files of a log that is no longer used, such as one in a failed directory."""

        def ignore(outcome: object) -> None:
            if isinstance(outcome, BaseException):
                logger.info("%s cannot be closed: %s", log.directory, outcome)

        self.run(lambda: close_files(log), ignore)

    def handle_outcome(self, directory: LogDirectory, what: str, outcome: object) -> None:
        """Handle the outcome of an operation: log an error, or fail the directory on a disk failure."""
        if isinstance(outcome, BaseException):
            if is_disk_failure(outcome):
                self._on_failure(directory, f"{what}: {outcome}")
            else:
                logger.error("%s: %s", what, outcome)

    def run(self, operation: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Queue a blocking operation. Submits one at a time, so that other users of the disk run in between."""
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
