"""Sizes and positions that a log reports for snapshots and metrics."""

from __future__ import annotations

from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.snapshot_store import SnapshotStore
from quorumd.simulator.environment.disk import SimulatedDisk
from tests.support.log.small_logs import fill, open_log
from tests.support.log.snapshots import TIMESTAMP_MS, write_snapshot


def test_bytes_after_an_offset(memory_disk: SimulatedDisk, directory: str) -> None:
    log = open_log(memory_disk, directory, LogSettings(segment_bytes=1000, index_interval_bytes=100))
    batches = fill(log, 50)
    assert log.bytes_after(0) == sum(map(len, batches))
    assert log.bytes_after(log.end_offset) == 0
    for offset in range(50):
        excess = log.bytes_after(offset) - sum(map(len, batches[offset:]))
        assert 0 <= excess <= 100 + len(batches[0])


def test_active_segment_and_free_space(memory_disk: SimulatedDisk, directory: str) -> None:
    log = open_log(memory_disk, directory, LogSettings(segment_bytes=1000))
    assert log.active_base_offset == 0
    fill(log, 50)
    bases = [segment.base_offset for segment in log.segments()]
    assert log.active_base_offset == bases[-1] > 0
    before = log.free_bytes()
    memory_disk.capacity = memory_disk.used_bytes() + 10_000
    assert log.free_bytes() == 10_000 < before


def test_snapshot_timestamp(memory_disk: SimulatedDisk, directory: str) -> None:
    snapshot = OffsetAndEpoch(42, 7)
    write_snapshot(memory_disk, directory, snapshot)
    store = SnapshotStore(memory_disk, directory)
    assert store.timestamp_ms(snapshot) == TIMESTAMP_MS
    assert store.timestamp_ms(OffsetAndEpoch(43, 7)) == 0
    assert "42-7" in repr(store)
