"""The checkers' copies of logs, also of those that begin with a snapshot: it counts as the batches it stands for."""

from __future__ import annotations

import pytest

from quorumd.ids import OffsetAndEpoch
from quorumd.log.segmented_log import SegmentedLog
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.inspection.log_mirror import Batch, DurableLog, LogMirror, batches_below, batches_in
from tests.support.log.small_logs import fill, fresh_disk, open_log
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
    def test_of_a_log_that_was_cut_at_its_beginning_is_still_of_all(self) -> None:
        disk, log, batches = filled()
        mirror = LogMirror()
        mirror.refresh(log.read)
        put_snapshot(disk, log)
        log.delete_before(SNAPSHOT)
        change = mirror.refresh(log.read, log.start_offset, batches)
        assert (change.removed, change.appended) == ([], [])
        assert mirror.batches == batches

    def test_of_a_new_process_begins_with_what_the_snapshot_stands_for(self) -> None:
        disk, log, batches = filled()
        put_snapshot(disk, log)
        log.delete_before(SNAPSHOT)
        mirror = LogMirror()
        change = mirror.refresh(log.read, log.start_offset, batches)
        assert mirror.batches == change.appended == batches

    @pytest.mark.parametrize("records", [12, 19])
    def test_of_a_log_begun_anew_loses_what_others_did_not_commit(self, records: int) -> None:
        """Whether it was shorter than the snapshot or longer."""
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

    def test_a_log_that_begins_where_nothing_committed_ends_is_told(self) -> None:
        disk, log, batches = filled()
        put_snapshot(disk, log)
        log.delete_before(SNAPSHOT)
        with pytest.raises(ValueError, match="no committed batch ends"):
            LogMirror().refresh(log.read, log.start_offset, batches[:10])


class TestDurable:
    def test_a_log_behind_a_snapshot_is_held_whole(self) -> None:
        disk, log, batches = filled()
        durable = DurableLog(disk, "log")
        assert durable.holds(batches) == 30
        put_snapshot(disk, log)
        log.delete_before(SNAPSHOT)
        assert durable.holds(batches) == 30
        assert DurableLog(disk, "log").holds(batches) == 30

    def test_what_is_not_synced_behind_it_is_not(self) -> None:
        disk, log, batches = filled()
        put_snapshot(disk, log)
        log.delete_before(SNAPSHOT)
        more = batches + batches_in(b"".join(fill(log, 2)))
        durable = DurableLog(disk, "log")
        assert durable.holds(more) == 30
        log.begin_flush()()
        assert durable.holds(more) == 32

    def test_a_log_begun_anew_holds_the_snapshot_and_what_comes_behind_it(self) -> None:
        disk, log, batches = filled()
        durable = DurableLog(disk, "log")
        put_snapshot(disk, log, OffsetAndEpoch(20, 2))
        log.reset_to_snapshot(OffsetAndEpoch(20, 2))
        assert durable.holds(batches) == 20
        more = batches[:20] + batches_in(b"".join(fill(log, 3, epoch=3)))
        log.begin_flush()()
        assert durable.holds(more) == 23

    def test_a_snapshot_that_a_crash_may_take_does_not_count(self) -> None:
        disk, log, batches = filled()
        put_snapshot(disk, log)
        log.delete_before(SNAPSHOT)
        disk.rename(log.snapshots.path(SNAPSHOT), "log/elsewhere")
        assert DurableLog(disk, "log").holds(batches) == 0


def test_how_many_batches_end_at_or_below_an_offset() -> None:
    _, _, batches = filled(3)
    assert [batches_below(batches, offset) for offset in range(5)] == [0, 1, 2, 3, 3]
