"""A partition with a replica on this broker."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log_management.directories import LogDirectory
from quorumd.broker.replication.replica import Replica
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid


class Completion:
    """The outcome of an operation, with the callbacks that wait for it."""

    __slots__ = ("_error", "_waiting")

    def __init__(self) -> None:
        self._error: ErrorCode | None = None
        self._waiting: list[Callable[[ErrorCode], None]] = []

    def complete(self, error: ErrorCode) -> None:
        """Set the outcome: NONE, or the error with which the operation failed."""
        self._error = error
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback(error)

    def when_complete(self, callback: Callable[[ErrorCode], None]) -> None:
        """Call `callback` with the outcome: immediately, or when the operation completes."""
        if self._error is None:
            self._waiting.append(callback)
        else:
            callback(self._error)


class FutureLog:
    """The log of a replica in the directory to which it moves."""

    __slots__ = ("creation", "directory", "is_accepted", "is_assigned", "log", "removal")

    def __init__(self, directory: LogDirectory) -> None:
        self.creation = Completion()
        """Completes when the partition directory is durable."""
        self.removal = Completion()
        """Completes when, after a cancellation, the partition directory is durably removed."""
        self.directory = directory
        self.log: PartitionLog | None = None
        """None until the log is open."""
        self.is_assigned = False
        """Whether the log has caught up once, so that its directory is reported to the controller."""
        self.is_accepted = False
        """Whether the controller has recorded the directory, so that the log may replace the current log."""


class HostedPartition:
    """A partition with a replica on this broker."""

    __slots__ = ("directory", "future", "id", "is_open", "min_isr", "replica", "topic")

    def __init__(
        self,
        id: PartitionId,
        topic: str,
        directory: LogDirectory,
        replica: Replica[PartitionLog],
        min_isr: int,
    ) -> None:
        self.id = id
        self.topic = topic
        """The name of the topic."""
        self.directory = directory
        self.replica = replica
        self.min_isr = min_isr
        """`min.insync.replicas` of the topic."""
        self.is_open = True
        """False once the replica is removed or its log directory has failed; then its log must not be used."""
        self.future: FutureLog | None = None
        """The log in the directory to which the replica moves, until `DirectoryMoves` replaces log and directory."""

    def __repr__(self) -> str:
        return f"<{self.name}: {self.replica}>"

    @property
    def log(self) -> PartitionLog:
        return self.replica.log

    @property
    def assigned_directory(self) -> KafkaUuid:
        """The directory that the controller should record for the replica."""
        future = self.future
        return future.directory.id if future is not None and future.is_assigned else self.directory.id

    @property
    def name(self) -> str:
        """`<topic>-<partition>`."""
        return f"{self.topic}-{self.id.number}"

    @property
    def is_leader(self) -> bool:
        return self.replica.leadership is not None
