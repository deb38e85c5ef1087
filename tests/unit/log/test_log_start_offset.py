"""Logs that do not start at 0: deleted below a snapshot, or reset behind one, with crashes at every point."""

from __future__ import annotations

import contextlib

import pytest

from quorumd.errors import CorruptLog
from quorumd.ids import OffsetAndEpoch
from quorumd.log.atomic_file import read_whole
from quorumd.log.recovery import RecoveryReport
from quorumd.log.segmented_log import SegmentedLog
from quorumd.log.snapshot_file import file_name
from quorumd.simulator.environment.disk import PowerLost, SimulatedDisk
from tests.support.log.small_logs import (
    SMALL,
    batch,
    fill,
    fresh_disk,
    open_log,
    read_all,
    restart_after_power_loss,
    without_cache,
)
from tests.support.log.snapshots import write_snapshot

EARLY, LATE = OffsetAndEpoch(15, 1), OffsetAndEpoch(30, 2)
AHEAD = OffsetAndEpoch(100, 5)


def filled(seed: int = 1) -> tuple[SimulatedDisk, SegmentedLog, list[bytes]]:
    """40 records in segments of eleven; epoch 2 begins at 20; two snapshots. All durable."""
    disk = fresh_disk(seed)
    log = open_log(disk, "log")
    batches = fill(log, 20) + fill(log, 20, epoch=2)
    log.begin_flush()()
    for snapshot in (EARLY, LATE):
        write_snapshot(disk, "log", snapshot)
    log.snapshots.rescan()
    return disk, log, batches


def put_without_sync(disk: SimulatedDisk, snapshot: OffsetAndEpoch) -> None:
    """An operator puts a copy there."""
    other = fresh_disk(1)
    write_snapshot(other, "log", snapshot)
    name = f"log/{file_name(snapshot)}"
    disk.open(name, create=True).write_at(0, other.contents()[f"/{name}"])


