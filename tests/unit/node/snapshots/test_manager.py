"""When snapshots are built, what they free, and that a failed one costs nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from quorumd.errors import FlushFailed
from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.meta_properties import partition_folder
from quorumd.log.snapshot_file import file_name
from quorumd.node.snapshots.builder import build_snapshot
from quorumd.node.snapshots.manager import (
    BACKOFF_MAX_MS,
    BACKOFF_MS,
    SNAPSHOT_SIZE_RATIO,
    SnapshotManager,
    duty_cycle,
)
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import MIN_DUTY_CYCLE
from quorumd.simulator.environment.disk import JOB_START_MS, SimulatedDisk
from tests.support.log.config_logs import FOLDER, SMALL_SEGMENTS, ConfigLog
from tests.support.log.snapshots import write_snapshot
from tests.support.node.virtual_time import VirtualTime

DIRECTORY = partition_folder(FOLDER)
HOUR_MS = 3600_000.0
BY_SIZE = replace(SMALL_SEGMENTS, snapshot_bytes=10_000, retention_bytes=20_000, snapshot_ms=0)


class World:
    """A keeper that is asked to look by hand, on a log that grows by about 1 KB a step."""

    def __init__(self, settings: LogSettings = BY_SIZE) -> None:
        self.time = VirtualTime()
        self.disk = SimulatedDisk(self.time.heap, Random(1))
        self.configs = ConfigLog(self.disk)
        self.log = self.configs.log
        self.statistics = NodeStatistics()
        self.needed_offset: int | None = None
        self.settings = settings
        self.start()

    def start(self) -> None:
        self.keeper = SnapshotManager(
            self.disk,
            self.time.clock,
            self.log,
            self.settings,
            FOLDER,
            self.statistics,
            lambda: self.log.end_offset if self.needed_offset is None else self.needed_offset,
        )

    def grow(self, steps: int = 1) -> None:
        for step in range(steps):
            self.configs.set_configs(step * 20, 20, "x" * 20)
        self.configs.commit()

    def maintain(self, committed: int | None = None) -> int:
        """Look, and wait for what is begun; how many snapshots there are then."""
        self.keeper.maintain(self.log.end_offset if committed is None else committed)
        self.time.pass_ms(JOB_START_MS[1] + 10)
        self.log.snapshots.rescan()
        return len(self.log.snapshots.ids)


def test_the_first_one_when_the_log_has_grown() -> None:
    world = World()
    assert world.maintain() == 0
    world.grow(8)
    assert world.maintain() == 0
    world.grow(3)
    assert world.maintain() == 1
    assert world.log.latest_snapshot == (world.log.end_offset, 1)
    assert world.statistics.snapshots_built == 1
    assert world.statistics.snapshot_build_ms.counts != [0] * len(world.statistics.snapshot_build_ms.counts)


def test_the_next_one_when_it_has_grown_as_much_again() -> None:
    world = World()
    world.grow(11)
    world.maintain()
    world.grow(8)
    assert world.maintain() == 1
    world.grow(3)
    assert world.maintain() == 2


def test_the_next_one_when_the_log_is_half_as_large_as_the_last_one() -> None:
    world = World()
    for number in range(100):
        world.configs.set_configs(1000 + number * 20, 20, "x" * 20)
    world.configs.commit()
    assert world.maintain() == 1
    large = world.statistics.snapshot_bytes
    assert large > 5 * BY_SIZE.snapshot_bytes
    steps = 0
    while world.maintain() == 1:
        world.grow(2)
        steps += 2
    grown = world.log.bytes_after(world.log.snapshots.ids[0].offset)
    assert SNAPSHOT_SIZE_RATIO * large <= grown <= SNAPSHOT_SIZE_RATIO * large + 3 * grown / steps


def test_a_builder_hurries_when_the_log_grows_faster_than_it_builds() -> None:
    world = World()
    world.grow(11)
    world.keeper.maintain(world.log.end_offset)
    built_at = world.time.clock.now_ms()
    world.grow(22)
    while not world.log.snapshots.ids:
        world.keeper.maintain(world.log.end_offset)
        world.time.pass_ms(1.0)
        world.log.snapshots.rescan()
    assert world.time.clock.now_ms() - built_at < JOB_START_MS[1] * MIN_DUTY_CYCLE + 10
    assert [duty_cycle(growth) for growth in (0.5, 1.0, 1.5, 2.0, 9.0)] == [0.1, 0.1, 0.5, 1.0, 1.0]


def test_after_a_while_if_anything_was_committed() -> None:
    world = World(replace(BY_SIZE, snapshot_bytes=1 << 40, snapshot_ms=int(HOUR_MS)))
    world.time.pass_ms(HOUR_MS - 1000)
    assert world.maintain() == 0
    world.time.pass_ms(1000)
    assert world.maintain() == 1
    world.time.pass_ms(HOUR_MS * 2)
    assert world.maintain() == 1
    world.grow()
    assert world.maintain() == 2


def test_only_what_is_committed_counts() -> None:
    world = World()
    committed = world.log.end_offset
    world.grow(20)
    assert world.maintain(committed=-1) == 0
    assert world.maintain(committed) == 1
    assert world.log.latest_snapshot == (committed, 1)
    assert world.maintain(committed) == 1


def test_one_at_a_time() -> None:
    world = World()
    world.grow(11)
    world.keeper.maintain(world.log.end_offset)
    world.grow(11)
    world.keeper.maintain(world.log.end_offset)
    assert world.maintain() == 1


def test_one_that_another_process_built_counts() -> None:
    world = World()
    world.grow(11)
    build_snapshot(world.disk, FOLDER, world.log.end_offset, "other")
    assert world.maintain() == 1
    assert world.statistics.snapshots_built == 0
    assert world.statistics.snapshot_end_offset == world.log.end_offset
    assert world.statistics.snapshot_bytes == world.log.snapshots.size(world.log.snapshots.ids[0])


def test_the_log_stays_as_small_as_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with caplog.at_level(logging.INFO):
        for _ in range(100):
            world.grow(2)
            world.maintain()
    assert world.statistics.snapshots_built > 10
    assert sum(segment.size for segment in world.log.segments()) < 3 * world.settings.retention_bytes
    assert world.log.start_offset in [snapshot.offset for snapshot in world.log.snapshots.ids]
    assert f"the log begins at offset {world.log.start_offset} now" in caplog.text
    assert world.statistics.snapshot_end_offset == world.log.snapshots.ids[-1].offset


def test_what_the_image_still_needs_stays() -> None:
    world = World()
    world.needed_offset = 5
    for _ in range(40):
        world.grow(2)
        world.maintain()
    assert world.log.start_offset == 0
    world.needed_offset = None
    world.maintain()
    assert world.log.start_offset > 0


def test_after_a_failure_it_waits_longer_and_longer(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.grow(11)
    world.disk.capacity = world.disk.used_bytes() + 100
    waits = []
    for _ in range(14):
        failed = world.statistics.snapshots_failed
        waited = 0
        while world.statistics.snapshots_failed == failed:
            world.maintain()
            world.time.pass_ms(BACKOFF_MS / 4)
            waited += 1
        waits.append(waited)
    assert waits == sorted(waits)
    assert waits[0] == 1
    assert waits[-1] == waits[-2]
    assert waits[-1] * (BACKOFF_MS / 4) <= BACKOFF_MAX_MS + BACKOFF_MS
    assert "no snapshot was built, in 5 s it is tried again: disk full" in caplog.text
    world.disk.capacity = 1 << 40
    world.time.pass_ms(BACKOFF_MAX_MS)
    assert world.maintain() == 1


def test_a_log_that_was_replaced_meanwhile_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.grow(11)
    world.keeper.maintain(world.log.end_offset)
    snapshot = OffsetAndEpoch(5000, 2)
    write_snapshot(world.disk, DIRECTORY, snapshot)
    world.log.snapshots.rescan()
    world.log.reset_to_snapshot(snapshot)
    world.time.pass_ms(JOB_START_MS[1] + 10)
    assert world.statistics.snapshots_failed == 0
    assert world.statistics.snapshot_end_offset == 5000
    assert caplog.text == ""


def test_nothing_is_left_of_one_whose_process_died(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.grow(11)
    left = f"{DIRECTORY}/{file_name(OffsetAndEpoch(world.log.end_offset, 1))}.node.building"
    other = f"{DIRECTORY}/{file_name(OffsetAndEpoch(world.log.end_offset, 1))}.other.building"

    def die(job: object, done: Callable[[object], None]) -> None:
        for path in (left, other):
            world.disk.open(path, create=True).close()
        world.time.clock.call_soon(lambda: done(OSError("the process of the job died")))

    monkeypatch.setattr(world.disk, "run_in_subprocess", die)
    assert world.maintain() == 0
    assert not world.disk.exists(left)
    assert world.disk.exists(other)


def test_a_damaged_one_is_told_when_the_next_is_built(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.grow(11)
    world.maintain()
    file = world.disk.open(f"{DIRECTORY}/{file_name(world.log.snapshots.ids[0])}")
    file.write_at(200, b"???")
    world.grow(11)
    assert world.maintain() == 2
    assert "is corrupt" in caplog.text


def test_the_folder_is_durable_before_segments_go() -> None:
    """The process that built the snapshot may have been killed before that."""
    world = World()
    world.grow(60)
    write_snapshot(world.disk, DIRECTORY, OffsetAndEpoch(402, 1))
    world.disk.sync_directory(DIRECTORY)
    synced: list[int] = []
    world.disk.after_sync = lambda what: synced.append(len(world.log.segments()))
    before = len(world.log.segments())
    world.maintain()
    build_snapshot(world.disk, FOLDER, world.log.end_offset, "other")
    synced.clear()
    world.maintain()
    assert synced[0] == before
    assert len(world.log.segments()) < before


def test_a_folder_that_cannot_be_synced_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.grow(60)
    world.maintain()
    world.grow(60)
    world.maintain()

    def fail(path: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(world.disk, "sync_directory", fail)
    with pytest.raises(FlushFailed):
        world.maintain()


def test_a_stopped_keeper_does_nothing() -> None:
    world = World()
    world.grow(11)
    world.keeper.maintain(world.log.end_offset)
    world.keeper.stop()
    world.time.pass_ms(JOB_START_MS[1] + 10)
    assert world.statistics.snapshots_built == 0
    world.grow(11)
    world.log.snapshots.rescan()
    found = len(world.log.snapshots.ids)
    assert world.maintain() == found
