"""Lists the files of copies of a log: the segments and snapshots in the log directories of nodes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quorumd.errors import ConfigError, InputIncomplete
from quorumd.log.meta_properties import PARTITION_DIRECTORY
from quorumd.log.segment import parse_base_offset
from quorumd.log.snapshot_file import parse_snapshot_name


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment of a node's copy; `path` is absolute, `size` in bytes, including preallocated space."""

    node: int
    path: str
    base_offset: int
    size: int

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot of the records below `end_offset`; `path` is absolute."""

    node: int
    path: str
    end_offset: int
    epoch: int
    size: int

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


@dataclass(frozen=True, slots=True)
class CopyDirectory:
    """The directory with the copy of a node: its files ordered by offset."""

    node: int
    path: str
    segments: tuple[SegmentFile, ...]
    snapshots: tuple[SnapshotFile, ...]

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return sum(segment.size for segment in self.segments)


def parse_directories(text: str) -> dict[int, str]:
    """Parse `1=/srv/n1,2=/srv/n2` to directories by node; a single directory without id is node 0. Raises
    ConfigError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) == 1 and not re.match(r"\d+=", parts[0]):
        return {0: parts[0]}
    directories: dict[int, str] = {}
    for part in parts:
        id_text, equals, directory = part.partition("=")
        if not equals or not id_text.isdecimal() or not directory:
            raise ConfigError(f"{part!r} is not ID=DIR, such as 1=/srv/quorumd/node-1")
        if int(id_text) in directories:
            raise ConfigError(
                f"node {id_text} has two directories, {directories[int(id_text)]} and {directory}"
            )
        directories[int(id_text)] = directory
    if not directories:
        raise ConfigError("no directory given; expected ID=DIR,... such as 1=/srv/quorumd/node-1")
    return directories


def read_directories(directories: Mapping[int, str]) -> list[CopyDirectory]:
    """List the files in these directories, by node. Raises InputIncomplete if a directory does not exist or has no
    log."""
    return [_read_directory(node, directories[node]) for node in sorted(directories)]


def _read_directory(node: int, directory: str) -> CopyDirectory:
    path = Path(directory)
    if (path / PARTITION_DIRECTORY).is_dir():
        path /= PARTITION_DIRECTORY
    try:
        with os.scandir(path) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        raise InputIncomplete(f"{path} of node {node} cannot be listed: {error.strerror}") from None
    segments, snapshots = [], []
    for entry in entries:
        base_offset, snapshot = parse_base_offset(entry.name), parse_snapshot_name(entry.name)
        if base_offset is None and snapshot is None:
            continue
        try:
            size = entry.stat().st_size
        except FileNotFoundError:
            # A running node deletes obsolete files.
            continue
        # The reader may be a process with another working directory.
        file = os.path.abspath(entry.path)
        if base_offset is not None:
            segments.append(SegmentFile(node, file, base_offset, size))
        elif snapshot is not None:
            snapshots.append(SnapshotFile(node, file, *snapshot, size))
    if not segments and not snapshots:
        raise InputIncomplete(
            f"{path} of node {node} has no log: expected segments such as {0:020d}.log, "
            f"or a log directory with {PARTITION_DIRECTORY} in it"
        )
    return CopyDirectory(node, str(path), tuple(segments), tuple(snapshots))