class TestDeletingBelow:
    def test_log_starts_at_the_end_of_the_snapshot(self) -> None:
        _, log, batches = filled()
        log.delete_before(LATE)
        without_cache(log)
        assert (log.start_offset, log.end_offset, log.last_epoch) == (30, 40, 2)
        assert read_all(log) == b"".join(batches[30:])
        with pytest.raises(ValueError, match="below"):
            log.read(29, 100)

    def test_segments_below_it_and_older_snapshots_are_removed(self) -> None:
        disk, log, _ = filled()
        log.delete_before(LATE)
        names = [name for name in disk.list_directory("log") if name.endswith((".log", ".checkpoint"))]
        assert names == [
            "00000000000000000022.log",
            "00000000000000000030-0000000002.checkpoint",
            "00000000000000000033.log",
        ]
        assert log.snapshots.ids == [LATE]

    def test_later_segments_are_still_flushed(self) -> None:
        disk = fresh_disk(1)
        log = open_log(disk, "log")
        fill(log, 30)
        write_snapshot(disk, "log", OffsetAndEpoch(20, 1))
        log.snapshots.rescan()
        log.delete_before(OffsetAndEpoch(20, 1))
        log.begin_flush()()
        restart_after_power_loss(disk)
        again = open_log(disk, "log")
        assert (again.start_offset, again.end_offset) == (20, 30)

    def test_epoch_before_the_start_is_known(self) -> None:
        _, log, _ = filled()
        log.delete_before(EARLY)
        assert log.end_of_epoch(1) == (20, 1)
        assert log.end_of_epoch(2) == (40, 2)
        assert log.end_of_epoch(0) == (15, 0)

    def test_start_at_the_first_record_of_an_epoch_keeps_the_previous_epoch(self) -> None:
        disk, log, _ = filled()
        write_snapshot(disk, "log", OffsetAndEpoch(20, 1))
        log.snapshots.rescan()
        log.delete_before(OffsetAndEpoch(20, 1))
        assert log.end_of_epoch(1) == (20, 1)
        log.truncate(20)
        assert (log.end_offset, log.last_epoch) == (20, 1)

    def test_it_is_the_same_after_a_restart(self) -> None:
        disk, log, batches = filled()
        log.delete_before(LATE)
        log.close()
        again = open_log(disk, "log")
        assert (again.start_offset, again.end_offset, again.last_epoch) == (30, 40, 2)
        assert again.end_of_epoch(1) == (30, 0)
        assert read_all(again) == b"".join(batches[30:])

    def test_truncation_below_the_start_is_rejected(self) -> None:
        _, log, _ = filled()
        log.delete_before(LATE)
        log.truncate(3)
        assert (log.start_offset, log.end_offset, log.last_epoch) == (30, 30, 2)

    def test_snapshot_above_the_end_is_rejected(self) -> None:
        _, log, _ = filled()
        with pytest.raises(ValueError, match="above"):
            log.delete_before(AHEAD)

    def test_earlier_start_changes_nothing(self) -> None:
        _, log, _ = filled()
        log.delete_before(LATE)
        log.delete_before(EARLY)
        assert (log.start_offset, log.end_of_epoch(1), log.end_of_epoch(2)) == (30, (30, 0), (40, 2))

    def test_older_snapshots_are_removed_even_without_a_segment(self) -> None:
        disk = fresh_disk(1)
        log = open_log(disk, "log")
        batches = fill(log, 10)
        log.begin_flush()()
        for offset in (3, 5, 7):
            write_snapshot(disk, "log", OffsetAndEpoch(offset, 1))
        log.snapshots.rescan()
        log.delete_before(OffsetAndEpoch(5, 1))
        assert [snapshot.offset for snapshot in log.snapshots.ids] == [5, 7]
        assert (log.start_offset, read_all(log)) == (0, b"".join(batches))

    def test_active_segment_is_kept(self) -> None:
        disk, log, _ = filled()
        end = OffsetAndEpoch(40, 2)
        write_snapshot(disk, "log", end)
        log.snapshots.rescan()
        log.delete_before(end)
        assert log.segments()[-1].end_offset == 40
        log.append(batch(40, 2), 41)
        without_cache(log)
        assert log.read(40, 100) == batch(40, 2)

    def test_epoch_checkpoint_is_written_for_stock_readers(self) -> None:
        disk, log, _ = filled()
        log.delete_before(EARLY)
        log.begin_flush()()
        assert read_whole(disk, "log/leader-epoch-checkpoint") == b"0\n2\n1 15\n2 20\n"

    @pytest.mark.parametrize("calls", range(1, 25))
    def test_snapshot_is_durable_before_anything_is_removed(self, calls: int) -> None:
        """The operator who copied it may not have synced it."""
        for seed in range(8):
            disk, log, batches = filled(seed)
            put_without_sync(disk, OffsetAndEpoch(39, 2))
            log.snapshots.rescan()
            disk.lose_power_within(calls)
            with contextlib.suppress(PowerLost):
                log.delete_before(OffsetAndEpoch(39, 2))
            restart_after_power_loss(disk)
            again, _ = SegmentedLog.open(disk, "log", SMALL, known_high_watermark=40)
            assert read_all(again) == b"".join(batches[again.start_offset :])
            if again.start_offset > 0:
                again.snapshots.check(again.snapshots.ids[0])

    @pytest.mark.parametrize("calls", range(1, 25))
    def test_crash_keeps_the_log_end_and_a_valid_start(self, calls: int) -> None:
        for seed in range(8):
            disk, log, batches = filled(seed)
            disk.lose_power_within(calls)
            with contextlib.suppress(PowerLost):
                log.delete_before(LATE)
            restart_after_power_loss(disk)
            again, _ = SegmentedLog.open(disk, "log", SMALL, known_high_watermark=40)
            assert again.start_offset in (0, 15, 30)
            assert again.end_offset == 40
            assert read_all(again) == b"".join(batches[again.start_offset :])


