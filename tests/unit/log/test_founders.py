"""Founders that `format_directory` writes into the quorum-state of a directory without records."""

from __future__ import annotations

import json

import pytest

from quorumd.errors import CorruptLog, StorageError
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.log.atomic_file import read_whole, write_atomically
from quorumd.log.meta_properties import MetaProperties, format_directory, partition_directory
from quorumd.log.quorum_state_file import Founder, QuorumStateFile
from quorumd.ports import Disk

ONE = KafkaUuid.parse("J8aAPcfLQt2bqs1JT_rMgQ")
TWO = KafkaUuid.parse("K8aAPcfLQt2bqs1JT_rMgQ")
OTHER = Founder(2, TWO, "b", 2)


def make(disk: Disk, directory: str, *founders: Founder, bootstrap: bytes | None = None) -> MetaProperties:
    return format_directory(
        disk, directory, node_id=1, directory_id=ONE, founders=founders, bootstrap=bootstrap
    )


def saved(disk: Disk, directory: str) -> tuple[Founder, ...] | None:
    state = QuorumStateFile(disk, partition_directory(directory)).load()
    assert state is not None
    return state.founders


@pytest.mark.parametrize("directory_id", [ONE, ZERO_UUID])
def test_founders_are_saved_with_the_own_directory_id(
    disk: Disk, directory: str, directory_id: KafkaUuid
) -> None:
    make(disk, directory, Founder(1, directory_id, "a", 1), OTHER)
    assert saved(disk, directory) == (Founder(1, ONE, "a", 1), OTHER)
    make(disk, directory, Founder(1, ZERO_UUID, "a", 1), OTHER)
    assert saved(disk, directory) == (Founder(1, ONE, "a", 1), OTHER)


def test_bootstrap_file_is_written_to_a_new_directory_only(disk: Disk, directory: str) -> None:
    make(disk, directory, OTHER, bootstrap=b"first")
    make(disk, directory, OTHER, bootstrap=b"second")
    assert read_whole(disk, f"{directory}/bootstrap.checkpoint") == b"first"


def test_another_directory_id_of_the_own_node_is_an_error(disk: Disk, directory: str) -> None:
    with pytest.raises(StorageError, match=str(TWO)):
        make(disk, directory, Founder(1, TWO, "a", 1))


@pytest.mark.parametrize("name", ["00000000000000000000.log", "00000000000000000042-0000000007.checkpoint"])
def test_directory_with_records_takes_no_founders(disk: Disk, directory: str, name: str) -> None:
    make(disk, directory, OTHER)
    write_atomically(disk, f"{partition_directory(directory)}/{name}", b"x" * 61)
    with pytest.raises(StorageError):
        make(disk, directory, Founder(1, ONE, "a", 1))
    assert saved(disk, directory) == (OTHER,)


def test_empty_segment_is_not_a_record(disk: Disk, directory: str) -> None:
    make(disk, directory, OTHER)
    write_atomically(disk, f"{partition_directory(directory)}/00000000000000000000.log", bytes(100))
    make(disk, directory, Founder(1, ONE, "a", 1))
    assert saved(disk, directory) == (Founder(1, ONE, "a", 1),)


@pytest.mark.parametrize("founders", [1, ["a"], {}])
def test_malformed_founders_are_corrupt(disk: Disk, directory: str, founders: object) -> None:
    make(disk, directory, OTHER)
    path = f"{partition_directory(directory)}/quorum-state"
    fields = json.loads(read_whole(disk, path) or b"")
    write_atomically(disk, path, json.dumps(fields | {"founders": founders}).encode())
    with pytest.raises(CorruptLog, match="quorum-state"):
        saved(disk, directory)
