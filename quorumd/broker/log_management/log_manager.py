"""Opens, moves, deletes and closes the logs of a broker without blocking the event thread."""

from __future__ import annotations

import logging
from collections.abc import Callable

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.offset_checkpoint import LOG_START_OFFSETS, RECOVERY_POINTS
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log_management.directories import DirectorySpace, LogDirectories, LogDirectory
from quorumd.broker.log_management.disk_operations import DiskOperations
from quorumd.broker.log_management.partition_directories import PartitionDirectories
from quorumd.broker.log_management.partition_directory import (
    DirectoryKey,
    OpenRequest,
    close_files,
    delete_log,
    directory_name,
    future_name,
    name_for_deletion,
    open_log,
    remove_partition_directory,
)
from quorumd.controller.partition import PartitionId
from quorumd.ids import KafkaUuid
from quorumd.ports import Clock, Disk, Entropy

logger = logging.getLogger("quorumd.broker")

Opened = Callable[[LogDirectory, "PartitionLog | BaseException"], None]


class LogManager:
    """The logs of a broker, by partition. Runs one disk operation at a time.

    `on_free(key)` is called after a deletion, when the directory of the partition is no longer busy.
    `on_failure(directory, reason)` is called when a log directory fails.
    """

    def __init__(
        self,
        clock: Clock,
        disk: Disk,
        entropy: Entropy,
        directories: LogDirectories,
        on_free: Callable[[DirectoryKey], None],
        on_failure: Callable[[LogDirectory, str], None],
    ) -> None:
        self.directories = directories
        self._clock = clock
        self._disk = disk
        self._entropy = entropy
        self._on_free = on_free
        self.operations = DiskOperations(disk, entropy, on_failure)
        self.partition_directories = PartitionDirectories(disk, directories, self.operations)
        self.preferred_directories: dict[DirectoryKey, LogDirectory] = {}
        """The directory that AlterReplicaLogDirs requested for a partition before its log was created."""
        self._busy: dict[DirectoryKey, None] = {}

    def is_busy(self, key: DirectoryKey) -> bool:
        """Whether the partition directory is being opened or deleted."""
        return key in self._busy

    def directory_of(self, key: DirectoryKey) -> LogDirectory | None:
        """Return the log directory of a partition, None if it has no log."""
        return self.partition_directories.current.get(key)

    def space(self, directory: LogDirectory) -> DirectorySpace:
        """Return the size and the free space of the file system of a log directory; -1 for both if it is offline."""
        if not directory.is_online:
            return DirectorySpace()
        try:
            return DirectorySpace(
                self._disk.total_bytes(directory.path), self._disk.free_bytes(directory.path)
            )
        except OSError:
            return DirectorySpace()

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

        Returns False if no log directory can be used for it. The partition must not be busy.
        """
        key = (topic, id.number)
        directory = self.partition_directories.current.get(key)
        is_new = directory is None
        if directory is None and key not in self.partition_directories.future:
            directory = self._choose(key, assigned)
        if directory is None or not directory.is_online:
            return False
        self.partition_directories.current[key] = directory
        self._busy[key] = None
        saved = {} if is_new else directory.checkpoints
        request = OpenRequest(
            directory.path,
            directory_name(*key),
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
                self.operations.handle_outcome(directory, f"{request.path} cannot be opened", outcome)
            opened(directory, outcome)

        self.operations.run(lambda: open_log(self._disk, request), done)
        return True

    def _choose(self, key: DirectoryKey, assigned: KafkaUuid) -> LogDirectory | None:
        preferred = self.preferred_directories.pop(key, None)
        if preferred is not None and preferred.is_online:
            return preferred
        counts: dict[str, int] = {}
        for used in self.partition_directories.current.values():
            counts[used.path] = counts.get(used.path, 0) + 1
        return self.directories.choose(assigned, counts)

    def delete(self, key: DirectoryKey, log: PartitionLog, delay_ms: float) -> None:
        """Rename the directory of an unused log, and remove its files after `delay_ms`."""
        directory = self.partition_directories.current[key]
        self._busy[key] = None
        unique_id = self._entropy.uuid()

        def renamed(outcome: str | BaseException) -> None:
            del self._busy[key]
            self.partition_directories.current.pop(key, None)
            if isinstance(outcome, BaseException):
                self.operations.handle_outcome(directory, f"{log.directory} cannot be renamed", outcome)
            else:
                self._clock.call_at(
                    self._clock.now_ms() + delay_ms, lambda: self._remove_files(directory, outcome)
                )
            self._on_free(key)

        self.operations.run(lambda: delete_log(self._disk, log, unique_id), renamed)

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
        """Open or create the log of a future replica in `name`, a partition directory in `directory`."""
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
            self.operations.handle_outcome(directory, f"{request.path} cannot be opened", outcome)
            opened(outcome)

        self.operations.run(lambda: open_log(self._disk, request), done)

    def new_future_name(self, key: DirectoryKey) -> str | None:
        """Return a unique directory name for a future replica; None if the topic name is too long for one."""
        return future_name(*key, self._entropy.uuid())

    def replace_with_future(
        self, key: DirectoryKey, current: PartitionLog, future: PartitionLog, target: LogDirectory
    ) -> bool:
        """Replace the current log by the log of the future replica, and remove the current log after a delay.

        Must not be called while an operation is running. Returns False, with the current log in place, if a rename
        fails.
        """
        source, path = self.partition_directories.current[key], f"{target.path}/{directory_name(*key)}"
        deleted_path = name_for_deletion(current.directory, self._entropy.uuid())
        if not self._rename(source, current.directory, deleted_path):
            return False
        if not self._rename(target, future.directory, path):
            self._rename(source, deleted_path, current.directory)
            return False
        future.relocate(path)
        self.partition_directories.current[key] = target
        delay_ms = current.settings.file_delete_delay_ms

        def close() -> None:
            self._disk.sync_directory(source.path)
            close_files(current)

        def closed(outcome: object) -> None:
            self.operations.handle_outcome(source, f"{deleted_path} cannot be removed", outcome)
            self._clock.call_at(
                self._clock.now_ms() + delay_ms, lambda: self._remove_files(source, deleted_path)
            )

        # Sync the target log directory first: after a crash, both logs exist or only the new one.
        self.operations.run(
            lambda: self._disk.sync_directory(target.path),
            lambda outcome: self.operations.handle_outcome(
                target, f"the rename to {path} cannot be synced", outcome
            ),
        )
        self.operations.run(close, closed)
        return True

    def _rename(self, directory: LogDirectory, path: str, renamed: str) -> bool:
        """Rename a directory without a sync; return whether the rename succeeded."""
        try:
            self._disk.rename(path, renamed)
        except OSError as fault:
            self.operations.handle_outcome(directory, f"{path} cannot be renamed", fault)
            return False
        return True

    def _remove_files(self, directory: LogDirectory, path: str) -> None:
        if directory.is_online:
            self.operations.run(
                lambda: remove_partition_directory(self._disk, path),
                lambda outcome: self.operations.handle_outcome(
                    directory, f"{path} cannot be removed", outcome
                ),
            )

    def abandon(self, log: PartitionLog) -> None:
        """Close the files of a log that is no longer used, such as one in a failed directory."""

        def ignore(outcome: object) -> None:
            if isinstance(outcome, BaseException):
                logger.info("%s cannot be closed: %s", log.directory, outcome)

        self.operations.run(lambda: close_files(log), ignore)
