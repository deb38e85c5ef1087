"""Recovery: the records that it keeps, truncates, reports and rejects, at every byte."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import CorruptLog, FlushFailed, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.atomic_file import read_whole, write_atomically
from quorumd.log.recovery import RecoveryReport
from quorumd.log.segmented_log import SegmentedLog
from quorumd.ports import Disk
from quorumd.protocol.record_batch import encode_batch
from quorumd.simulator.environment.disk import PowerLost, SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process
from tests.support.log.snapshots import write_snapshot
from tests.support.text import shows

SETTINGS = LogSettings(segment_bytes=1000, index_interval_bytes=150, allocate_bytes=300)
EPOCHS = (1, 1, 2, 4, 4)
SIZES = (3, 40, 1, 80, 9)
COUNTS = (1, 2, 1, 3, 1)


def some_batches() -> list[tuple[int, bytes]]:
    """Five batches with the offset each of them ends at: 1, 3, 4, 7, 8."""
    found = []
    offset = 0
    for epoch, size, count in zip(EPOCHS, SIZES, COUNTS, strict=True):
        data = encode_batch(offset, epoch, 0, [b"v" * size] * count)
        offset += count
        found.append((offset, data))
    return found


BATCHES = some_batches()
WHOLE = b"".join(data for _, data in BATCHES)
ENDS = [0, *(end for end, _ in BATCHES)]
POSITIONS = [sum(len(data) for _, data in BATCHES[:count]) for count in range(len(BATCHES) + 1)]


def put(disk: Disk, directory: str, base_offset: int, content: bytes) -> str:
    path = f"{directory}/{base_offset:020d}.log"
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write_at(0, content)
    file.close()
    return path


def kept(disk: Disk, directory: str, high_watermark: int = 0) -> tuple[bytes, RecoveryReport]:
    """The bytes of the log after recovery, read through the log, and the report."""
    log, report = SegmentedLog.open(disk, directory, SETTINGS, high_watermark)
    parts = []
    offset = log.start_offset
    while offset < log.end_offset:
        parts.append(log.read(offset, 0))
        offset = next(end for end in (*ENDS, 9, 10, 11, 12) if end > offset)
    assert report.end_offset == log.end_offset
    log.close()
    return b"".join(parts), report


def test_empty_log_has_no_epochs(disk: Disk, directory: str) -> None:
    assert kept(disk, directory) == (b"", RecoveryReport(0))
    assert read_whole(disk, f"{directory}/leader-epoch-checkpoint") == b"0\n0\n"


@pytest.mark.parametrize("zeros", [0, 1, 60, 61, 500])
def test_cut_at_every_byte_leaves_the_whole_batches(
    memory_disk: SimulatedDisk, directory: str, zeros: int
) -> None:
    for size in range(len(WHOLE) + 1):
        found = WHOLE[:size] + bytes(zeros)
        path = put(memory_disk, directory, 0, found)
        # Zeros may be the very bytes that are missing: a record ends with one.
        same = next((at for at, pair in enumerate(zip(found, WHOLE, strict=False)) if len({*pair}) > 1), None)
        sound = min(len(found), len(WHOLE)) if same is None else same
        count = max(index for index, position in enumerate(POSITIONS) if position <= sound)
        torn = found[POSITIONS[count] :].rstrip(b"\0")
        content, report = kept(memory_disk, directory)
        assert content == WHOLE[: POSITIONS[count]]
        assert report.end_offset == ENDS[count]
        assert report.truncated_bytes == len(torn)
        assert len(report.truncations) == (1 if torn else 0)
        for cut in report.truncations:
            assert (cut.path, cut.position, cut.offset) == (path, POSITIONS[count], ENDS[count])
        assert read_whole(memory_disk, path) == content


def test_every_changed_byte_is_found(memory_disk: SimulatedDisk, directory: str) -> None:
    for position in range(len(WHOLE)):
        index = max(index for index, start in enumerate(POSITIONS) if start <= position)
        if 12 <= position - POSITIONS[index] < 16:
            continue  # the epoch: no CRC of a RecordBatch covers it
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(WHOLE)
            damaged[position] ^= change
            put(memory_disk, directory, 0, bytes(damaged))
            content, report = kept(memory_disk, directory)
            assert content == WHOLE[: POSITIONS[index]]
            assert report.end_offset == ENDS[index]
            assert report.truncated_bytes == len(bytes(damaged[POSITIONS[index] :]).rstrip(b"\0"))


def test_decreasing_epoch_is_found(memory_disk: SimulatedDisk, directory: str) -> None:
    put(memory_disk, directory, 0, WHOLE + encode_batch(8, 3, 0, [b"v"]))
    content, report = kept(memory_disk, directory)
    assert content == WHOLE
    assert "epoch 3 after epoch 4" in str(report)


def test_batches_behind_a_damaged_one_are_truncated(disk: Disk, directory: str) -> None:
    damaged = bytearray(WHOLE)
    damaged[POSITIONS[2] - 1] ^= 1
    path = put(disk, directory, 0, bytes(damaged) + bytes(300))
    content, report = kept(disk, directory, high_watermark=1)
    assert content == WHOLE[: POSITIONS[1]]
    cut = (f"{len(WHOLE) - POSITIONS[1] - 1} bytes", f"position {POSITIONS[1]} (offset 1)", "CRC")
    assert shows(str(report), "ends at offset 1", path, *cut)


def test_bytes_behind_zeros_are_truncated_and_reported(disk: Disk, directory: str) -> None:
    path = put(disk, directory, 0, WHOLE + bytes(200) + encode_batch(8, 9, 0, [b"v"]) + bytes(50))
    content, report = kept(disk, directory)
    assert content == WHOLE
    assert "not a batch" in str(report)
    assert read_whole(disk, path) == WHOLE


def test_batches_larger_than_the_window_are_read(disk: Disk, directory: str) -> None:
    big = encode_batch(0, 1, 0, [b"v" * 1_500_000])
    small = encode_batch(1, 1, 0, [b"v"])
    bigger = encode_batch(2, 1, 0, [b"v" * 2_500_000])
    put(disk, directory, 0, big + small + bigger + bytes(1_200_000))
    log, report = SegmentedLog.open(disk, directory, LogSettings())
    assert report == RecoveryReport(3)
    assert [log.read(offset, 0) for offset in range(3)] == [big, small, bigger]
    log.close()


def test_header_across_the_edge_of_the_window_is_read(disk: Disk, directory: str) -> None:
    for short in (1, 5, 60, 61, 62):
        first = encode_batch(0, 1, 0, [b"v" * (1024 * 1024 - 73 - short)])
        while len(first) + short > 1024 * 1024:
            first = encode_batch(0, 1, 0, [b"v" * (len(first) - 76)])
        second = encode_batch(1, 1, 0, [b"v"])
        put(disk, directory, 0, first + second)
        log, report = SegmentedLog.open(disk, directory, LogSettings())
        assert report == RecoveryReport(2)
        log.close()


class TestHighWatermark:
    def test_committed_records_are_never_truncated_by_recovery(self, disk: Disk, directory: str) -> None:
        damaged = bytearray(WHOLE)
        damaged[POSITIONS[2] - 1] ^= 1
        path = put(disk, directory, 0, bytes(damaged))
        expected = (
            f"{path} is damaged at position {POSITIONS[1]}: .*CRC does not match. Its log ends there at offset 1, "
            "and records up to offset 3 are known to be committed. Nothing was changed. Restore .* format it again.*"
        )
        with pytest.raises(CorruptLog, match=expected):
            SegmentedLog.open(disk, directory, SETTINGS, known_high_watermark=3)
        assert read_whole(disk, path) == bytes(damaged)
        assert disk.list_directory(directory) == [f"{0:020d}.log"]

    def test_sound_log_that_is_too_short_is_refused(self, disk: Disk, directory: str) -> None:
        put(disk, directory, 0, WHOLE[: POSITIONS[3]] + bytes(100))
        with pytest.raises(CorruptLog, match=rf"{directory}.* offset 4\b"):
            SegmentedLog.open(disk, directory, SETTINGS, known_high_watermark=5)
        content, report = kept(disk, directory, high_watermark=4)
        assert (content, report.truncations) == (WHOLE[: POSITIONS[3]], ())

    def test_missing_log_is_rejected(self, disk: Disk, directory: str) -> None:
        with pytest.raises(CorruptLog, match="ends at offset 0"):
            SegmentedLog.open(disk, directory, SETTINGS, known_high_watermark=1)


class TestSegments:
    def three(self, disk: Disk, directory: str) -> list[str]:
        """Batches 0 and 1 sealed, batch 2 and 3 sealed, batch 4 active."""
        parts = [(0, 0, 2), (3, 2, 4), (7, 4, 5)]
        return [
            put(disk, directory, base, WHOLE[POSITIONS[start] : POSITIONS[end]]) for base, start, end in parts
        ]

    def test_all_sound(self, disk: Disk, directory: str) -> None:
        self.three(disk, directory)
        content, report = kept(disk, directory, high_watermark=8)
        assert (content, report) == (WHOLE, RecoveryReport(8))

    @pytest.mark.parametrize(("snapshot", "position"), [((3, 1), 2), ((4, 2), 3), ((8, 4), 5)])
    def test_log_may_start_at_the_end_of_a_snapshot(
        self, disk: Disk, directory: str, snapshot: tuple[int, int], position: int
    ) -> None:
        disk.remove(self.three(disk, directory)[0])
        write_snapshot(disk, directory, OffsetAndEpoch(*snapshot))
        content, report = kept(disk, directory)
        assert (content, report) == (WHOLE[POSITIONS[position] :], RecoveryReport(8))

    def test_missing_log_start_without_a_snapshot_is_damage(self, disk: Disk, directory: str) -> None:
        names = self.three(disk, directory)
        disk.remove(names[0])
        before = disk.list_directory(directory)
        with pytest.raises(CorruptLog, match=r"offset 3\b"):
            SegmentedLog.open(disk, directory, SETTINGS)
        assert disk.list_directory(directory) == before

    def test_zeros_behind_a_sealed_segment_are_not_reported(self, disk: Disk, directory: str) -> None:
        path = self.three(disk, directory)[1]
        sealed = read_whole(disk, path) or b""
        put(disk, directory, 3, sealed + bytes(500))
        content, report = kept(disk, directory)
        assert (content, report) == (WHOLE, RecoveryReport(8))
        assert read_whole(disk, path) == sealed

    def test_gap_ends_the_log(self, disk: Disk, directory: str) -> None:
        first, second, third = self.three(disk, directory)
        disk.remove(second)
        with pytest.raises(CorruptLog, match=f"{third}.*position 0: .*offset 7"):
            SegmentedLog.open(disk, directory, SETTINGS, known_high_watermark=8)
        content, report = kept(disk, directory, high_watermark=3)
        assert content == WHOLE[: POSITIONS[2]]
        assert [cut.path for cut in report.truncations] == [third]
        assert [name for name in disk.list_directory(directory) if name.endswith(".log")] == [f"{0:020d}.log"]
        assert read_whole(disk, first) == content

    def test_overlap_ends_the_log(self, disk: Disk, directory: str) -> None:
        _, _, third = self.three(disk, directory)
        overlap = put(disk, directory, 1, WHOLE[POSITIONS[1] :])
        content, report = kept(disk, directory, high_watermark=3)
        assert content == WHOLE[: POSITIONS[2]]
        assert report.truncations[0].path == overlap
        assert shows(report.truncations[0].reason, "base offset 1")
        assert not disk.exists(overlap)
        assert not disk.exists(third)

    def test_damaged_batch_in_a_sealed_segment_ends_the_log(self, disk: Disk, directory: str) -> None:
        _, second, third = self.three(disk, directory)
        damaged = bytearray(WHOLE[POSITIONS[2] : POSITIONS[4]])
        damaged[-1] ^= 1
        put(disk, directory, 3, bytes(damaged))
        with pytest.raises(CorruptLog, match=f"{second}.*position"):
            SegmentedLog.open(disk, directory, SETTINGS, known_high_watermark=5)
        content, report = kept(disk, directory, high_watermark=4)
        assert content == WHOLE[: POSITIONS[3]]
        assert [(cut.path, cut.reason) for cut in report.truncations][1:] == [
            (third, "it follows a truncation")
        ]
        # Zeros at the end of a file are never counted, and a record ends with one.
        assert report.truncated_bytes == len(WHOLE) - POSITIONS[3] - 1

    def test_empty_last_segment_is_kept(self, disk: Disk, directory: str) -> None:
        self.three(disk, directory)
        put(disk, directory, 8, bytes(300))
        content, report = kept(disk, directory)
        assert (content, report) == (WHOLE, RecoveryReport(8))

    def test_unrelated_files_are_ignored(self, disk: Disk, directory: str) -> None:
        self.three(disk, directory)
        for name in (
            "12.log",
            f"{5:020d}.log.deleted",
            f"{5:020d}.log.tmp",
            "quorum-state",
            f"{5:020d}.index",
        ):
            write_atomically(disk, f"{directory}/{name}", b"something")
        content, report = kept(disk, directory)
        assert (content, report) == (WHOLE, RecoveryReport(8))
        assert read_whole(disk, f"{directory}/12.log") == b"something"


class TestFilesForReaders:
    def test_indexes_and_epochs_are_rebuilt_when_wrong(self, disk: Disk, directory: str) -> None:
        put(disk, directory, 0, WHOLE)
        kept(disk, directory)
        names = [f"{0:020d}.index", f"{0:020d}.timeindex", "leader-epoch-checkpoint"]
        good = [read_whole(disk, f"{directory}/{name}") for name in names]
        assert good[2] == b"0\n3\n1 0\n2 3\n4 4\n"
        for name in names:
            write_atomically(
                disk, f"{directory}/{name}", b"nonsense that is longer than what belongs here" * 3
            )
            kept(disk, directory)
            assert [read_whole(disk, f"{directory}/{name}") for name in names] == good
            disk.remove(f"{directory}/{name}")
            kept(disk, directory)
            assert [read_whole(disk, f"{directory}/{name}") for name in names] == good


class TestDurability:
    def test_recovery_syncs_unflushed_writes_of_a_killed_process(self) -> None:
        for seed in range(20):
            disk = SimulatedDisk(EventHeap(), Random(seed))
            disk.mount(Process("test"))
            disk.make_directory("log")
            disk.sync_directory(".")
            put(disk, "log", 0, WHOLE)
            SegmentedLog.open(disk, "log", SETTINGS)
            disk.lose_power()
            disk.mount(Process("test"))
            assert kept(disk, "log") == (WHOLE, RecoveryReport(8))

    def test_crash_during_recovery_is_recovered_from(self) -> None:
        """Old bytes behind the truncation must not reappear behind later appends."""
        damaged = bytearray(WHOLE[: POSITIONS[4]])
        damaged[POSITIONS[2] - 1] ^= 1
        good = WHOLE[: POSITIONS[1]]
        crashes = 0
        for seed in range(20):
            for calls in range(1, 12):
                disk = SimulatedDisk(EventHeap(), Random(seed))
                disk.mount(Process("test"))
                disk.make_directory("log")
                put(disk, "log", 0, bytes(damaged))
                put(disk, "log", 7, BATCHES[4][1])
                for path in ("log", "."):
                    disk.sync_directory(path)
                for name in disk.list_directory("log"):
                    disk.open(f"log/{name}").sync()
                disk.lose_power_within(calls)
                new = b""
                try:
                    log, _ = SegmentedLog.open(disk, "log", SETTINGS)
                    log.append(BATCHES[1][1], 3)
                    new = BATCHES[1][1]
                except PowerLost:
                    crashes += 1
                disk.lose_power()
                disk.mount(Process("test"))
                content, report = kept(disk, "log", high_watermark=1)
                assert content in (good, good + new)
                assert report.end_offset in (1, 3)
        assert crashes > 100

    def test_failed_sync_is_reported(self, memory_disk: SimulatedDisk, directory: str) -> None:
        put(memory_disk, directory, 0, WHOLE)
        memory_disk.fail_sync()
        with pytest.raises(FlushFailed, match=r"0\.log"):
            SegmentedLog.open(memory_disk, directory, SETTINGS)

    def test_disk_that_cannot_read_is_reported(
        self, memory_disk: SimulatedDisk, directory: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(path: str) -> list[str]:
            raise PermissionError(13, "Permission denied", path)

        monkeypatch.setattr(memory_disk, "list_directory", fail)
        with pytest.raises(StorageError, match=f"{directory}.*Permission denied"):
            SegmentedLog.open(memory_disk, directory, SETTINGS)


@pytest.mark.parametrize("base_offset", [2**62 + 1, 2**63 - 1, 10**20 - 1])
def test_unreachable_offsets_are_damage(disk: Disk, directory: str, base_offset: int) -> None:
    """The next record there would fit no batch (found by fuzzing)."""
    put(disk, directory, base_offset, b"")
    with pytest.raises(CorruptLog, match=str(base_offset)):
        SegmentedLog.open(disk, directory, SETTINGS)
    assert f"{base_offset:020d}.log" in disk.list_directory(directory)
