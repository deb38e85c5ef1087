"""Directories that can be used are locked all or none."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import DirectoryInUse
from quorumd.node.broker.log_directories import lock_directories, record_cluster_id
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(EventHeap(), Random(1))
    for directory in ("/one", "/two"):
        disk.make_directory(directory)
    return disk


def test_directory_in_use_leaves_the_others_unlocked(disk: SimulatedDisk) -> None:
    (two,) = lock_directories(disk, ["/two"])
    with pytest.raises(DirectoryInUse):
        lock_directories(disk, ["/one", "/two"])
    two.close()
    assert len(lock_directories(disk, ["/one", "/two"])) == 2


def test_unusable_directory_is_left_to_the_broker(disk: SimulatedDisk) -> None:
    assert len(lock_directories(disk, ["/missing", "/one"])) == 1
    record_cluster_id(disk, ["/missing", "/one"], "4L6g3nShT-eMCtK--X86sw")
