"""The log directories of a broker, and the offsets in their checkpoint files at startup."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from quorumd.broker.log.clean_shutdown import NO_BROKER_EPOCH, read_broker_epoch, was_clean
from quorumd.broker.log.offset_checkpoint import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    OffsetCheckpoint,
)
from quorumd.broker.settings.broker_settings import ALL_DIRECTORIES
from quorumd.controller.broker import MIGRATING, UNASSIGNED
from quorumd.errors import StorageError
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.log.meta_properties import load_meta_properties
from quorumd.ports import Disk

logger = logging.getLogger("quorumd.broker")

CHECKPOINTS: Final = (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_START_OFFSETS, CLEANER_OFFSETS)


class DirectorySpace(NamedTuple):
    """Size and free space of the file system of a log directory; -1 if unknown."""

    total_bytes: int = -1
    usable_bytes: int = -1


class LogDirectory:
    """A log directory, with the content of its files at startup."""

    __slots__ = ("checkpoints", "clean_epoch", "id", "is_cordoned", "is_online", "path", "was_clean")

    def __init__(self, path: str) -> None:
        self.path = path
        self.id = ZERO_UUID
        """The directory id, ZERO_UUID if unknown."""
        self.is_online = True
        self.is_cordoned = False
        """Whether the directory gets no new replicas (KIP-1066)."""
        self.was_clean = False
        """Whether the last shutdown was clean."""
        self.clean_epoch = NO_BROKER_EPOCH
        """The broker epoch of the last clean shutdown."""
        self.checkpoints: dict[str, dict[tuple[str, int], int]] = {name: {} for name in CHECKPOINTS}
        """Checkpoint file -> its offsets, by (topic, partition)."""

    def __repr__(self) -> str:
        return f"<log directory {self.path}{'' if self.is_online else ', offline'}>"

    def load(self, disk: Disk, broker_id: int) -> None:
        """Read the directory id, clean shutdown file and checkpoints. Blocks. Raises StorageError, OSError."""
        meta = load_meta_properties(disk, self.path)
        if meta is None:
            raise StorageError(f"{self.path} is not formatted; run `quorumd format` first")
        if meta.node_id != broker_id:
            raise StorageError(
                f"{self.path} belongs to node {meta.node_id}, not to node {broker_id}; correct log.dirs or node.id"
            )
        self.id = meta.directory_id
        self.was_clean = was_clean(disk, self.path)
        self.clean_epoch = read_broker_epoch(disk, self.path)
        self.checkpoints = {name: OffsetCheckpoint(disk, self.path, name).load() for name in CHECKPOINTS}


class LogDirectories:
    """The configured log directories, in the order of `log.dirs`."""

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self.all = tuple(directories)

    @classmethod
    def load(cls, disk: Disk, paths: Sequence[str], broker_id: int) -> LogDirectories:
        """Load all directories; a directory that cannot be loaded is offline. Blocks."""
        directories = []
        for path in paths:
            directory = LogDirectory(path)
            try:
                directory.load(disk, broker_id)
            except (StorageError, OSError) as fault:
                logger.error("log directory %s is offline: %s", path, fault)
                directory.is_online = False
            directories.append(directory)
        return cls(directories)

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.all if directory.is_online]

    def find(self, path: str) -> LogDirectory | None:
        """Return the directory with this path, None if it is not configured."""
        return next((each for each in self.all if each.path == path.rstrip("/")), None)

    @property
    def offline_ids(self) -> list[KafkaUuid]:
        """The known ids of offline directories, for heartbeats."""
        return [each.id for each in self.all if not each.is_online and each.id != ZERO_UUID]

    @property
    def cordoned_ids(self) -> list[KafkaUuid]:
        """The known ids of cordoned directories, for heartbeats."""
        return [each.id for each in self.all if each.is_cordoned and each.id != ZERO_UUID]

    def cordon(self, paths: Collection[str]) -> bool:
        """Cordon exactly the directories with these paths, all for ALL_DIRECTORIES; return whether any changed."""
        named = self.all if ALL_DIRECTORIES in paths else [self.find(path) for path in paths]
        before = [each.is_cordoned for each in self.all]
        for each in self.all:
            each.is_cordoned = each in named
        return before != [each.is_cordoned for each in self.all]

    def choose(self, assigned: KafkaUuid, counts: Mapping[str, int]) -> LogDirectory | None:
        """Choose the directory of a new log; `counts` is the number of logs by path.

        Return the assigned directory, else the online directory with the fewest logs that is not cordoned. If all
        online directories are cordoned, return the first, because the replica was assigned before they were. Return
        None if the assigned directory may be offline, or if no directory is online.
        """
        online = self.online
        if assigned not in (UNASSIGNED, MIGRATING):
            found = next((each for each in online if each.id == assigned), None)
            if found is not None or len(online) < len(self.all):
                return found
        allowed = [each for each in online if not each.is_cordoned] or online[:1]
        return min(allowed, key=lambda each: counts.get(each.path, 0), default=None)
