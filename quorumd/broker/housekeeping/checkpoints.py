"""The checkpoint files of the log directories, each with one kind of offset of the logs in the directory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from quorumd.broker.log.offset_checkpoint import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    OffsetCheckpoint,
)
from quorumd.broker.log.validation import COMPACT
from quorumd.broker.log_management.directories import LogDirectory
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.partitions.partitions import Partitions
from quorumd.ports import Disk

logger = logging.getLogger("quorumd.broker")

Offsets = dict[tuple[str, int], int]


def _high_watermark(hosted: HostedPartition) -> int | None:
    return hosted.replica.high_watermark


def _recovery_point(hosted: HostedPartition) -> int | None:
    return hosted.log.recovery_point


def _start_offset(hosted: HostedPartition) -> int | None:
    log = hosted.log
    return log.start_offset if log.start_offset > log.segments()[0].base_offset else None


def _cleaned_offset(hosted: HostedPartition) -> int | None:
    log = hosted.log
    return log.first_dirty_offset if COMPACT in log.settings.cleanup_policy else None


_OFFSETS: dict[str, Callable[[HostedPartition], int | None]] = {
    HIGH_WATERMARKS: _high_watermark,
    RECOVERY_POINTS: _recovery_point,
    LOG_START_OFFSETS: _start_offset,
    CLEANER_OFFSETS: _cleaned_offset,
}


class Checkpoints:
    """Saves checkpoint files whose content has changed. Entries of logs that could not be opened are kept."""

    def __init__(self, disk: Disk, partitions: Partitions) -> None:
        self._disk = disk
        self._partitions = partitions
        self._written: dict[tuple[str, str], Offsets] = {}
        """(path of the directory, name of the file) -> the offsets in the file."""

    def save_all(self, name: str) -> None:
        """Save the file of every log directory, with the offsets of all open partitions."""
        hosted = self._partitions.all()
        for directory in self._partitions.directories.online:
            self.save(directory, name, [each for each in hosted if each.directory is directory])

    def save(
        self,
        directory: LogDirectory,
        name: str,
        hosted: Iterable[HostedPartition],
        done: Callable[[], None] | None = None,
    ) -> None:
        """Save a file with the offsets of these partitions of a directory, which goes offline if the disk fails."""
        offset_of = _OFFSETS[name]
        offsets: Offsets = {
            key: offset
            for key, offset in directory.checkpoints[name].items()
            if self._partitions.logs.directory_of(key) is directory
        }
        for each in hosted:
            offset = offset_of(each)
            if offset is not None:
                offsets[each.topic, each.id.number] = offset
        key = (directory.path, name)
        if self._written.get(key) == offsets:
            if done is not None:
                # A save of the same offsets may be in progress: call back after it.
                self._partitions.logs.operations.run(lambda: None, lambda _: done())
            return
        self._written[key] = offsets
        file = OffsetCheckpoint(self._disk, directory.path, name)

        def saved(outcome: object) -> None:
            if isinstance(outcome, BaseException):
                self._written.pop(key, None)
                self._partitions.logs.operations.handle_outcome(
                    directory, f"{directory.path}/{name} cannot be saved", outcome
                )
            if done is not None:
                done()

        self._partitions.logs.operations.run(lambda: file.save(offsets), saved)
