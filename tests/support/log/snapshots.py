"""Small valid snapshots for tests, and their records."""

from __future__ import annotations

from typing import Any, cast

from quorumd.ids import KafkaUuid, OffsetAndEpoch
from quorumd.log.snapshot_file import SnapshotSummary, SnapshotWriter
from quorumd.ports import Disk
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.voters_record import KRaftVersionFeature, Voter, VotersRecord
from quorumd.protocol.metadata_record import encode_record

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAg"
TIMESTAMP_MS = 1_750_000_000_000


def voters_record(*ids: int) -> VotersRecord:
    voters = [
        Voter(node_id, KafkaUuid(bytes([node_id]) * 16), [], KRaftVersionFeature(0, 1)) for node_id in ids
    ]
    return VotersRecord(0, voters, CLUSTER_ID, None)


def config(name: str, value: str = "x") -> bytes:
    return encode_record(ConfigRecord(32, "g", name, value), 0)


class _WithoutDirectorySync:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def sync_directory(self, path: str) -> None:
        return


def write_snapshot(
    disk: Disk,
    directory: str,
    snapshot: OffsetAndEpoch,
    values: list[bytes] | None = None,
    voters: VotersRecord | None = None,
    batch: int = 2,
    synced: bool = True,
) -> SnapshotSummary:
    """Write a snapshot of `values`, with `batch` records per batch. Unless `synced`, its name is not durable."""
    values = [config(f"c{n}") for n in range(5)] if values is None else values
    target = disk if synced else cast(Disk, _WithoutDirectorySync(disk))
    writer = SnapshotWriter(
        target, directory, snapshot, TIMESTAMP_MS, voters or voters_record(1, 2, 3), "test"
    )
    for start in range(0, len(values), batch):
        writer.write(values[start : start + batch])
    return writer.finish()
