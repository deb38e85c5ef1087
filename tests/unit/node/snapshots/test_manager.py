"""When snapshots are built, which files they replace, and the effects of failed builds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from quorumd.errors import FlushFailed
from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.meta_properties import partition_directory
from quorumd.log.snapshot_file import file_name
from quorumd.node.snapshots.builder import build_snapshot
from quorumd.node.snapshots.manager import (
    BACKOFF_MAX_MS,
    BACKOFF_MS,
    SNAPSHOT_SIZE_RATIO,
    SnapshotManager,
    duty_cycle,
)
from quorumd.ports import MIN_DUTY_CYCLE
from quorumd.simulator.environment.subprocess_jobs import JOB_START_MS
from tests.support.log.config_logs import DATA_DIRECTORY, SMALL_SEGMENTS
from tests.support.log.snapshots import write_snapshot
from tests.support.node.parts import NodeParts
from tests.support.text import shows

DIRECTORY = partition_directory(DATA_DIRECTORY)
HOUR_MS = 3600_000.0
BY_SIZE = replace(SMALL_SEGMENTS, snapshot_bytes=10_000, retention_bytes=20_000, snapshot_ms=0)


class SnapshotManagerHarness(NodeParts):
    """A snapshot manager whose maintenance runs by hand, on a log that grows by about 1 KB per step."""

    def __init__(self, settings: LogSettings = BY_SIZE) -> None:
        super().__init__()
        self.settings = replace(self.settings, data_directory=DATA_DIRECTORY, log=settings)
        self.log = self.configs.log
        self.needed_offset: int | None = None
        self.start()

    def start(self) -> None:
        self.manager = SnapshotManager(
            self.basics,
            self.disk,
            self.log,
            lambda: self.log.end_offset if self.needed_offset is None else self.needed_offset,
        )

    def grow(self, steps: int = 1) -> None:
        for step in range(steps):
            self.configs.set_configs(step * 20, 20, "x" * 20)
        self.configs.commit()

    def maintain(self, committed: int | None = None) -> int:
        """Run maintenance and wait until a build that it starts is over; returns the number of snapshots."""
        self.manager.maintain(self.log.end_offset if committed is None else committed)
        self.time.pass_ms(JOB_START_MS[1] + 10)
        self.log.snapshots.rescan()
        return len(self.log.snapshots.ids)


def test_first_snapshot_is_built_when_the_log_reaches_the_limit() -> None:
    harness = SnapshotManagerHarness()
    assert harness.maintain() == 0
    harness.grow(8)
    assert harness.maintain() == 0
    harness.grow(3)
    assert harness.maintain() == 1
    assert harness.log.latest_snapshot == (harness.log.end_offset, 1)
    assert harness.statistics.snapshots_built == 1
    assert harness.statistics.snapshot_build_ms.counts != [0] * len(
        harness.statistics.snapshot_build_ms.counts
    )


def test_next_snapshot_is_built_when_the_log_grows_by_the_limit_again() -> None:
    harness = SnapshotManagerHarness()
    harness.grow(11)
    harness.maintain()
    harness.grow(8)
    assert harness.maintain() == 1
    harness.grow(3)
    assert harness.maintain() == 2


def test_next_snapshot_is_built_when_the_log_has_half_its_size() -> None:
    harness = SnapshotManagerHarness()
    for number in range(100):
        harness.configs.set_configs(1000 + number * 20, 20, "x" * 20)
    harness.configs.commit()
    assert harness.maintain() == 1
    large = harness.statistics.snapshot_bytes
    assert large > 5 * BY_SIZE.snapshot_bytes
    steps = 0
    while harness.maintain() == 1:
        harness.grow(2)
        steps += 2
    grown = harness.log.bytes_after(harness.log.snapshots.ids[0].offset)
    assert SNAPSHOT_SIZE_RATIO * large <= grown <= SNAPSHOT_SIZE_RATIO * large + 3 * grown / steps


def test_duty_cycle_rises_when_the_log_grows_during_a_build() -> None:
    harness = SnapshotManagerHarness()
    harness.grow(11)
    harness.manager.maintain(harness.log.end_offset)
    built_at = harness.time.clock.now_ms()
    harness.grow(22)
    while not harness.log.snapshots.ids:
        harness.manager.maintain(harness.log.end_offset)
        harness.time.pass_ms(1.0)
        harness.log.snapshots.rescan()
    assert harness.time.clock.now_ms() - built_at < JOB_START_MS[1] * MIN_DUTY_CYCLE + 10
    assert [duty_cycle(growth) for growth in (0.5, 1.0, 1.5, 2.0, 9.0)] == [0.1, 0.1, 0.5, 1.0, 1.0]


def test_snapshot_is_built_after_the_interval_if_records_were_committed() -> None:
    harness = SnapshotManagerHarness(replace(BY_SIZE, snapshot_bytes=1 << 40, snapshot_ms=int(HOUR_MS)))
    harness.time.pass_ms(HOUR_MS - 1000)
    assert harness.maintain() == 0
    harness.time.pass_ms(1000)
    assert harness.maintain() == 1
    harness.time.pass_ms(HOUR_MS * 2)
    assert harness.maintain() == 1
    harness.grow()
    assert harness.maintain() == 2


def test_uncommitted_records_are_not_in_a_snapshot() -> None:
    harness = SnapshotManagerHarness()
    committed = harness.log.end_offset
    harness.grow(20)
    assert harness.maintain(committed=-1) == 0
    assert harness.maintain(committed) == 1
    assert harness.log.latest_snapshot == (committed, 1)
    assert harness.maintain(committed) == 1


def test_one_snapshot_is_built_at_a_time() -> None:
    harness = SnapshotManagerHarness()
    harness.grow(11)
    harness.manager.maintain(harness.log.end_offset)
    harness.grow(11)
    harness.manager.maintain(harness.log.end_offset)
    assert harness.maintain() == 1


def test_snapshot_built_by_another_process_counts() -> None:
    harness = SnapshotManagerHarness()
    harness.grow(11)
    build_snapshot(harness.disk, DATA_DIRECTORY, harness.log.end_offset, "other")
    harness.manager.maintain(harness.log.end_offset)
    assert harness.statistics.snapshot_end_offset == harness.log.end_offset, "without a build"
    assert harness.maintain() == 1
    assert harness.statistics.snapshots_built == 0
    assert harness.statistics.snapshot_bytes == harness.log.snapshots.size(harness.log.snapshots.ids[0])


def test_log_is_deleted_down_to_the_retention_limit(caplog: pytest.LogCaptureFixture) -> None:
    harness = SnapshotManagerHarness()
    with caplog.at_level(logging.INFO):
        for _ in range(100):
            harness.grow(2)
            harness.maintain()
    assert harness.statistics.snapshots_built > 10
    assert sum(segment.size for segment in harness.log.segments()) < 3 * BY_SIZE.retention_bytes
    assert harness.log.start_offset in [snapshot.offset for snapshot in harness.log.snapshots.ids]
    assert shows(caplog.text, "deleted", f"offset {harness.log.start_offset}")
    assert harness.statistics.snapshot_end_offset == harness.log.snapshots.ids[-1].offset


def test_segments_that_the_image_needs_are_kept() -> None:
    harness = SnapshotManagerHarness()
    harness.needed_offset = 5
    for _ in range(40):
        harness.grow(2)
        harness.maintain()
    assert harness.log.start_offset == 0
    harness.needed_offset = None
    harness.maintain()
    assert harness.log.start_offset > 0


def test_failed_builds_are_retried_with_backoff(caplog: pytest.LogCaptureFixture) -> None:
    harness = SnapshotManagerHarness()
    harness.grow(11)
    harness.disk.capacity = harness.disk.used_bytes() + 100
    waits = []
    for _ in range(14):
        failed = harness.statistics.snapshots_failed
        waited = 0
        while harness.statistics.snapshots_failed == failed:
            harness.maintain()
            harness.time.pass_ms(BACKOFF_MS / 4)
            waited += 1
        waits.append(waited)
    assert waits == sorted(waits)
    assert waits[0] == 1
    assert waits[1] < waits[2] < waits[3]
    assert waits[-1] == waits[-2]
    assert waits[-1] * (BACKOFF_MS / 4) <= BACKOFF_MAX_MS + BACKOFF_MS
    assert shows(caplog.text, "no snapshot", "5 s", "disk full")
    harness.disk.capacity = 1 << 40
    harness.time.pass_ms(BACKOFF_MAX_MS)
    assert harness.maintain() == 1


def test_build_of_a_replaced_log_is_not_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    harness = SnapshotManagerHarness()
    harness.grow(11)
    harness.manager.maintain(harness.log.end_offset)
    snapshot = OffsetAndEpoch(5000, 2)
    write_snapshot(harness.disk, DIRECTORY, snapshot)
    harness.log.snapshots.rescan()
    harness.log.reset_to_snapshot(snapshot)
    harness.time.pass_ms(JOB_START_MS[1] + 10)
    assert harness.statistics.snapshots_failed == 0
    assert harness.statistics.snapshot_end_offset == 5000
    assert caplog.text == ""


def test_files_of_a_dead_builder_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = SnapshotManagerHarness()
    harness.grow(11)
    left = f"{DIRECTORY}/{file_name(OffsetAndEpoch(harness.log.end_offset, 1))}.node.building"
    other = f"{DIRECTORY}/{file_name(OffsetAndEpoch(harness.log.end_offset, 1))}.other.building"

    def die(job: object, done: Callable[[object], None]) -> None:
        for path in (left, other):
            harness.disk.open(path, create=True).close()
        harness.time.clock.call_soon(lambda: done(OSError("the process of the job died")))

    monkeypatch.setattr(harness.disk, "run_in_subprocess", die)
    assert harness.maintain() == 0
    assert not harness.disk.exists(left)
    assert harness.disk.exists(other)


def test_damaged_snapshot_is_logged_when_the_next_is_built(caplog: pytest.LogCaptureFixture) -> None:
    harness = SnapshotManagerHarness()
    harness.grow(11)
    harness.maintain()
    file = harness.disk.open(f"{DIRECTORY}/{file_name(harness.log.snapshots.ids[0])}")
    file.write_at(200, b"???")
    harness.grow(11)
    assert harness.maintain() == 2
    assert "is corrupt" in caplog.text


def test_directory_is_synced_before_segments_are_deleted() -> None:
    """A builder in another process may have been killed before its sync."""
    harness = SnapshotManagerHarness()
    harness.grow(60)
    write_snapshot(harness.disk, DIRECTORY, OffsetAndEpoch(402, 1))
    harness.disk.sync_directory(DIRECTORY)
    synced: list[int] = []
    harness.disk.after_sync = lambda what: synced.append(len(harness.log.segments()))
    before = len(harness.log.segments())
    harness.maintain()
    build_snapshot(harness.disk, DATA_DIRECTORY, harness.log.end_offset, "other")
    synced.clear()
    harness.maintain()
    assert synced[0] == before
    assert len(harness.log.segments()) < before


def test_failed_sync_of_the_directory_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = SnapshotManagerHarness()
    harness.grow(60)
    harness.maintain()
    harness.grow(60)
    harness.maintain()

    def fail(path: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(harness.disk, "sync_directory", fail)
    with pytest.raises(FlushFailed):
        harness.maintain()


def test_stopped_manager_does_nothing() -> None:
    harness = SnapshotManagerHarness()
    harness.grow(11)
    harness.manager.maintain(harness.log.end_offset)
    harness.manager.stop()
    harness.time.pass_ms(JOB_START_MS[1] + 10)
    assert harness.statistics.snapshots_built == 0
    harness.grow(11)
    harness.log.snapshots.rescan()
    found = len(harness.log.snapshots.ids)
    assert harness.maintain() == found


def test_new_snapshot_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    harness = SnapshotManagerHarness()
    harness.grow(40)
    assert harness.maintain() == 1
    (snapshot,) = harness.log.snapshots.ids
    assert shows(caplog.text, f"snapshot {snapshot.offset}-{snapshot.epoch}", "records", "bytes, built in")
    assert harness.statistics.snapshots_built == 1
