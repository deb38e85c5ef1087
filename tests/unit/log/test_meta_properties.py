"""meta.properties: Kafka's format, and data directories that keep their owner."""

from __future__ import annotations

import pytest

from quorumd.errors import CorruptLog, StorageError
from quorumd.ids import KafkaUuid
from quorumd.log.atomic_file import read_whole, write_atomically
from quorumd.log.meta_properties import (
    MetaProperties,
    format_directory,
    load_meta_properties,
    partition_directory,
    save_meta_properties,
)
from quorumd.ports import Disk
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import Process

ONE = KafkaUuid.parse("J8aAPcfLQt2bqs1JT_rMgQ")
TWO = KafkaUuid.parse("K8aAPcfLQt2bqs1JT_rMgQ")


@pytest.mark.parametrize("cluster_id", [None, "5L6g3nShT-eMCtK--X86sw", "with=odd:chars#and\\more!"])
def test_round_trip(disk: Disk, directory: str, cluster_id: str | None) -> None:
    assert load_meta_properties(disk, directory) is None
    meta = MetaProperties(3, ONE, cluster_id)
    save_meta_properties(disk, directory, meta)
    assert load_meta_properties(disk, directory) == meta


def test_has_the_lines_that_kafka_reads(disk: Disk, directory: str) -> None:
    save_meta_properties(disk, directory, MetaProperties(3, ONE, "5L6g3nShT-eMCtK--X86sw"))
    assert read_whole(disk, f"{directory}/meta.properties") == (
        b"version=1\ncluster.id=5L6g3nShT-eMCtK--X86sw\nnode.id=3\ndirectory.id=J8aAPcfLQt2bqs1JT_rMgQ\n"
    )


def test_reads_what_java_writes(disk: Disk, directory: str) -> None:
    text = (
        "#\n#Mon Jan 05 10:00:00 UTC 2026\r\n! note\n\nnode.id=3\ndirectory.id = J8aAPcfLQt2bqs1JT_rMgQ\n"
        "version=1\ncluster.id=a\\:b\n"
    )
    write_atomically(disk, f"{directory}/meta.properties", text.encode())
    assert load_meta_properties(disk, directory) == MetaProperties(3, ONE, "a:b")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "version is None"),
        ("version=0\nbroker.id=1", "version is '0'"),
        ("version=1\ndirectory.id=J8aAPcfLQt2bqs1JT_rMgQ", "node.id is missing"),
        ("version=1\nnode.id=1", "directory.id is missing"),
        ("version=1\nnode.id=-1\ndirectory.id=J8aAPcfLQt2bqs1JT_rMgQ", "node.id is '-1'"),
        ("version=1\nnode.id=2147483648\ndirectory.id=J8aAPcfLQt2bqs1JT_rMgQ", "node.id is '2147483648'"),
        ("version=1\nnode.id=1\ndirectory.id=nope", "'nope' is not a Kafka Uuid"),
        (
            f"version=1\nnode.id=1\ndirectory.id=J8aAPcfLQt2bqs1JT_rMgQ\ncluster.id={'x' * 32768}",
            "cluster.id has more than 32767 bytes",
        ),
    ],
)
def test_rejects_invalid_files(disk: Disk, directory: str, text: str, fault: str) -> None:
    write_atomically(disk, f"{directory}/meta.properties", text.encode())
    with pytest.raises(CorruptLog, match=f"{directory}/meta.properties: {fault}"):
        load_meta_properties(disk, directory)


def test_longest_cluster_id_is_read(disk: Disk, directory: str) -> None:
    meta = MetaProperties(1, ONE, "x" * 32767)
    save_meta_properties(disk, directory, meta)
    assert load_meta_properties(disk, directory) == meta


def test_format_makes_directories_and_files(disk: Disk, directory: str) -> None:
    data_directory = f"{directory}/deep/node"
    meta = format_directory(disk, data_directory, node_id=1, directory_id=ONE)
    assert meta == MetaProperties(1, ONE, None)
    assert load_meta_properties(disk, data_directory) == meta
    assert disk.list_directory(partition_directory(data_directory)) == ["partition.metadata"]


def test_formatted_directory_survives_a_crash(memory_disk: SimulatedDisk) -> None:
    format_directory(memory_disk, "some/where/node", node_id=1, directory_id=ONE)
    memory_disk.lose_power()
    memory_disk.mount(Process("test"))
    assert load_meta_properties(memory_disk, "some/where/node") == MetaProperties(1, ONE)
    assert memory_disk.list_directory(partition_directory("some/where/node")) == ["partition.metadata"]


def test_formatting_again_keeps_the_directory_id(disk: Disk, directory: str) -> None:
    format_directory(disk, directory, node_id=1, directory_id=ONE)
    assert format_directory(disk, directory, node_id=1, directory_id=TWO) == MetaProperties(1, ONE)
    assert format_directory(disk, directory, node_id=1, directory_id=TWO, cluster_id="A") == MetaProperties(
        1, ONE, "A"
    )
    assert format_directory(disk, directory, node_id=1, directory_id=TWO) == MetaProperties(1, ONE, "A")
    assert load_meta_properties(disk, directory) == MetaProperties(1, ONE, "A")


@pytest.mark.parametrize(("node_id", "cluster_id"), [(2, "A"), (1, "B"), (2, None)])
def test_directory_of_another_node_or_cluster_is_rejected(
    disk: Disk, directory: str, node_id: int, cluster_id: str | None
) -> None:
    format_directory(disk, directory, node_id=1, directory_id=ONE, cluster_id="A")
    with pytest.raises(StorageError, match=f"{directory}.* node 1 .*cluster A"):
        format_directory(disk, directory, node_id=node_id, directory_id=TWO, cluster_id=cluster_id)
    kept = format_directory(
        disk, directory, node_id=node_id, directory_id=TWO, cluster_id=cluster_id, ignore_formatted=True
    )
    assert kept == load_meta_properties(disk, directory) == MetaProperties(1, ONE, "A")


def test_directory_that_cannot_be_made_is_named(disk: Disk, directory: str) -> None:
    write_atomically(disk, f"{directory}/file", b"")
    with pytest.raises(StorageError, match=f"{directory}/file/node"):
        format_directory(disk, f"{directory}/file/node", node_id=1, directory_id=ONE)
