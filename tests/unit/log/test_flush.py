"""Group commit: the data that a flush makes durable, its order, and failures, which are final."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import FlushFailed
from quorumd.log.atomic_file import read_whole
from quorumd.log.segmented_log import SegmentedLog
from quorumd.ports import Disk, File
from quorumd.simulator.environment.disk import SimulatedDisk
from tests.support.log.small_logs import (
    SMALL,
    fail_with_io_error,
    fill,
    fresh_disk,
    open_log,
    read_all,
    restart_after_power_loss,
)


class Recording:
    """A disk that writes down what is synced."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.synced: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def open(self, path: str, *, create: bool = False) -> File:
        file: Any = RecordedFile(self._disk.open(path, create=create), self.synced, path.rpartition("/")[2])
        return file

    def sync_directory(self, path: str) -> None:
        self.synced.append("directory")
        self._disk.sync_directory(path)


class RecordedFile:
    def __init__(self, file: File, synced: list[str], name: str) -> None:
        self._file = file
        self._synced = synced
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        self._synced.append(self._name)
        self._file.sync()


class TestFlush:
    def test_syncs_written_files_only(self, disk: Disk, directory: str) -> None:
        recording: Any = Recording(disk)
        log = open_log(recording, directory)
        recording.synced.clear()
        assert log.begin_flush()() == 0
        fill(log, 1)
        log.begin_flush()()
        recording.synced.clear()
        fill(log, 2)
        flush = log.begin_flush()
        fill(log, 1)
        assert flush() == 3
        assert recording.synced == [f"{0:020d}.log"]
        assert log.begin_flush()() == 4
        assert recording.synced == [f"{0:020d}.log"] * 2
        assert log.begin_flush()() == 4
        assert recording.synced == [f"{0:020d}.log"] * 2
        log.close()

    def test_old_segments_before_new_ones_then_the_directory(self, disk: Disk, directory: str) -> None:
        recording: Any = Recording(disk)
        log = open_log(recording, directory)
        fill(log, 1)
        log.begin_flush()()
        recording.synced.clear()
        fill(log, 30)
        assert log.begin_flush()() == 31
        assert recording.synced == [f"{base:020d}.log" for base in (0, 11, 22)] + ["directory"]
        log.close()

    def test_new_epoch_is_in_the_checkpoint_after_the_flush(self, disk: Disk, directory: str) -> None:
        path = f"{directory}/leader-epoch-checkpoint"
        log = open_log(disk, directory)
        fill(log, 2, epoch=3)
        log.begin_flush()()
        assert read_whole(disk, path) == b"0\n1\n3 0\n"
        fill(log, 2, epoch=4)
        log.begin_flush()()
        assert read_whole(disk, path) == b"0\n2\n3 0\n4 2\n"
        log.truncate(1)
        log.begin_flush()()
        assert read_whole(disk, path) == b"0\n1\n3 0\n"
        log.close()

    def test_flushed_records_survive_every_crash(self) -> None:
        for seed in range(60):
            disk = fresh_disk(seed)
            log = open_log(disk, "log")
            batches = fill(log, seed % 30)
            flushed = log.begin_flush()()
            batches += fill(log, 20)
            restart_after_power_loss(disk)
            log, report = SegmentedLog.open(disk, "log", SMALL, known_high_watermark=flushed)
            assert flushed <= report.end_offset <= len(batches)
            assert read_all(log) == b"".join(batches[: report.end_offset])

    def test_truncated_records_do_not_return_after_a_crash(self) -> None:
        """Also those of whole segments, although nothing is flushed after the truncation."""
        for seed in range(20):
            disk = fresh_disk(seed)
            log = open_log(disk, "log")
            batches = fill(log, 30)
            log.begin_flush()()
            log.truncate(5)
            restart_after_power_loss(disk)
            assert read_all(open_log(disk, "log")) == b"".join(batches[:5])

    def test_one_at_a_time(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, directory)
        flush = log.begin_flush()
        with pytest.raises(RuntimeError, match="flush"):
            log.begin_flush()
        flush()
        log.close()

    def test_failure_is_final(self, memory_disk: SimulatedDisk, directory: str) -> None:
        log = open_log(memory_disk, directory)
        fill(log, 2)
        memory_disk.fail_sync()
        with pytest.raises(FlushFailed, match=r"0\.log .*Input/output error"):
            log.begin_flush()()
        for _ in range(2):
            with pytest.raises(FlushFailed):
                log.begin_flush()()
        assert memory_disk.syncs_failed == 1
        log.close()

    def test_directory_that_cannot_be_synced_fails_the_flush(
        self, memory_disk: SimulatedDisk, directory: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(memory_disk, directory)
        fill(log, 30)
        monkeypatch.setattr(memory_disk, "sync_directory", fail_with_io_error)
        with pytest.raises(FlushFailed, match=directory):
            log.begin_flush()()

    def test_unexpected_error_of_a_flush_is_final(
        self, memory_disk: SimulatedDisk, directory: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(file: object) -> None:
            raise MemoryError("no memory")

        log = open_log(memory_disk, directory)
        fill(log, 2)
        monkeypatch.setattr(memory_disk, "before_sync", fail)
        with pytest.raises(FlushFailed, match="MemoryError"):
            log.begin_flush()()
        monkeypatch.undo()
        with pytest.raises(FlushFailed):
            log.begin_flush()()