class TestReset:
    def restarted(self) -> tuple[SimulatedDisk, SegmentedLog]:
        disk, log, _ = filled()
        write_snapshot(disk, "log", AHEAD)
        log.snapshots.rescan()
        log.reset_to_snapshot(AHEAD)
        return disk, log

    def test_log_is_empty_and_starts_at_the_end_of_the_snapshot(self) -> None:
        _, log = self.restarted()
        assert (log.start_offset, log.end_offset, log.last_epoch) == (100, 100, 5)
        assert log.read(100, 1000) == b""
        assert log.end_of_epoch(5) == (100, 5)
        assert log.end_of_epoch(4) == (100, 0)

    def test_appends_continue_from_there(self) -> None:
        disk, log = self.restarted()
        log.append(batch(100, 6), 101)
        log.begin_flush()()
        log.close()
        again = open_log(disk, "log")
        assert (again.start_offset, again.end_offset, again.last_epoch) == (100, 101, 6)
        assert read_all(again) == batch(100, 6)

    def test_running_flush_makes_nothing_of_the_new_log_durable(self) -> None:
        _disk, log, _ = filled()
        log.append(batch(40, 2), 41)
        flush = log.begin_flush()
        log.reset_to_snapshot(OffsetAndEpoch(30, 3))
        assert flush() <= 41
        assert flush.end_offset == 30

    @pytest.mark.parametrize("calls", range(1, 40))
    def test_interrupted_reset_is_completed_on_open(self, calls: int) -> None:
        for seed in range(4):
            disk, log, _ = filled(seed)
            write_snapshot(disk, "log", AHEAD)
            log.snapshots.rescan()
            disk.lose_power_within(calls)
            with contextlib.suppress(PowerLost):
                log.reset_to_snapshot(AHEAD)
            restart_after_power_loss(disk)
            again, _ = SegmentedLog.open(disk, "log", SMALL, known_high_watermark=40)
            assert (again.start_offset, again.end_offset, again.last_epoch) == (100, 100, 5)
            again.append(batch(100, 6), 101)
            again.begin_flush()()
            restart_after_power_loss(disk)
            assert open_log(disk, "log").end_offset == 101

    def test_completed_reset_needs_no_recovery(self) -> None:
        disk, log = self.restarted()
        log.close()
        again, report = SegmentedLog.open(disk, "log", SMALL)
        assert (again.start_offset, again.last_epoch) == (100, 5)
        assert report == RecoveryReport(100)

    def test_older_snapshots_are_removed(self) -> None:
        disk, log = self.restarted()
        assert log.snapshots.ids == [AHEAD]
        write_snapshot(disk, "log", LATE)
        log.close()
        assert open_log(disk, "log").snapshots.ids == [AHEAD]

    def test_restored_snapshot_is_reported(self) -> None:
        disk, log, _ = filled()
        log.close()
        write_snapshot(disk, "log", AHEAD)
        _, report = SegmentedLog.open(disk, "log", SMALL)
        assert report == RecoveryReport(100, (), AHEAD)
        assert "ahead of the log" in str(report)

    @pytest.mark.parametrize("calls", range(1, 30))
    def test_crash_during_completion_loses_neither_log_nor_snapshot(self, calls: int) -> None:
        for seed in range(8):
            disk, log, batches = filled(seed)
            log.close()
            put_without_sync(disk, AHEAD)
            disk.lose_power_within(calls)
            with contextlib.suppress(PowerLost):
                SegmentedLog.open(disk, "log", SMALL, known_high_watermark=40)
            restart_after_power_loss(disk)
            again, _ = SegmentedLog.open(disk, "log", SMALL, known_high_watermark=40)
            found = again.start_offset, again.end_offset, read_all(again)
            assert found in [(0, 40, b"".join(batches)), (100, 100, b"")]

    def test_later_epoch_is_ahead_however_long_the_log_is(self) -> None:
        disk, log, _ = filled()
        log.close()
        write_snapshot(disk, "log", OffsetAndEpoch(35, 3))
        assert open_log(disk, "log").end_offset == 35

    @pytest.mark.parametrize("snapshot", [LATE, OffsetAndEpoch(33, 2)])
    def test_snapshot_does_not_hide_corruption_below_it(self, snapshot: OffsetAndEpoch) -> None:
        """A segment begins at 33, and none at 30; the log had more than the snapshot."""
        disk, log, _ = filled()
        log.close()
        write_snapshot(disk, "log", snapshot)
        disk.open("log/00000000000000000000.log").write_at(70, b"!")
        before = disk.contents()
        with pytest.raises(CorruptLog, match=r"00000000000000000000\.log.*position 0"):
            SegmentedLog.open(disk, "log", SMALL, known_high_watermark=snapshot.offset)
        assert disk.contents() == before

    def test_damaged_snapshot_is_quarantined_and_the_log_kept(self, caplog: pytest.LogCaptureFixture) -> None:
        disk, log, batches = filled()
        log.close()
        write_snapshot(disk, "log", AHEAD)
        path = log.snapshots.path(AHEAD)
        disk.open(path).write_at(70, b"!")
        again = open_log(disk, "log")
        assert read_all(again) == b"".join(batches)
        assert again.latest_snapshot == LATE
        assert disk.exists(f"{path}.corrupt")
        assert "is corrupt" in caplog.text

    def test_damaged_snapshot_does_not_replace_committed_records(self) -> None:
        disk, log, _ = filled()
        log.close()
        write_snapshot(disk, "log", AHEAD)
        disk.open(log.snapshots.path(AHEAD)).write_at(70, b"!")
        before = disk.contents()
        with pytest.raises(CorruptLog, match="known to be committed"):
            SegmentedLog.open(disk, "log", SMALL, known_high_watermark=100)
        assert disk.contents() == before
