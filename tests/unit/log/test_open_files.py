"""Every file that a call opens is closed when it returns or fails: a daemon must not run out of descriptors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorumd.errors import CorruptLog
from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.atomic_file import read_whole, write_atomically
from quorumd.log.log_reader import read_log
from quorumd.log.segmented_log import SegmentedLog
from quorumd.log.snapshot_file import SnapshotWriter, check_snapshot, file_name, read_timestamp
from quorumd.log.snapshot_store import SnapshotStore
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.open_file import OpenFile
from tests.support.log.small_logs import fill, fresh_disk, open_log
from tests.support.log.snapshots import TIMESTAMP_MS, config, voters_record, write_snapshot

SNAPSHOT, OTHER = OffsetAndEpoch(42, 7), OffsetAndEpoch(100, 8)
PATH = f"log/{file_name(SNAPSHOT)}"


@pytest.fixture
def disk() -> SimulatedDisk:
    """A disk with a log of three segments and a snapshot."""
    disk = fresh_disk(1)
    fill(open_log(disk, "log"), 30)
    write_snapshot(disk, "log", SNAPSHOT)
    return disk


@pytest.fixture
def opened(disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch) -> list[OpenFile]:
    """Files opened by the test, in order."""
    files: list[OpenFile] = []
    original = SimulatedDisk.open

    def open_and_record(self: SimulatedDisk, path: str, *, create: bool = False) -> OpenFile:
        files.append(original(self, path, create=create))
        return files[-1]

    monkeypatch.setattr(SimulatedDisk, "open", open_and_record)
    return files


def is_closed(file: OpenFile) -> bool:
    try:
        file.size()
    except ValueError:
        return True
    return False


def new_writer(disk: SimulatedDisk) -> SnapshotWriter:
    writer = SnapshotWriter(disk, "log", OTHER, TIMESTAMP_MS, voters_record(1), "test")
    writer.write([config("a")])
    return writer


CALLS: dict[str, Callable[[SimulatedDisk], object]] = {
    "read a chunk": lambda disk: SnapshotStore(disk, "log").read(SNAPSHOT, 0, 10),
    "list snapshots": lambda disk: SnapshotStore(disk, "log").ids,
    "list snapshots and their sizes": lambda disk: SnapshotStore(disk, "log").stored(),
    "sync a snapshot": lambda disk: SnapshotStore(disk, "log").make_durable(SNAPSHOT),
    "check a snapshot": lambda disk: check_snapshot(disk, PATH, SNAPSHOT),
    "read a timestamp": lambda disk: read_timestamp(disk, PATH, SNAPSHOT),
    "finish a snapshot": lambda disk: new_writer(disk).finish(),
    "abandon a snapshot": lambda disk: new_writer(disk).abandon(),
    "read a log": lambda disk: list(read_log(disk, "log", 0, 30)),
    "read a part of a log": lambda disk: list(read_log(disk, "log", 3, 5)),
    "read a file": lambda disk: read_whole(disk, PATH),
    "write the indexes": lambda disk: open_log(disk, "log").close(),
    "write a file": lambda disk: write_atomically(disk, "log/file", b"content"),
}


def open_segments(disk: SimulatedDisk) -> SegmentedLog:
    """Open the log of three segments, which ends below SNAPSHOT and would be replaced by it."""
    disk.remove(PATH)
    log = open_log(disk, "log")
    assert len(log.segments()) == 3
    return log


def truncate(disk: SimulatedDisk) -> None:
    log = open_segments(disk)
    log.truncate(2)
    log.close()


def delete_segments(disk: SimulatedDisk) -> None:
    log = open_segments(disk)
    write_snapshot(disk, "log", OffsetAndEpoch(29, 1))
    log.snapshots.rescan()
    log.delete_before(OffsetAndEpoch(29, 1))
    log.close()


def replace(disk: SimulatedDisk) -> None:
    log = open_segments(disk)
    write_snapshot(disk, "log", SNAPSHOT)
    log.snapshots.rescan()
    log.reset_to_snapshot(SNAPSHOT)
    log.close()


def finish_fetched_snapshot(disk: SimulatedDisk) -> None:
    content = disk.contents()[f"/{PATH}"]
    disk.remove(PATH)
    store = SnapshotStore(disk, "log")
    store.write_part(SNAPSHOT, 0, content)
    store.finish_part(SNAPSHOT)


CALLS["finish a fetched snapshot"] = finish_fetched_snapshot
CALLS |= {"truncate a log": truncate, "delete segments": delete_segments, "replace a log": replace}


@pytest.mark.parametrize("call", CALLS)
def test_files_are_closed(disk: SimulatedDisk, opened: list[OpenFile], call: str) -> None:
    CALLS[call](disk)
    assert [file for file in opened if not is_closed(file)] == []
    assert opened or call == "list snapshots"


def test_segment_is_closed_when_its_content_is_damaged(disk: SimulatedDisk, opened: list[OpenFile]) -> None:
    segment = disk.open("log/00000000000000000000.log")
    segment.write_at(30, b"\xff\xff\xff")
    segment.close()
    with pytest.raises(CorruptLog):
        list(read_log(disk, "log", 0, 30))
    assert len(opened) > 1
    assert all(map(is_closed, opened))


def test_segments_are_closed_when_the_log_is_refused(disk: SimulatedDisk, opened: list[OpenFile]) -> None:
    disk.remove(PATH)
    with pytest.raises(CorruptLog):
        SegmentedLog.open(disk, "log", LogSettings(), known_high_watermark=31)
    assert len(opened) > 1
    assert all(map(is_closed, opened))
