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
    """The end of an operation, for all who wait for it."""

    __slots__ = ("_error", "_waiting")

    def __init__(self) -> None:
        self._error: ErrorCode | None = None
        self._waiting: list[Callable[[ErrorCode], None]] = []

    def complete(self, error: ErrorCode) -> None:
        """Report the end of the operation: NONE, or the error that it failed with."""
        self._error = error
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback(error)

    def when_complete(self, callback: Callable[[ErrorCode], None]) -> None:
        """Call `callback` with the error or NONE at the end, at once if that has come."""
        if self._error is None:
            self._waiting.append(callback)
        else:
            callback(self._error)


class FutureLog:
    """The log of a replica in the directory that it moves to; `log` is None until it is open.

    `creation`: its directory is durable. `removal`: that is durably removed, once the move is cancelled.
    `is_assigned`: the log has caught up once, and its directory is reported to the controller; `is_accepted`: the
    controller has recorded the directory, so the log may replace the current one.
    """

    __slots__ = ("creation", "directory", "is_accepted", "is_assigned", "log", "removal")

    def __init__(self, directory: LogDirectory) -> None:
        self.creation = Completion()
        self.removal = Completion()
        self.directory = directory
        self.log: PartitionLog | None = None
        self.is_assigned = False
        self.is_accepted = False


class HostedPartition:
    """A partition with a replica on this broker.

    `topic`: the name of the topic. `min_isr`: min.insync.replicas of the topic. `is_open`: False once the replica is
    removed or its log directory has failed; its log must not be used then. `future`: the log in the directory that
    the replica moves to; `DirectoryMoves` replaces log and directory.
    """

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
        self.directory = directory
        self.replica = replica
        self.min_isr = min_isr
        self.is_open = True
        self.future: FutureLog | None = None

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
