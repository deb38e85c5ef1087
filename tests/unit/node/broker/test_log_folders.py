"""Folders that can be used are locked all or none."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import FolderInUse
from quorumd.node.broker.log_folders import lock_folders, record_cluster_id
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(EventHeap(), Random(1))
    for folder in ("/one", "/two"):
        disk.make_directory(folder)
    return disk


def test_folder_in_use_leaves_the_others_unlocked(disk: SimulatedDisk) -> None:
    (two,) = lock_folders(disk, ["/two"])
    with pytest.raises(FolderInUse):
        lock_folders(disk, ["/one", "/two"])
    two.close()
    assert len(lock_folders(disk, ["/one", "/two"])) == 2


def test_unusable_folder_is_left_to_the_broker(disk: SimulatedDisk) -> None:
    assert len(lock_folders(disk, ["/missing", "/one"])) == 1
    record_cluster_id(disk, ["/missing", "/one"], "4L6g3nShT-eMCtK--X86sw")
