"""The partition directories in a log directory, `<topic>-<partition>`: open, rename for deletion and remove them.

The log of a future replica is in `<topic>-<partition>.<unique id>-future` in the target directory of the move.

All functions block; run them with `Disk.submit`.
"""

from __future__ import annotations

import logging
import re
from typing import NamedTuple

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.errors import CorruptLog
from quorumd.ids import METADATA_TOPIC, KafkaUuid
from quorumd.log.atomic_file import parent_directory
from quorumd.log.partition_metadata import ensure_partition_metadata, read_topic_id
from quorumd.log.segment import LOG_SUFFIX
from quorumd.ports import Disk

logger = logging.getLogger("quorumd.broker")

DirectoryKey = tuple[str, int]
"""(topic, partition)"""
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"
_DIRECTORY = re.compile(r"(.+)-(\d{1,10})")
_FUTURE = re.compile(r"(.+)-(\d{1,10})\.[0-9a-f]{32}-future")
_RENAMED = re.compile(r".+\.[0-9a-f]{32}-delete")
_MAX_NAME_LENGTH = 255


class PartitionDirectory(NamedTuple):
    """A partition directory; `topic_id` is None without a valid `partition.metadata`."""

    name: str
    topic: str
    number: int
    topic_id: KafkaUuid | None
    is_future: bool = False


class OpenRequest(NamedTuple):
    """A log to open or create."""

    directory: str
    name: str
    topic: str
    number: int
    topic_id: KafkaUuid
    settings: PartitionLogSettings
    recovery_point: int
    start_offset: int
    is_clean: bool
    unique_id: KafkaUuid
    """Part of the new name of an existing directory that does not belong to this topic."""

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.name}"


def open_log(disk: Disk, request: OpenRequest) -> PartitionLog:
    """Open or create the log of a partition.

    Deletes an existing directory with another topic id, and keeps one without a topic id as stray. Raises the errors
    of `PartitionLog.open`, and OSError.
    """
    path = request.path
    recovery_point, start_offset, is_clean = request.recovery_point, request.start_offset, request.is_clean
    if disk.exists(path) and _load_topic_id(disk, path) != request.topic_id:
        names = disk.list_directory(path)
        if _load_topic_id(disk, path) is not None:
            remove_partition_directory(disk, rename_for_deletion(disk, path, request.unique_id))
        elif any(name.endswith(LOG_SUFFIX) for name in names):
            stray = _with_suffix(path, request.unique_id, STRAY_SUFFIX)
            logger.warning("%s has no topic id; renaming it to %s", path, stray)
            disk.rename(path, stray)
        recovery_point, start_offset, is_clean = 0, 0, False
    disk.make_directory(path)
    disk.sync_directory(request.directory)
    ensure_partition_metadata(disk, path, request.topic_id)
    log, report = PartitionLog.open(disk, path, request.settings, recovery_point, start_offset, is_clean)
    if report.truncations:
        logger.warning("%s-%d: %s", request.topic, request.number, report)
    return log


def _load_topic_id(disk: Disk, path: str) -> KafkaUuid | None:
    try:
        return read_topic_id(disk, path)
    except CorruptLog as fault:
        logger.warning("%s", fault)
        return None


def directory_name(topic: str, number: int) -> str:
    """Return the name of the directory of a partition."""
    return f"{topic}-{number}"


def future_name(topic: str, number: int, unique_id: KafkaUuid) -> str | None:
    """Return the directory name of a future replica; None if the topic name is too long for one."""
    name = f"{directory_name(topic, number)}.{unique_id.hex()}{FUTURE_SUFFIX}"
    return name if len(name) <= _MAX_NAME_LENGTH else None


def name_for_deletion(path: str, unique_id: KafkaUuid) -> str:
    """Return the path that marks a directory as deleted."""
    return _with_suffix(path, unique_id, DELETE_SUFFIX)


def rename_for_deletion(disk: Disk, path: str, unique_id: KafkaUuid) -> str:
    """Durably rename a directory to mark it as deleted; return the new path. Raises OSError."""
    renamed = name_for_deletion(path, unique_id)
    disk.rename(path, renamed)
    disk.sync_directory(parent_directory(path))
    return renamed


def _with_suffix(path: str, unique_id: KafkaUuid, suffix: str) -> str:
    parent, _, name = path.rpartition("/")
    ending = f".{unique_id.hex()}{suffix}"
    return f"{parent}/{name[: _MAX_NAME_LENGTH - len(ending)]}{ending}"


def remove_partition_directory(disk: Disk, path: str) -> None:
    """Remove a directory and its files. Raises OSError."""
    for name in disk.list_directory(path):
        disk.remove(f"{path}/{name}")
    disk.remove_directory(path)


def delete_log(disk: Disk, log: PartitionLog, unique_id: KafkaUuid) -> str:
    """Rename the directory of a log for deletion, and close the log without a flush; return the new path.

    Raises OSError.
    """
    renamed = rename_for_deletion(disk, log.directory, unique_id)
    close_files(log)
    return renamed


def close_files(log: PartitionLog) -> None:
    """Close a log without a flush."""
    for segment in log.segments():
        segment.close()


def remove_deleted(disk: Disk, directory: str) -> None:
    """Remove the directories that the previous run renamed for deletion. Raises OSError."""
    for name in disk.list_directory(directory):
        if _RENAMED.fullmatch(name):
            remove_partition_directory(disk, f"{directory}/{name}")


def list_partition_directories(disk: Disk, directory: str) -> list[PartitionDirectory]:
    """List the partition directories in a log directory, including directories of future replicas. Raises OSError."""
    found = []
    for name in disk.list_directory(directory):
        is_future = name.endswith(FUTURE_SUFFIX)
        match = (_FUTURE if is_future else _DIRECTORY).fullmatch(name)
        if match is not None and match[1] != METADATA_TOPIC:
            topic_id = _load_topic_id(disk, f"{directory}/{name}")
            found.append(PartitionDirectory(name, match[1], int(match[2]), topic_id, is_future))
    return found
