"""The partition directories in the log directories of a broker, as the scan at startup finds them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from quorumd.broker.log_management.directories import LogDirectories, LogDirectory
from quorumd.broker.log_management.disk_operations import DiskOperations
from quorumd.broker.log_management.log_folders import (
    Folder,
    FolderKey,
    folder_name,
    list_folders,
    remove_deleted,
)
from quorumd.ids import KafkaUuid
from quorumd.ports import Disk

logger = logging.getLogger("quorumd.broker")


class PartitionFolders:
    """`current`: the log directory of each partition. `future`: the log directory and the name of each future replica
    that the scan found."""

    def __init__(self, disk: Disk, directories: LogDirectories, operations: DiskOperations) -> None:
        self.current: dict[FolderKey, LogDirectory] = {}
        self.future: dict[FolderKey, tuple[LogDirectory, str]] = {}
        self._disk = disk
        self._directories = directories
        self._operations = operations

    def scan(self, assigned: Callable[[Folder], KafkaUuid | None], done: Callable[[], None]) -> None:
        """Scan all online log directories: register their partition directories, delete stray ones, complete moves.

        `assigned(folder)`: the directory id of the replica in the metadata; None if this broker has no such replica.
        """
        for directory in self._directories.online:
            self._scan(directory, assigned)
        self._operations.run(lambda: None, lambda _: self._complete_moves(done))

    def _scan(self, directory: LogDirectory, assigned: Callable[[Folder], KafkaUuid | None]) -> None:
        def scan() -> list[Folder]:
            remove_deleted(self._disk, directory.path)
            return list_folders(self._disk, directory.path)

        def scanned(outcome: list[Folder] | BaseException) -> None:
            if isinstance(outcome, BaseException):
                self._operations.on_failure(directory, f"its logs cannot be listed: {outcome}")
                return
            for folder in outcome:
                self._register(directory, folder, assigned(folder))

        self._operations.run(scan, scanned)

    def _register(self, directory: LogDirectory, folder: Folder, assigned: KafkaUuid | None) -> None:
        key = (folder.topic, folder.number)
        known = self.current.get(key)
        if assigned is None and (folder.topic_id is not None or folder.is_future):
            self._delete_stray(directory, folder)
        elif folder.is_future:
            if key in self.future:
                self._delete_stray(directory, folder)
            else:
                self.future[key] = (directory, folder.name)
        elif known is None:
            self.current[key] = directory
        elif directory.id == assigned:
            # A crash interrupted a move, or the directory was offline during one.
            self._delete_stray(known, folder)
            self.current[key] = directory
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
        if len(self._directories.online) == len(self._directories.all):
            for key in [key for key in self.future if key not in self.current]:
                self._complete_move(key)
        self._operations.run(lambda: None, lambda _: done())

    def _complete_move(self, key: FolderKey) -> None:
        directory, name = self.future[key]
        path = f"{directory.path}/{name}"

        def rename() -> None:
            self._disk.rename(path, f"{directory.path}/{folder_name(*key)}")
            self._disk.sync_directory(directory.path)

        def renamed(outcome: object) -> None:
            self._operations.handle_outcome(directory, f"{path} cannot be renamed", outcome)
            if not isinstance(outcome, BaseException):
                del self.future[key]
                self.current[key] = directory

        self._operations.run(rename, renamed)

    def _delete_stray(self, directory: LogDirectory, folder: Folder) -> None:
        path = f"{directory.path}/{folder.name}"
        logger.warning("%s is stray: no replica is assigned to it; deleting it", path)
        self._operations.discard(directory, path)
