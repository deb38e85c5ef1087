"""The log as a node uses it: append, read, roll, truncate, flush, full disk, close."""

from __future__ import annotations

from random import Random
from struct import iter_unpack
from typing import Any

import pytest

from quorumd.errors import CorruptLog, DiskFull, FlushFailed, MalformedMessage, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.atomic_file import read_whole
from quorumd.log.segmented_log import SegmentedLog
from quorumd.log.tail_cache import TailCache
from quorumd.ports import Disk, File
from quorumd.protocol.record_batch import encode_batch, headers
from quorumd.simulator.disk import SimulatedDisk
from quorumd.simulator.event_heap import EventHeap, Process

SMALL = LogSettings(segment_bytes=1000, index_interval_bytes=150, allocate_bytes=300, reserve_bytes=2000)
NO_LIMIT = 2**40
BATCH_SIZE = 88
"""Of one record with 20 bytes: eleven of them fit a SMALL segment."""


def batch(offset: int, epoch: int = 1, count: int = 1, size: int = 20, at: int = 0) -> bytes:
    return encode_batch(offset, epoch, at, [bytes([offset % 251]) * size] * count)


def open_log(disk: Disk, folder: str, settings: LogSettings = SMALL) -> SegmentedLog:
    """The log in a folder, which must not need repair."""
    log, report = SegmentedLog.open(disk, folder, settings)
    assert report.cuts == ()
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


