"""The checkers' copies of logs, including logs that start with a snapshot, which counts as the batches it
replaces."""

from __future__ import annotations

import pytest

from quorumd.errors import FlushFailed, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.log.segmented_log import SegmentedLog
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.inspection.log_mirror import Batch, DurableLog, LogMirror, batches_below, batches_in
from tests.support.log.small_logs import SMALL, fill, fresh_disk, open_log
from tests.support.log.snapshots import write_snapshot

SNAPSHOT = OffsetAndEpoch(15, 1)


def filled(count: int = 30) -> tuple[SimulatedDisk, SegmentedLog, list[Batch]]:
    """A durable log in segments of eleven records, and its batches."""
    disk = fresh_disk(1)
    log = open_log(disk, "log")
    data = fill(log, count)
    log.begin_flush()()
    return disk, log, batches_in(b"".join(data))


def put_snapshot(disk: SimulatedDisk, log: SegmentedLog, snapshot: OffsetAndEpoch = SNAPSHOT) -> None:
    write_snapshot(disk, "log", snapshot)
    log.snapshots.rescan()


class TestMirror:
    def test_mirror_of_a_log_without_its_start_is_complete(self) -> None:
        disk, log, batches = filled()
        mirror = LogMirror()
        mirror.refresh(log.read)
        put_snapshot(disk, log)
        log.delete_before(SNAPSHOT)
        change = mirror.refresh(log.read, log.start_offset, batches)
        assert (change.removed, change.appended) == ([], [])
        assert mirror.batches == batches

    def test_mirror_of_a_new_process_starts_with_the_snapshotted_batches(self) -> None:
        disk, log, batches = filled()
        put_snapshot(disk, log)
        log.delete_before(SNAPSHOT)
        mirror = LogMirror()
        change = mirror.refresh(log.read, log.start_offset, batches)
        assert mirror.batches == change.appended == batches

    @pytest.mark.parametrize("records", [12, 19])
    def test_mirror_of_a_restarted_log_drops_uncommitted_batches(self, records: int) -> None:
        """With a log shorter than the snapshot, and a longer one."""
        disk, log, batches = filled(records)
        mirror = LogMirror()
        mirror.refresh(log.read)
        committed = (
            batches[:10] + batches_in(b"".join(fill(open_log(fresh_disk(2), "log"), 20, epoch=2)))[10:]
        )
        put_snapshot(disk, log, OffsetAndEpoch(18, 2))
        log.reset_to_snapshot(OffsetAndEpoch(18, 2))
        change = mirror.refresh(log.read, log.start_offset, committed)
        assert list(change.removed) == batches[10:]
        assert list(change.appended) == committed[10:18]
        assert mirror.batches == committed[:18]

    def test_log_start_without_a_committed_batch_end_is_reported(self) -> None:
        disk, log, batches = filled()
        put_snapshot(disk, log)
        log.delete_before(SNAPSHOT)
        with pytest.raises(ValueError, match="no committed batch ends"):
            LogMirror().refresh(log.read, log.start_offset, batches[:10])


class TestFailedSync:
    """With batches of more than a segment, which the node does not keep in memory."""

    SIZE = 3 * SMALL.segment_bytes

    @pytest.fixture
    def mirrored(self) -> tuple[SegmentedLog, LogMirror, list[Batch]]:
        """A log whose last batch a failed sync has dropped, its mirror of before, and its batches."""
        disk = fresh_disk(1)
        log = open_log(disk, "log")
        data = fill(log, 1)
        log.begin_flush()()
        data += fill(log, 1, size=self.SIZE)
        mirror = LogMirror()
        mirror.refresh(log.read)
        disk.fail_sync()
        with pytest.raises(FlushFailed):
            log.begin_flush()()
        return log, mirror, batches_in(b"".join(data))

    def test_dropped_batch_remains(self, mirrored: tuple[SegmentedLog, LogMirror, list[Batch]]) -> None:
        log, mirror, batches = mirrored
        with pytest.raises(StorageError):
            mirror.refresh(log.read)
        assert mirror.refresh(log.read, sync_failed=True) == ([], [])
        assert mirror.batches == batches

    def test_batches_after_the_dropped_one_are_appended(
        self, mirrored: tuple[SegmentedLog, LogMirror, list[Batch]]
    ) -> None:
        log, mirror, batches = mirrored
        more = batches_in(b"".join(fill(log, 2, size=self.SIZE)))
        assert mirror.refresh(log.read, sync_failed=True) == ([], more)
        assert mirror.batches == batches + more


class TestDurable:
    def test_log_after_a_snapshot_is_held_completely(self) -> None:
        disk, log, batches = filled()
        durable = DurableLog(disk, "log")
        assert durable.holds(batches) == 30
        put_snapshot(disk, log)
        log.delete_before(SNAPSHOT)
        assert durable.holds(batches) == 30
        assert DurableLog(disk, "log").holds(batches) == 30

    def test_unsynced_batches_after_a_snapshot_are_not_durable(self) -> None:
        disk, log, batches = filled()
        put_snapshot(disk, log)
        log.delete_before(SNAPSHOT)
        more = batches + batches_in(b"".join(fill(log, 2)))
        durable = DurableLog(disk, "log")
        assert durable.holds(more) == 30
        log.begin_flush()()
        assert durable.holds(more) == 32

    def test_restarted_log_has_the_snapshot_and_later_batches(self) -> None:
        disk, log, batches = filled()
        durable = DurableLog(disk, "log")
        put_snapshot(disk, log, OffsetAndEpoch(20, 2))
        log.reset_to_snapshot(OffsetAndEpoch(20, 2))
        assert durable.holds(batches) == 20
        more = batches[:20] + batches_in(b"".join(fill(log, 3, epoch=3)))
        log.begin_flush()()
        assert durable.holds(more) == 23

    def test_snapshot_that_a_crash_may_take_does_not_count(self) -> None:
        disk, log, batches = filled()
        put_snapshot(disk, log)
        log.delete_before(SNAPSHOT)
        disk.rename(log.snapshots.path(SNAPSHOT), "log/elsewhere")
        assert DurableLog(disk, "log").holds(batches) == 0


def test_batches_below_an_offset() -> None:
    _, _, batches = filled(3)
    assert [batches_below(batches, offset) for offset in range(5)] == [0, 1, 2, 3, 3]
