"""A data directory as `kafka-storage format --standalone --release-version 4.1` of Kafka 4.4.0 writes it
(KIP-1170)."""

from __future__ import annotations

from base64 import b64decode

from quorumd.ids import KafkaUuid
from quorumd.ports import Disk

NAME = "00000000000000000000-0000000000.checkpoint"
DIRECTORY_ID = KafkaUuid.parse("DQoXn98LQmSkJgrEpFf1Sw")
CHECKPOINT = b64decode(
    "AAAAAAAAAAAAAACaAAAAAAKhMLxIACAAAAACAAABogcbipcAAAGiBxuKl///////////////////AAAAAyoAAAAIAAAAAxYAAAAAAaIH"
    "G4lQAAAeAAACCAAAAAUKAAAAAQAAggEAAAQIAAAABm4AAAIAAAABDQoXn98LQmSkJgrEpFf1SwILQ09OVFJPTExFUgoxMjcuMC4wLjFK"
    "kwAAAAABAAAAAAAAAAAAAAADAAAAuQAAAAACj1VqDQAAAAAAAwAAAaIHG40YAAABogcbjRj//////////////////wAAAAQ6AAAAAS4B"
    "DAARbWV0YWRhdGEudmVyc2lvbgAbAABaAAACAU4BDAAhZWxpZ2libGUubGVhZGVyLnJlcGxpY2FzLnZlcnNpb24AAQAANAAABAEoAQwA"
    "Dmdyb3VwLnZlcnNpb24AAQAAQAAABgE0AQwAFHRyYW5zYWN0aW9uLnZlcnNpb24AAgAAAAAAAAAAAAcAAAA/AAAAAAK1TepKACAAAAAA"
    "AAABogcbjUEAAAGiBxuNQf//////////////////AAAAARoAAAAIAAAABAYAAAAA"
)
"""Node 1 is the voter, at 127.0.0.1:19091."""


def write_checkpoint(disk: Disk, data_directory: str, content: bytes = CHECKPOINT) -> None:
    """Create the partition directory, and write the checkpoint into it."""
    directory = f"{data_directory}/__cluster_metadata-0"
    disk.make_directory(directory)
    file = disk.open(f"{directory}/{NAME}", create=True)
    file.write_at(0, content)
    file.close()
