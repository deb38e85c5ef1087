"""`partition.metadata`: the topic id of a partition's directory."""

from __future__ import annotations

import re

from quorumd.errors import CorruptLog
from quorumd.ids import METADATA_TOPIC_ID, KafkaUuid
from quorumd.log.atomic_file import read_small_file, write_atomically
from quorumd.ports import Disk

FILE_NAME = "partition.metadata"
_CONTENT = re.compile(r"version: *0\s+topic_id: *(\S{22})\s*")


def ensure_partition_metadata(disk: Disk, directory: str, topic_id: KafkaUuid = METADATA_TOPIC_ID) -> None:
    """Write the file into the directory of a partition unless it exists.

    Raises CorruptLog if it names another topic, and what `write_atomically` raises.
    """
    path = f"{directory}/{FILE_NAME}"
    data = read_small_file(disk, path)
    if data is None:
        write_atomically(disk, path, f"version: 0\ntopic_id: {topic_id}".encode())
    elif _parsed(data) != topic_id:
        raise CorruptLog(
            f"{path} belongs to another partition (expected topic_id {topic_id}); "
            "move that partition's directory away, or restore this file"
        )


def read_topic_id(disk: Disk, directory: str) -> KafkaUuid | None:
    """The topic id of a partition's directory, None if there is no file. Raises CorruptLog for an invalid one."""
    path = f"{directory}/{FILE_NAME}"
    data = read_small_file(disk, path)
    if data is None:
        return None
    topic_id = _parsed(data)
    if topic_id is None:
        raise CorruptLog(
            f"{path} has no topic id of version 0; restore it, or remove the partition's directory"
        )
    return topic_id


def _parsed(data: bytes) -> KafkaUuid | None:
    match = _CONTENT.fullmatch(data.decode("utf-8", "replace"))
    try:
        return KafkaUuid.parse(match[1]) if match else None
    except ValueError:
        return None
