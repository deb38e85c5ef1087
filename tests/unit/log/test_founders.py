"""Founders that `format_folder` writes into the quorum-state of a folder without records."""

from __future__ import annotations

import json

import pytest

from quorumd.errors import CorruptLog, StorageError
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.log.atomic_file import read_whole, write_atomically
from quorumd.log.meta_properties import MetaProperties, format_folder, partition_folder
from quorumd.log.quorum_state_file import Founder, QuorumStateFile
from quorumd.ports import Disk

ONE = KafkaUuid.parse("J8aAPcfLQt2bqs1JT_rMgQ")
TWO = KafkaUuid.parse("K8aAPcfLQt2bqs1JT_rMgQ")
OTHER = Founder(2, TWO, "b", 2)


def make(disk: Disk, folder: str, *founders: Founder, bootstrap: bytes | None = None) -> MetaProperties:
    return format_folder(disk, folder, node_id=1, directory_id=ONE, founders=founders, bootstrap=bootstrap)


def saved(disk: Disk, folder: str) -> tuple[Founder, ...] | None:
    state = QuorumStateFile(disk, partition_folder(folder)).load()
    assert state is not None
    return state.founders


@pytest.mark.parametrize("directory_id", [ONE, ZERO_UUID])
def test_founders_are_saved_with_the_own_directory_id(
    disk: Disk, folder: str, directory_id: KafkaUuid
) -> None:
    make(disk, folder, Founder(1, directory_id, "a", 1), OTHER)
    assert saved(disk, folder) == (Founder(1, ONE, "a", 1), OTHER)
    make(disk, folder, Founder(1, ZERO_UUID, "a", 1), OTHER)
    assert saved(disk, folder) == (Founder(1, ONE, "a", 1), OTHER)


def test_bootstrap_file_is_written_to_a_new_folder_only(disk: Disk, folder: str) -> None:
    make(disk, folder, OTHER, bootstrap=b"first")
    make(disk, folder, OTHER, bootstrap=b"second")
    assert read_whole(disk, f"{folder}/bootstrap.checkpoint") == b"first"


def test_another_directory_id_of_the_own_node_is_an_error(disk: Disk, folder: str) -> None:
    with pytest.raises(StorageError, match=str(TWO)):
        make(disk, folder, Founder(1, TWO, "a", 1))


@pytest.mark.parametrize("name", ["00000000000000000000.log", "00000000000000000042-0000000007.checkpoint"])
def test_folder_with_records_takes_no_founders(disk: Disk, folder: str, name: str) -> None:
    make(disk, folder, OTHER)
    write_atomically(disk, f"{partition_folder(folder)}/{name}", b"x" * 61)
    with pytest.raises(StorageError):
        make(disk, folder, Founder(1, ONE, "a", 1))
    assert saved(disk, folder) == (OTHER,)


def test_empty_segment_is_not_a_record(disk: Disk, folder: str) -> None:
    make(disk, folder, OTHER)
    write_atomically(disk, f"{partition_folder(folder)}/00000000000000000000.log", bytes(100))
    make(disk, folder, Founder(1, ONE, "a", 1))
    assert saved(disk, folder) == (Founder(1, ONE, "a", 1),)


@pytest.mark.parametrize("founders", [1, ["a"], {}])
def test_malformed_founders_are_corrupt(disk: Disk, folder: str, founders: object) -> None:
    make(disk, folder, OTHER)
    path = f"{partition_folder(folder)}/quorum-state"
    fields = json.loads(read_whole(disk, path) or b"")
    write_atomically(disk, path, json.dumps(fields | {"founders": founders}).encode())
    with pytest.raises(CorruptLog, match="quorum-state"):
        saved(disk, folder)
