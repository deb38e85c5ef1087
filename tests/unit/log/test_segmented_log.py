"""The log as a node uses it: append, read, roll, truncate, close."""

from __future__ import annotations

from random import Random
from struct import iter_unpack

import pytest

from quorumd.errors import CorruptLog, FlushFailed, MalformedMessage, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.atomic_file import read_whole
from quorumd.log.segmented_log import SegmentedLog
from quorumd.ports import Disk
from quorumd.protocol.batch_scan import headers
from quorumd.simulator.environment.disk import SimulatedDisk
from tests.support.log.small_logs import (
    BATCH_SIZE,
    NO_LIMIT,
    SMALL,
    batch,
    fail_with_io_error,
    fill,
    fresh_disk,
    open_log,
    read_all,
    restart_after_power_loss,
    without_cache,
)
from tests.support.text import shows


class TestAppendAndRead:
    def test_empty_log(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, f"{directory}/new")
        assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 0, 0)
        assert log.end_of_epoch(5) == OffsetAndEpoch(0, 0)
        assert log.read(0, 100) == b""
        assert log.has_free_space()
        assert shows(repr(log), "0..0", "epoch 0", "1 segments")
        log.close()

    def test_first_segment_name_is_durable(self, memory_disk: SimulatedDisk) -> None:
        memory_disk.make_directory("log")
        memory_disk.sync_directory(".")
        open_log(memory_disk, "log")
        assert memory_disk.durable_names("log") == [f"{0:020d}.log"]

    def test_epochs(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, directory)
        log.append(batch(0, 2, 3) + batch(3, 2) + batch(4, 5), 5)
        log.append(batch(5, 5), 6)
        assert (log.end_offset, log.last_epoch) == (6, 5)
        assert log.end_of_epoch(1) == OffsetAndEpoch(0, 0)
        assert log.end_of_epoch(4) == OffsetAndEpoch(4, 2)
        assert log.end_of_epoch(9) == OffsetAndEpoch(6, 5)
        log.close()

    @pytest.mark.parametrize("cached", [True, False])
    def test_reads_whole_batches_within_limit_and_bound(
        self, disk: Disk, directory: str, cached: bool
    ) -> None:
        log = open_log(disk, directory, LogSettings(index_interval_bytes=150))
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
                for max_offset in (None, offset + 1, offset + 5, 30):
                    expected = b""
                    for header in all_headers:
                        if header.end_offset > offset:
                            too_much = expected and len(expected) + header.size > limit
                            if too_much or (max_offset is not None and header.end_offset > max_offset):
                                break
                            expected += everything[header.position : header.position + header.size]
                    assert log.read(offset, limit, max_offset) == expected
        assert log.read(log.end_offset, 100) == log.read(log.end_offset + 9, 100) == b""
        assert log.read(3, 100, max_offset=3) == b""
        log.close()

    def test_batch_larger_than_every_window_is_found_and_skipped(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, directory, LogSettings())
        without_cache(log)
        batches = [batch(0), batch(1, size=100_000), batch(2), batch(3)]
        log.append(b"".join(batches), 4)
        for offset, data in enumerate(batches):
            assert log.read(offset, 1) == data
        log.close()
        log = open_log(disk, directory, LogSettings())
        assert [log.read(offset, 1) for offset in range(4)] == batches
        log.close()

    def test_read_below_the_start_raises(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, directory)
        fill(log, 1)
        with pytest.raises(ValueError, match=r"offset -1 .*start offset 0"):
            log.read(-1, 100)
        log.close()

    @pytest.mark.parametrize(
        ("data", "end"), [(batch(4), 5), (batch(3, count=2), 4), (batch(3) + batch(5), 5)]
    )
    def test_rejects_batches_that_do_not_continue_the_log(
        self, disk: Disk, directory: str, data: bytes, end: int
    ) -> None:
        log = open_log(disk, directory)
        before = fill(log, 3)
        with pytest.raises(ValueError, match="ends at offset 3"):
            log.append(data, end)
        assert log.end_offset == 3
        assert read_all(log) == b"".join(before)
        log.close()

    def test_rejects_a_truncated_batch(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, directory)
        with pytest.raises(MalformedMessage):
            log.append(batch(0) + batch(1)[:-1], 2)
        assert log.end_offset == 0
        log.close()

    def test_file_that_changes_underneath_is_reported(
        self, memory_disk: SimulatedDisk, directory: str
    ) -> None:
        log = open_log(memory_disk, directory)
        fill(log, 3)
        without_cache(log)
        file = memory_disk.open(f"{directory}/{0:020d}.log")
        file.write_at(BATCH_SIZE, bytes(BATCH_SIZE))
        for offset in (0, 1):
            with pytest.raises(CorruptLog, match=rf"0\.log, .*offset {offset}\b"):
                log.read(offset, NO_LIMIT)
        with pytest.raises(CorruptLog, match=r"0\.log, .*offset 1\b"):
            log.truncate(1)

    @pytest.mark.parametrize("limit", [1, NO_LIMIT])
    def test_lost_writes_are_never_served(
        self, memory_disk: SimulatedDisk, directory: str, limit: int
    ) -> None:
        log = open_log(memory_disk, directory)
        fill(log, 3)
        without_cache(log)
        file = memory_disk.open(f"{directory}/{0:020d}.log")
        for position in range(BATCH_SIZE, 2 * BATCH_SIZE):
            if position - BATCH_SIZE in range(12, 16):
                continue  # the epoch, which Kafka's CRC does not cover
            (sound,) = file.read_at(position, 1)
            for bit in range(8):
                file.write_at(position, bytes([sound ^ 1 << bit]))
                with pytest.raises(CorruptLog, match="reading from offset 1"):
                    log.read(1, limit)
            file.write_at(position, bytes([sound]))
        assert log.read(1, 1) == batch(1)

    def test_disk_that_cannot_read_is_reported(
        self, memory_disk: SimulatedDisk, directory: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(memory_disk, directory)
        fill(log, 3)
        without_cache(log)
        monkeypatch.setattr(memory_disk, "check_power", fail_with_io_error)
        with pytest.raises(StorageError, match=r"0\.log.*Input/output"):
            log.read(2, 100)


def test_indexes_of_a_truncated_segment_are_those_of_its_batches(
    memory_disk: SimulatedDisk, directory: str
) -> None:
    log, other = open_log(memory_disk, directory), open_log(memory_disk, "other")
    fill(log, 9)
    log.truncate(5)
    for each, count in ((log, 3), (other, 8)):
        fill(each, count)
        each.close()
    for suffix in ("index", "timeindex"):
        name = f"{0:020d}.{suffix}"
        assert read_whole(memory_disk, f"{directory}/{name}") == read_whole(memory_disk, f"other/{name}")


class TestRoll:
    def test_by_size(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, directory)
        batches = fill(log, 40)
        names = [name for name in disk.list_directory(directory) if name.endswith(".log")]
        assert len(batches[0]) == BATCH_SIZE
        assert names == [f"{base:020d}.log" for base in (0, 11, 22, 33)]
        assert shows(repr(log), "0..40", "epoch 1", "4 segments")
        assert read_all(log) == b"".join(batches)
        without_cache(log)
        assert read_all(log) == b"".join(batches)
        log.close()
        log = open_log(disk, directory)
        assert read_all(log) == b"".join(batches)
        log.close()

    def test_segment_may_have_exactly_its_maximum_size(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, directory, LogSettings(segment_bytes=2 * BATCH_SIZE, allocate_bytes=0))
        fill(log, 5)
        assert log._base_offsets == [0, 2, 4]
        log.close()

    def test_by_age(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, directory, LogSettings(segment_ms=1000))
        for offset, at in enumerate((50, 900, 1049, 1050, 2049)):
            log.append(batch(offset, at=at), offset + 1)
        assert log._base_offsets == [0, 3]
        log.close()
        log = open_log(disk, directory, LogSettings(segment_ms=1000))
        log.append(batch(5, at=2050), 6)
        assert log._base_offsets == [0, 3, 5]
        log.close()

    def test_append_larger_than_a_segment_gets_its_own_segment(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, directory)
        big = batch(0, size=3000)
        log.append(big, 1)
        log.append(batch(1), 2)
        assert log._base_offsets == [0, 1]
        assert log.read(0, 1) == big
        log.close()

    def test_sealed_file_is_exactly_its_batches_with_their_indexes(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, directory)
        batches = fill(log, 12)
        assert read_whole(disk, f"{directory}/{0:020d}.log") == b"".join(batches[:11])
        # More than 150 bytes lie before every second batch.
        entries = iter_unpack(">II", read_whole(disk, f"{directory}/{0:020d}.index") or b"")
        assert list(entries) == [(index, index * BATCH_SIZE) for index in (2, 4, 6, 8, 10)]
        assert read_whole(disk, f"{directory}/{0:020d}.timeindex") == bytes(12)
        log.close()


class TestTruncate:
    def test_to_a_batch_boundary_at_or_below(self, disk: Disk, directory: str) -> None:
        for end_offset, expected in ((9, 9), (8, 6), (7, 6), (6, 6), (0, 0), (12, 9)):
            path = f"{directory}/{end_offset}"
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

    def test_across_segments(self, disk: Disk, directory: str) -> None:
        for end_offset in (39, 33, 32, 23, 22, 11, 5, 0, -7):
            path = f"{directory}/{end_offset}"
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

    def test_truncated_batches_never_reappear_behind_new_ones(self) -> None:
        """Old batches may fit exactly behind a shorter new one, in offsets and in epochs."""
        for seed in range(150):
            disk = fresh_disk(seed)
            log = open_log(disk, "log")
            old = fill(log, 2, epoch=1) + fill(log, 3, epoch=3)
            log.begin_flush()()
            log.truncate(2)
            new = fill(log, 1, epoch=2)
            restart_after_power_loss(disk)
            log, _ = SegmentedLog.open(disk, "log", SMALL)
            assert read_all(log) in (b"".join(old[:2]), b"".join(old[:2] + new))

    def test_truncation_lowers_the_offset_of_a_running_flush(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, directory)
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

    def test_files_of_removed_segments_can_still_be_flushed(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, directory)
        fill(log, 40)
        flush = log.begin_flush()
        log.truncate(5)
        assert flush() == 5
        assert log.begin_flush()() == 5
        log.close()

    def test_failed_truncation_stops_the_log(self, memory_disk: SimulatedDisk, directory: str) -> None:
        log = open_log(memory_disk, directory)
        fill(log, 5)
        memory_disk.fail_sync()
        with pytest.raises(FlushFailed, match=r"0\.log"):
            log.truncate(2)
        with pytest.raises(FlushFailed):
            log.begin_flush()()


class TestClose:
    def test_directory_is_what_a_stock_reader_expects(self, disk: Disk, directory: str) -> None:
        log = open_log(disk, directory)
        data = [batch(0, 3, 2, at=500), batch(2, 3, 2, at=400), batch(4, 4, at=600)]
        log.append(b"".join(data), 5)
        log.close()
        stem = f"{directory}/{0:020d}"
        assert disk.list_directory(directory) == [
            f"{0:020d}.index",
            f"{0:020d}.log",
            f"{0:020d}.timeindex",
            "leader-epoch-checkpoint",
        ]
        assert read_whole(disk, f"{stem}.log") == b"".join(data)
        position = len(data[0]) + len(data[1])
        assert list(iter_unpack(">II", read_whole(disk, f"{stem}.index") or b"")) == [(4, position)]
        assert list(iter_unpack(">qI", read_whole(disk, f"{stem}.timeindex") or b"")) == [(600, 4)]
        assert read_whole(disk, f"{directory}/leader-epoch-checkpoint") == b"0\n2\n3 0\n4 4\n"

    def test_flushes_pending_appends(self, memory_disk: SimulatedDisk) -> None:
        memory_disk.make_directory("log")
        memory_disk.sync_directory(".")
        log = open_log(memory_disk, "log")
        batches = fill(log, 30)
        log.close()
        restart_after_power_loss(memory_disk)
        assert read_all(open_log(memory_disk, "log")) == b"".join(batches)

    def test_failure_is_reported(self, memory_disk: SimulatedDisk, directory: str) -> None:
        log = open_log(memory_disk, directory)
        fill(log, 3)
        memory_disk.fail_sync()
        with pytest.raises(FlushFailed):
            log.close()
