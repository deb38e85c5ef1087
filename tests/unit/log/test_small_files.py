"""partition.metadata, replication-offset-checkpoint and .lock."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import CorruptLog, DirectoryInUse, StorageError
from quorumd.ids import KafkaUuid
from quorumd.log.atomic_file import read_whole, write_atomically
from quorumd.log.directory_lock import lock_directory
from quorumd.log.high_watermark_checkpoint import HighWatermarkCheckpoint
from quorumd.log.partition_metadata import ensure_partition_metadata, read_topic_id
from quorumd.ports import Disk
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process


def test_partition_metadata_is_written_once(disk: Disk, directory: str) -> None:
    ensure_partition_metadata(disk, directory)
    content = read_whole(disk, f"{directory}/partition.metadata")
    assert content == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    ensure_partition_metadata(disk, directory)
    write_atomically(disk, f"{directory}/partition.metadata", content + b"\n")
    ensure_partition_metadata(disk, directory)


def test_partition_metadata_of_another_topic_is_refused(disk: Disk, directory: str) -> None:
    write_atomically(disk, f"{directory}/partition.metadata", b"version: 0\ntopic_id: J8aAPcfLQt2bqs1JT_rMgQ")
    with pytest.raises(CorruptLog, match=r"partition.metadata"):
        ensure_partition_metadata(disk, directory)


def test_high_watermark_round_trip_in_kafkas_format(disk: Disk, directory: str) -> None:
    checkpoint = HighWatermarkCheckpoint(disk, directory)
    assert checkpoint.load() == 0
    checkpoint.save(2**63 - 1)
    assert checkpoint.load() == 2**63 - 1
    checkpoint.save(123)
    checkpoint.save(4567)
    assert checkpoint.load() == 4567
    assert (
        read_whole(disk, f"{directory}/replication-offset-checkpoint") == b"0\n1\n__cluster_metadata 0 4567\n"
    )


def test_high_watermark_is_found_among_other_partitions(disk: Disk, directory: str) -> None:
    path = f"{directory}/replication-offset-checkpoint"
    checkpoint = HighWatermarkCheckpoint(disk, directory)
    write_atomically(disk, path, b"0\n2\nother 0 9\n__cluster_metadata 0 12\n")
    assert checkpoint.load() == 12
    for without in (b"0\n1\nother 0 9\n", b"0\n0\n"):
        write_atomically(disk, path, without)
        assert checkpoint.load() == 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n1\n__cluster_metadata 0 4\n",
        b"0\n2\n__cluster_metadata 0 4\n",
        b"0\n1\n__cluster_metadata 0 -4\n",
        b"0\n1\n__cluster_metadata 0 \xff\n",
        b"0\n1\n__cluster_metadata 0 9223372036854775808\n",
        b"0\n1\n__cluster_metadata 0 " + b"7" * 4301 + b"\n",
    ],
)
def test_damaged_high_watermark_checkpoint_is_refused(disk: Disk, directory: str, content: bytes) -> None:
    write_atomically(disk, f"{directory}/replication-offset-checkpoint", content)
    with pytest.raises(CorruptLog, match="replication-offset-checkpoint"):
        HighWatermarkCheckpoint(disk, directory).load()


def test_lock_is_exclusive(disk: Disk, directory: str) -> None:
    held = lock_directory(disk, directory)
    with pytest.raises(StorageError, match=directory):
        lock_directory(disk, directory)
    held.close()
    lock_directory(disk, directory).close()


def test_holder_of_a_lock_is_named_if_it_can_be_read() -> None:
    heap = EventHeap()
    disk = SimulatedDisk(heap, Random(1))
    disk.mount(Process("node"))
    lock_directory(disk, "/").write_at(0, b"4711\n")
    with pytest.raises(DirectoryInUse, match=r"another process \(pid 4711\)"):
        lock_directory(disk, "/")
    disk.fail_reads(1, 1)
    heap.call_later(0.0, lambda: lock_directory(disk, "/"), b"tool")
    with pytest.raises(DirectoryInUse, match="another process, which holds"):
        heap.step(1.0)


def test_directory_that_is_not_there_cannot_be_locked(disk: Disk, directory: str) -> None:
    with pytest.raises(StorageError, match=f"{directory}/missing"):
        lock_directory(disk, f"{directory}/missing")


def test_partition_metadata_has_the_topic_id(disk: Disk, directory: str) -> None:
    topic_id = KafkaUuid(bytes(range(16)))
    assert read_topic_id(disk, directory) is None
    ensure_partition_metadata(disk, directory, topic_id)
    assert read_whole(disk, f"{directory}/partition.metadata") == f"version: 0\ntopic_id: {topic_id}".encode()
    assert read_topic_id(disk, directory) == topic_id
    with pytest.raises(CorruptLog, match="belongs to another partition"):
        ensure_partition_metadata(disk, directory)
    for content in (
        b"",
        b"version: 0\n",
        b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        b"version: 0\ntopic_id: x",
    ):
        write_atomically(disk, f"{directory}/partition.metadata", content)
        with pytest.raises(CorruptLog, match="topic id"):
            read_topic_id(disk, directory)
