"""Closes the logs at shutdown, saves their checkpoints, and writes clean shutdown files."""

from __future__ import annotations

import logging
from collections.abc import Callable

from quorumd.broker.housekeeping.checkpoints import Checkpoints
from quorumd.broker.log.clean_shutdown import write_clean_shutdown
from quorumd.broker.log_management.directories import CHECKPOINTS, LogDirectory
from quorumd.broker.log_management.log_manager import LogManager
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.ports import Disk

logger = logging.getLogger("quorumd.broker")


class LogClosing:
    """Closes logs that are no longer in use. A directory gets a clean shutdown file if all its logs were closed."""

    def __init__(self, disk: Disk, logs: LogManager, checkpoints: Checkpoints) -> None:
        self._disk = disk
        self._logs = logs
        self._checkpoints = checkpoints
        self._unclean: list[LogDirectory] = []

    def close(self, closed: list[HostedPartition], broker_epoch: int, on_done: Callable[[], None]) -> None:
        """Close the logs of these partitions, then call `on_done`."""
        for hosted in closed:
            self._close(hosted)
        self._logs.operations.run(lambda: None, lambda _: self._save(closed, broker_epoch, on_done))

    def _close(self, hosted: HostedPartition) -> None:
        def done(outcome: object) -> None:
            if isinstance(outcome, BaseException):
                logger.error("%s: the log was not closed: %s", hosted.name, outcome)
                self._unclean.append(hosted.directory)

        self._logs.operations.run(hosted.log.close, done)

    def _save(self, closed: list[HostedPartition], broker_epoch: int, on_done: Callable[[], None]) -> None:
        for directory in self._logs.directories.online:
            if directory not in self._unclean:
                for name in CHECKPOINTS:
                    hosted = [each for each in closed if each.directory is directory]
                    self._checkpoints.save(directory, name, hosted)
        self._logs.operations.run(lambda: None, lambda _: self._mark_clean(broker_epoch, on_done))

    def _mark_clean(self, broker_epoch: int, on_done: Callable[[], None]) -> None:
        for directory in self._logs.directories.online:
            if directory not in self._unclean:
                self._write_clean_shutdown(directory, broker_epoch)
        self._logs.operations.run(lambda: None, lambda _: on_done())

    def _write_clean_shutdown(self, directory: LogDirectory, broker_epoch: int) -> None:
        def done(outcome: object) -> None:
            if isinstance(outcome, BaseException):
                logger.error(
                    "the clean shutdown file of log directory %s was not written: %s", directory.path, outcome
                )

        self._logs.operations.run(
            lambda: write_clean_shutdown(self._disk, directory.path, broker_epoch), done
        )