class TestAppendAndRead:
    def test_an_empty_log(self, disk: Disk, folder: str) -> None:
        log = open_log(disk, f"{folder}/new")
        assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 0, 0)
        assert log.end_of_epoch(5) == OffsetAndEpoch(0, 0)
        assert log.read(0, 100) == b""
        assert repr(log) == "<log 0..0 epoch 0, 1 segments, has room>"
        log.close()

    def test_epochs(self, disk: Disk, folder: str) -> None:
        log = open_log(disk, folder)
        log.append(batch(0, 2, 3) + batch(3, 2) + batch(4, 5), 5)
        log.append(batch(5, 5), 6)
        assert (log.end_offset, log.last_epoch) == (6, 5)
        assert log.end_of_epoch(1) == OffsetAndEpoch(0, 0)
        assert log.end_of_epoch(4) == OffsetAndEpoch(4, 2)
        assert log.end_of_epoch(9) == OffsetAndEpoch(6, 5)
        log.close()

    @pytest.mark.parametrize("cached", [True, False])
    def test_reads_whole_batches_within_limit_and_bound(self, disk: Disk, folder: str, cached: bool) -> None:
        log = open_log(disk, folder, LogSettings(index_interval_bytes=150))
        if not cached:
            without_cache(log)
        random = Random(5)
        everything = b""
        for _ in range(25):
            data = batch(log.end_offset, 1, random.randint(1, 4), random.randint(1, 300))
            log.append(data, next(headers(data)).end_offset)
            everything += data
        all_headers = list(headers(everything))
        for offset in range(log.end_offset):
            for limit in (0, 100, 500, 2000, NO_LIMIT):
                for below in (None, offset + 1, offset + 5, 30):
                    expected = b""
                    for header in all_headers:
                        if header.end_offset > offset:
                            too_much = expected and len(expected) + header.size > limit
                            if too_much or (below is not None and header.end_offset > below):
                                break
                            expected += everything[header.position : header.position + header.size]
                    assert log.read(offset, limit, below) == expected
        assert log.read(log.end_offset, 100) == log.read(log.end_offset + 9, 100) == b""
        assert log.read(3, 100, below=3) == b""
        log.close()

    def test_a_batch_larger_than_all_windows_is_found_and_passed(self, disk: Disk, folder: str) -> None:
        log = open_log(disk, folder, LogSettings())
        without_cache(log)
        batches = [batch(0), batch(1, size=100_000), batch(2), batch(3)]
        log.append(b"".join(batches), 4)
        for offset, data in enumerate(batches):
            assert log.read(offset, 1) == data
        log.close()
        log = open_log(disk, folder, LogSettings())
        assert [log.read(offset, 1) for offset in range(4)] == batches
        log.close()

    def test_below_the_start_is_the_callers_mistake(self, disk: Disk, folder: str) -> None:
        log = open_log(disk, folder)
        fill(log, 1)
        with pytest.raises(ValueError, match="offset -1 is below the log's start 0"):
            log.read(-1, 100)
        log.close()

    @pytest.mark.parametrize(
        ("data", "end"), [(batch(4), 5), (batch(3, count=2), 4), (batch(3) + batch(5), 5)]
    )
    def test_refuses_what_does_not_continue_the_log(
        self, disk: Disk, folder: str, data: bytes, end: int
    ) -> None:
        log = open_log(disk, folder)
        before = fill(log, 3)
        with pytest.raises(ValueError, match="do not continue a log that ends at 3"):
            log.append(data, end)
        assert log.end_offset == 3
        assert read_all(log) == b"".join(before)
        log.close()

    def test_refuses_a_batch_that_is_cut_off(self, disk: Disk, folder: str) -> None:
        log = open_log(disk, folder)
        with pytest.raises(MalformedMessage):
            log.append(batch(0) + batch(1)[:-1], 2)
        assert log.end_offset == 0
        log.close()

    def test_a_file_that_changes_underneath_is_told(self, memory_disk: SimulatedDisk, folder: str) -> None:
        log = open_log(memory_disk, folder)
        fill(log, 3)
        without_cache(log)
        file = memory_disk.open(f"{folder}/{0:020d}.log")
        file.write_at(BATCH_SIZE, bytes(BATCH_SIZE))
        for offset in (0, 1):
            with pytest.raises(CorruptLog, match=rf"0\.log, reading from offset {offset}: .*format it anew"):
                log.read(offset, NO_LIMIT)
        with pytest.raises(CorruptLog, match=r"0\.log, reading from offset 1"):
            log.truncate(1)

    def test_a_disk_that_cannot_read_is_told(
        self, memory_disk: SimulatedDisk, folder: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(memory_disk, folder)
        fill(log, 3)
        without_cache(log)
        monkeypatch.setattr(memory_disk, "check_power", fail_with_io_error)
        with pytest.raises(StorageError, match=r"0\.log cannot be read: .*Input/output"):
            log.read(2, 100)


class TestRoll:
    def test_by_size(self, disk: Disk, folder: str) -> None:
        log = open_log(disk, folder)
        batches = fill(log, 40)
        names = [name for name in disk.list_directory(folder) if name.endswith(".log")]
        assert len(batches[0]) == BATCH_SIZE
        assert names == [f"{base:020d}.log" for base in (0, 11, 22, 33)]
        assert repr(log) == "<log 0..40 epoch 1, 4 segments, has room>"
        assert read_all(log) == b"".join(batches)
        without_cache(log)
        assert read_all(log) == b"".join(batches)
        log.close()
        log = open_log(disk, folder)
        assert read_all(log) == b"".join(batches)
        log.close()

    def test_by_age(self, disk: Disk, folder: str) -> None:
        log = open_log(disk, folder, LogSettings(segment_ms=1000))
        for offset, at in enumerate((50, 900, 1049, 1050, 2049)):
            log.append(batch(offset, at=at), offset + 1)
        assert log._base_offsets == [0, 3]
        log.close()
        log = open_log(disk, folder, LogSettings(segment_ms=1000))
        log.append(batch(5, at=2050), 6)
        assert log._base_offsets == [0, 3, 5]
        log.close()

    def test_more_than_a_segment_at_once_is_a_segment_of_its_own(self, disk: Disk, folder: str) -> None:
        log = open_log(disk, folder)
        big = batch(0, size=3000)
        log.append(big, 1)
        log.append(batch(1), 2)
        assert log._base_offsets == [0, 1]
        assert log.read(0, 1) == big
        log.close()

    def test_a_sealed_file_is_exactly_its_batches_with_their_indexes(self, disk: Disk, folder: str) -> None:
        log = open_log(disk, folder)
        batches = fill(log, 12)
        assert read_whole(disk, f"{folder}/{0:020d}.log") == b"".join(batches[:11])
        # More than 150 bytes lie before every second batch.
        entries = iter_unpack(">II", read_whole(disk, f"{folder}/{0:020d}.index") or b"")
        assert list(entries) == [(index, index * BATCH_SIZE) for index in (2, 4, 6, 8, 10)]
        assert read_whole(disk, f"{folder}/{0:020d}.timeindex") == bytes(12)
        log.close()


class TestTruncate:
    def test_to_a_batch_boundary_at_or_below(self, disk: Disk, folder: str) -> None:
        for end_offset, expected in ((9, 9), (8, 6), (7, 6), (6, 6), (0, 0), (12, 9)):
            path = f"{folder}/{end_offset}"
            log = open_log(disk, path)
            log.append(batch(0, 1, 3) + batch(3, 2, 3) + batch(6, 3, 3), 9)
            log.truncate(end_offset)
            assert log.end_offset == expected
            assert log.last_epoch == expected // 3
            assert [header.end_offset for header in headers(read_all(log))] == list(range(3, expected + 1, 3))
            log.append(batch(expected, 7), expected + 1)
            kept = read_all(log)
            log.close()
            log = open_log(disk, path)
            assert (log.end_offset, log.last_epoch) == (expected + 1, 7)
            assert read_all(log) == kept
            log.close()

    def test_across_segments(self, disk: Disk, folder: str) -> None:
        for end_offset in (39, 33, 32, 23, 22, 11, 5, 0, -7):
            path = f"{folder}/{end_offset}"
            log = open_log(disk, path)
            batches = fill(log, 40)
            log.begin_flush()()
            log.truncate(end_offset)
            kept = max(end_offset, 0)
            assert log.end_offset == kept
            assert read_all(log) == b"".join(batches[:kept])
            logs = [name for name in disk.list_directory(path) if name.endswith(".log")]
            assert logs == [f"{base:020d}.log" for base in (0, 11, 22, 33) if base <= kept]
            batches[kept:] = fill(log, 20, epoch=2)
            without_cache(log)
            assert read_all(log) == b"".join(batches)
            log.begin_flush()()
            log.close()
            log = open_log(disk, path)
            assert read_all(log) == b"".join(batches)
            log.close()

    def test_cut_batches_never_come_back_behind_new_ones(self) -> None:
        """Old batches may fit exactly behind a shorter new one, in offsets and in epochs."""
        for seed in range(150):
            disk = SimulatedDisk(EventHeap(), Random(seed))
            disk.mount(Process("test"))
            disk.make_directory("log")
            disk.sync_directory(".")
            log = open_log(disk, "log")
            old = fill(log, 2, epoch=1) + fill(log, 3, epoch=3)
            log.begin_flush()()
            log.truncate(2)
            new = fill(log, 1, epoch=2)
            disk.lose_power()
            disk.mount(Process("test"))
            log, _ = SegmentedLog.open(disk, "log", SMALL)
            assert read_all(log) in (b"".join(old[:2]), b"".join(old[:2] + new))

    def test_what_a_running_flush_promises_shrinks_with_the_log(self, disk: Disk, folder: str) -> None:
        log = open_log(disk, folder)
        fill(log, 5)
        flush = log.begin_flush()
        log.truncate(2)
        fill(log, 5, epoch=2)
        assert flush() == flush.end_offset == 2
        flush = log.begin_flush()
        assert flush() == 7
        log.truncate(3)
        assert flush.end_offset == 3
        log.close()

    def test_files_of_removed_segments_can_still_be_flushed(self, disk: Disk, folder: str) -> None:
        log = open_log(disk, folder)
        fill(log, 40)
        flush = log.begin_flush()
        log.truncate(5)
        assert flush() == 5
        assert log.begin_flush()() == 5
        log.close()

    def test_a_truncation_that_fails_stops_the_log(self, memory_disk: SimulatedDisk, folder: str) -> None:
        log = open_log(memory_disk, folder)
        fill(log, 5)
        memory_disk.fail_sync()
        with pytest.raises(FlushFailed, match=r"0\.log could not be flushed"):
            log.truncate(2)
        with pytest.raises(FlushFailed):
            log.begin_flush()()


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
        self.synced.append("folder")
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
    def test_syncs_what_was_written_and_nothing_else(self, disk: Disk, folder: str) -> None:
        recording: Any = Recording(disk)
        log = open_log(recording, folder)
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

    def test_old_segments_before_new_ones_then_the_folder(self, disk: Disk, folder: str) -> None:
        recording: Any = Recording(disk)
        log = open_log(recording, folder)
        fill(log, 1)
        log.begin_flush()()
        recording.synced.clear()
        fill(log, 30)
        assert log.begin_flush()() == 31
        assert recording.synced == [f"{base:020d}.log" for base in (0, 11, 22)] + ["folder"]
        log.close()

    def test_a_new_epoch_is_in_the_checkpoint_after_the_flush(self, disk: Disk, folder: str) -> None:
        path = f"{folder}/leader-epoch-checkpoint"
        log = open_log(disk, folder)
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

    def test_what_was_flushed_survives_every_crash(self) -> None:
        for seed in range(60):
            disk = SimulatedDisk(EventHeap(), Random(seed))
            disk.mount(Process("test"))
            disk.make_directory("log")
            disk.sync_directory(".")
            log = open_log(disk, "log")
            batches = fill(log, seed % 30)
            flushed = log.begin_flush()()
            batches += fill(log, 20)
            disk.lose_power()
            disk.mount(Process("test"))
            log, report = SegmentedLog.open(disk, "log", SMALL, known_high_watermark=flushed)
            assert flushed <= report.end_offset <= len(batches)
            assert read_all(log) == b"".join(batches[: report.end_offset])

    def test_one_at_a_time(self, disk: Disk, folder: str) -> None:
        log = open_log(disk, folder)
        flush = log.begin_flush()
        with pytest.raises(RuntimeError, match="a flush is running"):
            log.begin_flush()
        flush()
        log.close()

    def test_failure_is_final(self, memory_disk: SimulatedDisk, folder: str) -> None:
        log = open_log(memory_disk, folder)
        fill(log, 2)
        memory_disk.fail_sync()
        with pytest.raises(
            FlushFailed, match=r"0\.log could not be flushed: .*Input/output error.*check the disk"
        ):
            log.begin_flush()()
        for _ in range(2):
            with pytest.raises(FlushFailed):
                log.begin_flush()()
        assert memory_disk.syncs_failed == 1
        log.close()

    def test_a_folder_that_cannot_be_synced_fails_the_flush(
        self, memory_disk: SimulatedDisk, folder: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(memory_disk, folder)
        fill(log, 30)
        monkeypatch.setattr(memory_disk, "sync_directory", fail_with_io_error)
        with pytest.raises(FlushFailed, match=f"{folder} could not be flushed"):
            log.begin_flush()()

    def test_any_other_fault_of_a_flush_is_final_too(
        self, memory_disk: SimulatedDisk, folder: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(file: object) -> None:
            raise MemoryError("no memory")

        log = open_log(memory_disk, folder)
        fill(log, 2)
        monkeypatch.setattr(memory_disk, "about_to_sync", fail)
        with pytest.raises(FlushFailed, match="MemoryError"):
            log.begin_flush()()
        monkeypatch.undo()
        with pytest.raises(FlushFailed):
            log.begin_flush()()


class TestFullDisk:
    def test_refuses_appends_and_reads_on(self, memory_disk: SimulatedDisk, folder: str) -> None:
        log = open_log(memory_disk, folder)
        batches = fill(log, 2)
        log.begin_flush()()
        memory_disk.capacity = memory_disk.used_bytes() + 100
        batches += self.fill_up(log)
        end_offset = log.end_offset
        assert not log.has_room()
        assert read_all(log) == b"".join(batches)
        memory_disk.capacity += 1000
        with pytest.raises(DiskFull, match="appends are refused until 2000 bytes are free"):
            log.append(batch(end_offset), end_offset + 1)
        memory_disk.capacity += 1000
        assert log.has_room()
        batches += fill(log, 20)
        log.begin_flush()()
        log.close()
        log = open_log(memory_disk, folder)
        assert read_all(log) == b"".join(batches)

    def test_leaves_nothing_of_a_write_that_was_refused_half_way(self) -> None:
        for seed in range(60):
            disk = SimulatedDisk(EventHeap(), Random(seed))
            disk.mount(Process("test"))
            disk.make_directory("log")
            disk.sync_directory(".")
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
            disk.lose_power()
            disk.mount(Process("test"))
            log, _ = SegmentedLog.open(disk, "log", LogSettings())
            assert read_all(log) in (b"".join(batches), b"".join(batches) + another)

    def test_gives_its_allocated_blocks_back(self, memory_disk: SimulatedDisk, folder: str) -> None:
        settings = LogSettings(allocate_bytes=10_000)
        log = open_log(memory_disk, folder, settings)
        fill(log, 3)
        memory_disk.capacity = memory_disk.used_bytes() + 5000
        self.fill_up(log)
        assert memory_disk.free_bytes(folder) > 4000

    def test_no_room_for_a_new_segment(self, memory_disk: SimulatedDisk, folder: str) -> None:
        log = open_log(memory_disk, folder)
        batches = fill(log, 11)
        memory_disk.capacity = memory_disk.used_bytes()
        with pytest.raises(DiskFull):
            log.append(batch(11), 12)
        assert (log.end_offset, log.has_room()) == (11, False)
        memory_disk.capacity = 1 << 40
        batches += fill(log, 20)
        log.begin_flush()()
        log.close()
        assert read_all(open_log(memory_disk, folder)) == b"".join(batches)

    def test_a_new_segment_that_cannot_be_named(
        self, memory_disk: SimulatedDisk, folder: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(memory_disk, folder)
        batches = fill(log, 11)
        with monkeypatch.context() as patched:
            patched.setattr(memory_disk, "open", fail_with_disk_full)
            with pytest.raises(DiskFull):
                log.append(batch(11), 12)
        batches += fill(log, 20)
        assert read_all(log) == b"".join(batches)

    def test_a_flush_without_room_for_the_epochs_is_no_failure(
        self, memory_disk: SimulatedDisk, folder: str
    ) -> None:
        log = open_log(memory_disk, folder)
        fill(log, 1)
        memory_disk.capacity = 0
        assert log.begin_flush()() == 1
        memory_disk.capacity = 1 << 40
        log.close()
        open_log(memory_disk, folder).close()
        assert read_whole(memory_disk, f"{folder}/leader-epoch-checkpoint") == b"0\n1\n1 0\n"

    def test_a_write_that_fails_otherwise_stops_the_log(
        self, memory_disk: SimulatedDisk, folder: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(memory_disk, folder)
        batches = fill(log, 1)
        with monkeypatch.context() as patched:
            patched.setattr(memory_disk, "room_for", fail_with_io_error)
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


class TestClose:
    def test_the_folder_is_what_a_stock_reader_expects(self, disk: Disk, folder: str) -> None:
        log = open_log(disk, folder)
        data = [batch(0, 3, 2, at=500), batch(2, 3, 2, at=400), batch(4, 4, at=600)]
        log.append(b"".join(data), 5)
        log.close()
        stem = f"{folder}/{0:020d}"
        assert disk.list_directory(folder) == [
            f"{0:020d}.index",
            f"{0:020d}.log",
            f"{0:020d}.timeindex",
            "leader-epoch-checkpoint",
        ]
        assert read_whole(disk, f"{stem}.log") == b"".join(data)
        position = len(data[0]) + len(data[1])
        assert list(iter_unpack(">II", read_whole(disk, f"{stem}.index") or b"")) == [(4, position)]
        assert list(iter_unpack(">qI", read_whole(disk, f"{stem}.timeindex") or b"")) == [(600, 4)]
        assert read_whole(disk, f"{folder}/leader-epoch-checkpoint") == b"0\n2\n3 0\n4 4\n"

    def test_makes_durable_what_was_not_flushed(self, memory_disk: SimulatedDisk) -> None:
        memory_disk.make_directory("log")
        memory_disk.sync_directory(".")
        log = open_log(memory_disk, "log")
        batches = fill(log, 30)
        log.close()
        memory_disk.lose_power()
        memory_disk.mount(Process("test"))
        assert read_all(open_log(memory_disk, "log")) == b"".join(batches)

    def test_failure_is_told(self, memory_disk: SimulatedDisk, folder: str) -> None:
        log = open_log(memory_disk, folder)
        fill(log, 3)
        memory_disk.fail_sync()
        with pytest.raises(FlushFailed):
            log.close()


def fail_with_io_error(*arguments: object) -> None:
    raise OSError(5, "Input/output error")


def fail_with_disk_full(*arguments: object, **options: object) -> None:
    raise OSError(28, "No space left on device")
