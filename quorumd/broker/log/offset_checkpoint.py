"""Offset checkpoint files: an offset for each partition of a log directory, in Kafka's format.

0
<number of partitions>
<topic> <partition> <offset>
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from quorumd.errors import CorruptLog
from quorumd.log.atomic_file import read_whole, write_atomically
from quorumd.ports import Disk

HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
"""First dirty offsets: logs are compacted below them."""
_LINE = re.compile(r"(\S+) ([0-9]{1,10}) ([0-9]{1,19})")
_MAX_INT64 = 2**63 - 1

Offsets = Mapping[tuple[str, int], int]
"""(topic, partition) -> offset."""


class OffsetCheckpoint:
    """A checkpoint file; `name` is a constant of this module."""

    def __init__(self, disk: Disk, log_directory: str, name: str) -> None:
        self._disk = disk
        self._path = f"{log_directory}/{name}"

    def load(self) -> dict[tuple[str, int], int]:
        """The saved offsets, {} if the file does not exist. Raises CorruptLog if it is invalid, StorageError."""
        data = read_whole(self._disk, self._path)
        if data is None:
            return {}
        lines = data.decode("utf-8", "replace").splitlines()
        found: dict[tuple[str, int], int] = {}
        if lines[:1] == ["0"] and len(lines) >= 2 and lines[1] == str(len(lines) - 2):
            for line in lines[2:]:
                match = _LINE.fullmatch(line)
                if match is None or int(match[3]) > _MAX_INT64:
                    break
                found[match[1], int(match[2])] = int(match[3])
            else:
                return found
        raise CorruptLog(
            f"{self._path} is not an offset checkpoint of version 0 (0, the number of entries, lines of 'topic "
            "partition offset'); restore it, or remove it to recover the logs from their first segment"
        )

    def save(self, offsets: Offsets) -> None:
        """Replace the file durably. Blocks: run it with `Disk.submit`.

        Raises DiskFull, StorageError, FlushFailed (see `write_atomically`).
        """
        lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in sorted(offsets.items())]
        write_atomically(self._disk, self._path, "".join(["0\n", f"{len(lines)}\n", *lines]).encode())
