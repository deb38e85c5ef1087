"""A full disk refuses appends, and nothing else."""

from __future__ import annotations

import pytest

from quorumd.errors import DiskFull, FlushFailed
from quorumd.log import LogSettings
from quorumd.log.atomic_file import read_whole
from quorumd.log.segmented_log import SegmentedLog
from quorumd.simulator.environment.disk import SimulatedDisk
from tests.support.log.small_logs import (
    SMALL,
    batch,
    fail_with_disk_full,
    fail_with_io_error,
    fill,
    fresh_disk,
    open_log,
    read_all,
    restart_after_power_loss,
)


class TestFullDisk:
    def test_refuses_appends_and_reads_on(self, memory_disk: SimulatedDisk, directory: str) -> None:
        log = open_log(memory_disk, directory)
        batches = fill(log, 2)
        log.begin_flush()()
        memory_disk.capacity = memory_disk.used_bytes() + 100
        batches += self.fill_up(log)
        end_offset = log.end_offset
        assert not log.has_free_space()
        assert read_all(log) == b"".join(batches)
        memory_disk.capacity += 1000
        with pytest.raises(DiskFull, match=r"\b2000 bytes"):
            log.append(batch(end_offset), end_offset + 1)
        memory_disk.capacity += 1000
        assert log.has_free_space()
        batches += fill(log, 20)
        log.begin_flush()()
        log.close()
        log = open_log(memory_disk, directory)
        assert read_all(log) == b"".join(batches)

    def test_accepts_appends_again_once_exactly_the_reserve_is_free(
        self, memory_disk: SimulatedDisk, directory: str
    ) -> None:
        log = open_log(memory_disk, directory)
        memory_disk.capacity = memory_disk.used_bytes() + 100
        self.fill_up(log)
        reserve_bytes = SMALL.reserve_bytes
        memory_disk.capacity += reserve_bytes - 1 - log.free_bytes()
        assert (log.free_bytes(), log.has_free_space()) == (reserve_bytes - 1, False)
        memory_disk.capacity += 1
        assert (log.free_bytes(), log.has_free_space()) == (reserve_bytes, True)

    def test_partial_write_is_removed(self) -> None:
        for seed in range(60):
            disk = fresh_disk(seed)
            log = open_log(disk, "log", LogSettings(allocate_bytes=0))
            batches = fill(log, 3)
            log.begin_flush()()
            # Room for the first of two batches, and half of the second.
            disk.capacity = disk.used_bytes() + 130
            with pytest.raises(DiskFull):
                log.append(batch(3) + batch(4), 5)
            assert log.end_offset == 3
            assert read_all(log) == b"".join(batches)
            disk.capacity = 1 << 40
            another = batch(3, epoch=2, size=1)
            log.append(another, 4)
            restart_after_power_loss(disk)
            log, _ = SegmentedLog.open(disk, "log", LogSettings())
            assert read_all(log) in (b"".join(batches), b"".join(batches) + another)

    def test_frees_its_allocated_blocks(self, memory_disk: SimulatedDisk, directory: str) -> None:
        settings = LogSettings(allocate_bytes=10_000)
        log = open_log(memory_disk, directory, settings)
        fill(log, 3)
        memory_disk.capacity = memory_disk.used_bytes() + 5000
        self.fill_up(log)
        assert memory_disk.free_bytes(directory) > 4000

    def test_new_segment_cannot_be_allocated(self, memory_disk: SimulatedDisk, directory: str) -> None:
        log = open_log(memory_disk, directory)
        batches = fill(log, 11)
        memory_disk.capacity = memory_disk.used_bytes()
        with pytest.raises(DiskFull):
            log.append(batch(11), 12)
        assert (log.end_offset, log.has_free_space()) == (11, False)
        memory_disk.capacity = 1 << 40
        batches += fill(log, 20)
        log.begin_flush()()
        log.close()
        assert read_all(open_log(memory_disk, directory)) == b"".join(batches)

    def test_new_segment_cannot_be_created(
        self, memory_disk: SimulatedDisk, directory: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(memory_disk, directory)
        batches = fill(log, 11)
        with monkeypatch.context() as patched:
            patched.setattr(memory_disk, "open", fail_with_disk_full)
            with pytest.raises(DiskFull):
                log.append(batch(11), 12)
        batches += fill(log, 20)
        assert read_all(log) == b"".join(batches)

    def test_flush_succeeds_without_space_for_the_epoch_checkpoint(
        self, memory_disk: SimulatedDisk, directory: str
    ) -> None:
        log = open_log(memory_disk, directory)
        fill(log, 1)
        memory_disk.capacity = 0
        assert log.begin_flush()() == 1
        memory_disk.capacity = 1 << 40
        log.close()
        open_log(memory_disk, directory).close()
        assert read_whole(memory_disk, f"{directory}/leader-epoch-checkpoint") == b"0\n1\n1 0\n"

    def test_other_write_errors_stop_the_log(
        self, memory_disk: SimulatedDisk, directory: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(memory_disk, directory)
        batches = fill(log, 1)
        with monkeypatch.context() as patched:
            patched.setattr(memory_disk, "free_space_for", fail_with_io_error)
            with pytest.raises(FlushFailed):
                log.append(batch(1), 2)
        assert read_all(log) == b"".join(batches)
        with pytest.raises(FlushFailed):
            log.begin_flush()()

    def fill_up(self, log: SegmentedLog) -> list[bytes]:
        batches = []
        while True:
            offset = log.end_offset
            data = batch(offset)
            try:
                log.append(data, offset + 1)
            except DiskFull:
                assert log.end_offset == offset
                return batches
            batches.append(data)
