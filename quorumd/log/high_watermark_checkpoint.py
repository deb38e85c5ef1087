"""`replication-offset-checkpoint`: an earlier high watermark, in Kafka's checkpoint format.

    0
    1
    __cluster_metadata 0 <high watermark>

It is a lower bound of the high watermark, below which recovery never truncates. The saved value must not exceed the
flushed end offset of this log, or the effect of a crash would look like damage.
"""

from __future__ import annotations

import re

from quorumd.errors import CorruptLog
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC
from quorumd.log.atomic_file import read_small_file, write_atomically
from quorumd.ports import Disk

FILE_NAME = "replication-offset-checkpoint"
_OFFSET = re.compile(r"[0-9]{1,19}")
_MAX_INT64 = 2**63 - 1
_PARTITION = f"{METADATA_TOPIC} {METADATA_PARTITION}"


class HighWatermarkCheckpoint:
    """The checkpoint file in a data directory."""

    def __init__(self, disk: Disk, data_directory: str) -> None:
        self._disk = disk
        self._path = f"{data_directory}/{FILE_NAME}"

    def load(self) -> int:
        """The last saved high watermark, 0 if there is none. Raises CorruptLog for an invalid file."""
        data = read_small_file(self._disk, self._path)
        if data is None:
            return 0
        lines = data.decode("utf-8", "replace").splitlines()
        if lines[:1] == ["0"] and len(lines) >= 2 and lines[1] == str(len(lines) - 2):
            for line in lines[2:]:
                partition, _, offset = line.rpartition(" ")
                if partition == _PARTITION and _OFFSET.fullmatch(offset) and int(offset) <= _MAX_INT64:
                    return int(offset)
            if not any(line.startswith(_PARTITION + " ") for line in lines[2:]):
                return 0
        raise CorruptLog(
            f"{self._path} is not a checkpoint of version 0 (0, number of lines, 'topic partition offset' "
            "lines); restore it, or remove it to start without protection against truncating committed records"
        )

    def save(self, high_watermark: int) -> None:
        """Replace the file durably. Blocks: call it through `Disk.submit`.

        Raises DiskFull, StorageError or FlushFailed, see `write_atomically`.
        """
        write_atomically(self._disk, self._path, f"0\n1\n{_PARTITION} {high_watermark}\n".encode())
