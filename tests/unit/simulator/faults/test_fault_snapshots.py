"""Files that operators copy to a machine exist, but are not durable."""

from __future__ import annotations

from random import Random

from quorumd.ids import OffsetAndEpoch
from quorumd.log.meta_properties import partition_directory
from quorumd.log.snapshot_file import file_name
from quorumd.protocol.record_batch import encode_batch
from quorumd.simulator.data_directories import DATA_DIRECTORY
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.inspection.log_mirror import DurableLog, batches_in

PARTITION = partition_directory(DATA_DIRECTORY)


def test_copied_file_is_not_durable() -> None:
    lost = set()
    for seed in range(30):
        disk = SimulatedDisk(EventHeap(), Random(seed))
        disk.mount(Process("node-1"))
        disk.make_directory(PARTITION)
        disk.sync_directory("/")
        disk.sync_directory(DATA_DIRECTORY)
        path = f"{PARTITION}/x"
        assert disk.put(path, b"x" * 2000)
        assert not disk.put(path, b"y")
        assert disk.contents()[path] == b"x" * 2000
        disk.sync_directory(PARTITION)
        disk.lose_power()
        lost.add(len(disk.contents()[path].rstrip(b"\0")))
    assert {0, 2000} < lost


def test_snapshot_counts_for_the_durable_log_once_it_is_synced() -> None:
    disk = SimulatedDisk(EventHeap(), Random(1))
    disk.mount(Process("node-1"))
    disk.make_directory(PARTITION)
    path = f"{PARTITION}/{file_name(OffsetAndEpoch(2, 1))}"
    disk.put(path, b"snapshot")
    for directory in ("/", DATA_DIRECTORY, PARTITION):
        disk.sync_directory(directory)
    log = DurableLog(disk, PARTITION)
    batches = batches_in(encode_batch(0, 1, 0, [b"a", b"b"]))
    assert log.holds(batches) == 0
    file = disk.open(path)
    file.sync()
    assert log.holds(batches) == 1
