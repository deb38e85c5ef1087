"""`partition.metadata`: the topic id of a partition's folder."""

from __future__ import annotations

from quorumd.errors import CorruptLog
from quorumd.ids import METADATA_TOPIC_ID
from quorumd.log.atomic_file import read_small_file, write_atomically
from quorumd.ports import Disk

FILE_NAME = "partition.metadata"
_CONTENT = f"version: 0\ntopic_id: {METADATA_TOPIC_ID}"


def ensure_partition_metadata(disk: Disk, directory: str) -> None:
    """Write the file into the folder of the metadata partition unless it exists.

    Raises CorruptLog if it names another topic, and what `write_atomically` raises.
    """
    path = f"{directory}/{FILE_NAME}"
    data = read_small_file(disk, path)
    if data is None:
        write_atomically(disk, path, _CONTENT.encode())
    elif data.decode("utf-8", "replace").split() != _CONTENT.split():
        raise CorruptLog(
            f"{path} belongs to another partition (expected topic_id {METADATA_TOPIC_ID}); "
            "move that partition's folder away, or restore this file"
        )
