"""The partition directories in the log directories of a broker, which a scan at startup finds."""

from __future__ import annotations

import logging
from collections.abc import Callable

from quorumd.broker.log_management.directories import LogDirectories, LogDirectory
from quorumd.broker.log_management.disk_operations import DiskOperations
from quorumd.broker.log_management.partition_directory import (
    DirectoryKey,
    PartitionDirectory,
    directory_name,
    list_partition_directories,
    remove_deleted,
)
from quorumd.ids import KafkaUuid
from quorumd.ports import Disk

logger = logging.getLogger("quorumd.broker")


class PartitionDirectories:
    """The directories of current logs and of future replicas, by partition."""

    def __init__(self, disk: Disk, directories: LogDirectories, operations: DiskOperations) -> None:
        self.current: dict[DirectoryKey, LogDirectory] = {}
        """The log directory of each partition."""
        self.future: dict[DirectoryKey, tuple[LogDirectory, str]] = {}
        """The log directory and the directory name of each future replica that the scan found."""
        self._disk = disk
        self._directories = directories
        self._operations = operations

    def scan(
        self, assigned: Callable[[PartitionDirectory], KafkaUuid | None], done: Callable[[], None]
    ) -> None:
        """Scan all online log directories: register their partition directories, delete stray ones, complete moves.

        `assigned(partition_directory)` returns the directory id of the replica in the metadata, None if this broker
        has no replica.
        """
        for directory in self._directories.online:
            self._scan(directory, assigned)
        self._operations.run(lambda: None, lambda _: self._complete_moves(done))

    def _scan(
        self, directory: LogDirectory, assigned: Callable[[PartitionDirectory], KafkaUuid | None]
    ) -> None:
        def scan() -> list[PartitionDirectory]:
            remove_deleted(self._disk, directory.path)
            return list_partition_directories(self._disk, directory.path)

        def scanned(outcome: list[PartitionDirectory] | BaseException) -> None:
            if isinstance(outcome, BaseException):
                self._operations.on_failure(directory, f"its logs cannot be listed: {outcome}")
                return
            for partition_directory in outcome:
                self._register(directory, partition_directory, assigned(partition_directory))

        self._operations.run(scan, scanned)

    def _register(
        self, directory: LogDirectory, partition_directory: PartitionDirectory, assigned: KafkaUuid | None
    ) -> None:
        key = (partition_directory.topic, partition_directory.number)
        known = self.current.get(key)
        if assigned is None and (partition_directory.topic_id is not None or partition_directory.is_future):
            self._delete_stray(directory, partition_directory)
        elif partition_directory.is_future:
            if key in self.future:
                self._delete_stray(directory, partition_directory)
            else:
                self.future[key] = (directory, partition_directory.name)
        elif known is None:
            self.current[key] = directory
        elif directory.id == assigned:
            # A crash interrupted a move, or the directory was offline during one.
            self._delete_stray(known, partition_directory)
            self.current[key] = directory
        elif known.id == assigned:
            self._delete_stray(directory, partition_directory)
        else:
            logger.error(
                "%s-%d is in both %s and %s; using the former; remove the other if it is obsolete",
                *key,
                known.path,
                directory.path,
            )

    def _complete_moves(self, done: Callable[[], None]) -> None:
        """Complete the moves whose current log is gone.

        Does nothing while a directory is offline: it may have the current log, with more records than the future log.
        """
        if len(self._directories.online) == len(self._directories.all):
            for key in [key for key in self.future if key not in self.current]:
                self._complete_move(key)
        self._operations.run(lambda: None, lambda _: done())

    def _complete_move(self, key: DirectoryKey) -> None:
        directory, name = self.future[key]
        path = f"{directory.path}/{name}"

        def rename() -> None:
            self._disk.rename(path, f"{directory.path}/{directory_name(*key)}")
            self._disk.sync_directory(directory.path)

        def renamed(outcome: object) -> None:
            self._operations.handle_outcome(directory, f"{path} cannot be renamed", outcome)
            if not isinstance(outcome, BaseException):
                del self.future[key]
                self.current[key] = directory

        self._operations.run(rename, renamed)

    def _delete_stray(self, directory: LogDirectory, partition_directory: PartitionDirectory) -> None:
        path = f"{directory.path}/{partition_directory.name}"
        logger.warning("%s is stray: no replica is assigned to it; deleting it", path)
        self._operations.discard(directory, path)
