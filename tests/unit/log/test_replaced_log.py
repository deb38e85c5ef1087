"""A log that a snapshot has replaced is read and searched like a new one."""

from __future__ import annotations

import pytest

from quorumd.ids import OffsetAndEpoch
from quorumd.simulator.environment.disk import SimulatedDisk
from tests.support.log.small_logs import batch, fill, fresh_disk, open_log, read_all, without_cache
from tests.support.log.snapshots import write_snapshot


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("start", [4, 40])
def test_records_after_the_snapshot_are_found(
    memory_disk: SimulatedDisk, directory: str, start: int, cached: bool
) -> None:
    """Also if the replaced log, of an earlier epoch, was longer."""
    log = open_log(memory_disk, directory)
    fill(log, 30, epoch=1)
    log.reset_to_snapshot(OffsetAndEpoch(start, 3))
    if not cached:
        without_cache(log)
    later = [batch(offset, 4) for offset in range(start, start + 20)]
    for offset, data in enumerate(later, start):
        log.append(data, offset + 1)
    assert log.seek_hint(start) == (start, 0)
    assert read_all(log) == b"".join(later)
    log.close()


def test_segments_at_high_offsets_hold_as_many_records_as_others(
    memory_disk: SimulatedDisk, directory: str
) -> None:
    log = open_log(memory_disk, directory)
    log.reset_to_snapshot(OffsetAndEpoch(2**31, 3))
    fill(log, 5, epoch=4)
    assert len(log.segments()) == 1
    log.close()


def test_segment_that_begins_at_the_snapshot_is_emptied_when_the_log_is_opened(
    memory_disk: SimulatedDisk, directory: str
) -> None:
    """A crash came before the log was reset: its records are of an earlier epoch than the snapshot."""
    log = open_log(memory_disk, directory)
    fill(log, 30, epoch=1)
    base_offset = log.segments()[-1].base_offset
    log.close()
    write_snapshot(memory_disk, directory, OffsetAndEpoch(base_offset, 7))
    for _ in range(2):
        log = open_log(memory_disk, directory)
        assert (log.start_offset, log.end_offset) == (base_offset, base_offset)
        log.close()
    assert memory_disk.contents()[f"/{directory.lstrip('/')}/{base_offset:020}.log"].strip(b"\0") == b""


@pytest.mark.parametrize("begins_at_snapshot", [True, False])
def test_empty_segment_is_durable_before_the_replaced_ones_are_removed(
    monkeypatch: pytest.MonkeyPatch, begins_at_snapshot: bool
) -> None:
    """Without it, the log would seem to have lost committed records after a crash."""
    disk, durable = fresh_disk(1), []
    log = open_log(disk, "log")
    fill(log, 30, epoch=1)
    start = log.segments()[-1].base_offset if begins_at_snapshot else 42
    log.close()
    write_snapshot(disk, "log", OffsetAndEpoch(start, 7))
    name, remove = f"{start:020}.log", SimulatedDisk.remove

    def record_and_remove(self: SimulatedDisk, path: str) -> None:
        durable.append(name in self.durable_names("log") and not self.durable_length(f"log/{name}"))
        remove(self, path)

    monkeypatch.setattr(SimulatedDisk, "remove", record_and_remove)
    open_log(disk, "log").close()
    assert durable
    assert all(durable)
