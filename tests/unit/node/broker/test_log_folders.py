"""Folders are locked all or none."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import StorageError
from quorumd.node.broker.log_folders import lock_folders
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap


def test_missing_folder_leaves_the_others_unlocked() -> None:
    disk = SimulatedDisk(EventHeap(), Random(1))
    disk.make_directory("/one")
    with pytest.raises(StorageError):
        lock_folders(disk, ["/one", "/missing"])
    (lock,) = lock_folders(disk, ["/one"])
    with pytest.raises(StorageError):
        lock_folders(disk, ["/one"])
    lock.close()
