"""Logs of small batches that roll often, filled and read in one call."""

from __future__ import annotations

from random import Random

from quorumd.log import LogSettings
from quorumd.log.segmented_log import SegmentedLog
from quorumd.log.tail_cache import TailCache
from quorumd.ports import Disk
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.record_batch import encode_batch
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process

SMALL = LogSettings(segment_bytes=1000, index_interval_bytes=150, allocate_bytes=300, reserve_bytes=2000)
NO_LIMIT = 2**40
BATCH_SIZE = 88
"""Size of a batch of one record with 20 bytes: eleven fit into a SMALL segment."""


def batch(offset: int, epoch: int = 1, count: int = 1, size: int = 20, at: int = 0) -> bytes:
    return encode_batch(offset, epoch, at, [bytes([offset % 251]) * size] * count)


def open_log(disk: Disk, directory: str, settings: LogSettings = SMALL) -> SegmentedLog:
    """Open the log in a directory, which must not need repair."""
    log, report = SegmentedLog.open(disk, directory, settings)
    assert report.truncations == ()
    assert report.end_offset == log.end_offset
    return log


def fill(log: SegmentedLog, count: int, epoch: int = 1, size: int = 20) -> list[bytes]:
    batches = []
    for _ in range(count):
        offset = log.end_offset
        batches.append(batch(offset, epoch, size=size))
        log.append(batches[-1], offset + 1)
    return batches


def read_all(log: SegmentedLog) -> bytes:
    parts = []
    offset = log.start_offset
    while data := log.read(offset, 200):
        parts.append(data)
        offset = list(headers(data))[-1].end_offset
    assert offset == log.end_offset
    return b"".join(parts)


def without_cache(log: SegmentedLog) -> None:
    log._tail = TailCache(capacity=0)


def fresh_disk(seed: int) -> SimulatedDisk:
    """Return a simulated disk with an empty, durable directory `log`."""
    disk = SimulatedDisk(EventHeap(), Random(seed))
    disk.mount(Process("test"))
    disk.make_directory("log")
    disk.sync_directory(".")
    return disk


def restart_after_power_loss(disk: SimulatedDisk) -> None:
    """Lose power, and some of the unsynced writes."""
    disk.lose_power()
    disk.mount(Process("test"))


def fail_with_io_error(*arguments: object) -> None:
    raise OSError(5, "Input/output error")


def fail_with_disk_full(*arguments: object, **options: object) -> None:
    raise OSError(28, "No space left on device")
