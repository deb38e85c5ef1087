"""Files that cannot be read, listed or synced raise errors that name them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorumd.errors import CorruptSnapshot, DiskFull, FlushFailed, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.log import snapshot_file
from quorumd.log.atomic_file import read_whole, write_atomically
from quorumd.log.log_reader import read_log
from quorumd.log.segment import Segment
from quorumd.log.segmented_log import SegmentedLog
from quorumd.log.snapshot_file import SnapshotWriter, file_name, publish_snapshot, read_batches
from quorumd.log.snapshot_store import SnapshotStore
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.open_file import OpenFile
from tests.support.log.small_logs import fail_with_disk_full, fail_with_io_error, fill, fresh_disk, open_log
from tests.support.log.snapshots import write_snapshot

SNAPSHOT = OffsetAndEpoch(42, 7)
PATH = f"log/{file_name(SNAPSHOT)}"


def disk_with_log_and_snapshot() -> SimulatedDisk:
    disk = fresh_disk(1)
    log = open_log(disk, "log")
    fill(log, 10)
    log.begin_flush()()
    log.close()
    write_snapshot(disk, "log", SNAPSHOT)
    return disk


def read_some(disk: SimulatedDisk) -> None:
    list(read_log(disk, "log", 0, 10))


OPEN: list[tuple[str, Callable[[SimulatedDisk], object]]] = [
    ("log/0000", read_some),
    (PATH, lambda disk: list(read_batches(disk, PATH, SNAPSHOT))),
    (PATH, lambda disk: read_whole(disk, PATH)),
    (PATH, lambda disk: SnapshotStore(disk, "log").read(SNAPSHOT, 0, 10)),
    (PATH, lambda disk: SnapshotStore(disk, "log").size(SNAPSHOT)),
    (PATH, lambda disk: SnapshotStore(disk, "log").make_durable(SNAPSHOT)),
    (PATH, lambda disk: SnapshotWriter(disk, "log", SNAPSHOT, 0, None, "one")),
]


@pytest.mark.parametrize(("named", "use"), OPEN)
def test_file_that_cannot_be_opened(
    named: str, use: Callable[[SimulatedDisk], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = disk_with_log_and_snapshot()
    monkeypatch.setattr(disk, "open", lambda path, create=False: fail_with_io_error())
    with pytest.raises(StorageError, match=named):
        use(disk)


@pytest.mark.parametrize(("named", "use"), OPEN[:4])
def test_file_that_cannot_be_read(
    named: str, use: Callable[[SimulatedDisk], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = disk_with_log_and_snapshot()
    monkeypatch.setattr(OpenFile, "read_at", fail_with_io_error)
    with pytest.raises(StorageError, match=named):
        use(disk)


def test_directory_that_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_with_log_and_snapshot()
    store = SnapshotStore(disk, "log")
    monkeypatch.setattr(disk, "list_directory", fail_with_io_error)
    with pytest.raises(StorageError, match="log cannot be listed"):
        store.rescan()
    with pytest.raises(StorageError, match="log cannot be listed"):
        read_some(disk)


def test_file_that_cannot_be_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_with_log_and_snapshot()
    monkeypatch.setattr(disk, "rename", fail_with_io_error)
    with pytest.raises(StorageError, match="cannot be renamed"):
        SnapshotStore(disk, "log").quarantine(SNAPSHOT)
    with pytest.raises(StorageError, match="log/file"):
        write_atomically(disk, "log/file", b"x")
    with pytest.raises(StorageError, match="log/target"):
        publish_snapshot(disk, PATH, "log/target")
    assert not disk.exists(PATH)


def test_directory_that_cannot_be_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_with_log_and_snapshot()
    monkeypatch.setattr(disk, "sync_directory", fail_with_io_error)
    with pytest.raises(FlushFailed, match=file_name(SNAPSHOT)):
        SnapshotStore(disk, "log").make_durable(SNAPSHOT)
    with pytest.raises(FlushFailed, match="log/target"):
        publish_snapshot(disk, PATH, "log/target")


def test_log_that_ends_before_the_offset() -> None:
    with pytest.raises(StorageError, match="ends at offset"):
        list(read_log(disk_with_log_and_snapshot(), "log", 15, 20))


IN_LOG = OffsetAndEpoch(25, 1)


def log_with_snapshot(disk: SimulatedDisk) -> SegmentedLog:
    """Three segments, and a snapshot that covers the first two."""
    log = open_log(disk, "log")
    fill(log, 30)
    log.begin_flush()()
    write_snapshot(disk, "log", IN_LOG)
    log.snapshots.rescan()
    return log


CHANGES: list[tuple[object, str, Callable[[SegmentedLog], object]]] = [
    (SimulatedDisk, "remove", lambda log: log.delete_before(IN_LOG)),
    (SimulatedDisk, "remove", lambda log: log.reset_to_snapshot(OffsetAndEpoch(40, 2))),
    (SimulatedDisk, "rename", lambda log: log.begin_flush()()),
    (OpenFile, "truncate", lambda log: log.close()),
    (Segment, "trim", lambda log: fill(log, 20)),
]


@pytest.mark.parametrize(
    ("where", "call", "change"), CHANGES, ids=["delete", "reset", "flush", "close", "roll"]
)
@pytest.mark.stand_in
def test_log_stops_after_a_failed_change_of_its_files(
    where: object, call: str, change: Callable[[SegmentedLog], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_with_snapshot(fresh_disk(1))
    fill(log, 1, epoch=2)
    monkeypatch.setattr(where, call, lambda *arguments, **options: fail_with_io_error())
    with pytest.raises(FlushFailed):
        change(log)


INDEX_CHANGES: list[Callable[[SegmentedLog], object]] = [lambda log: fill(log, 20), lambda log: log.close()]


@pytest.mark.parametrize("change", INDEX_CHANGES, ids=["roll", "close"])
def test_index_file_that_cannot_be_opened_stops_the_log(change: Callable[[SegmentedLog], object]) -> None:
    disk = fresh_disk(1)
    log = open_log(disk, "log")
    fill(log, 1)
    disk.make_directory("log/00000000000000000000.index")
    with pytest.raises(FlushFailed, match=r"\.log\b"):
        change(log)
    with pytest.raises(FlushFailed):
        log.begin_flush()()


@pytest.mark.parametrize("change", INDEX_CHANGES, ids=["roll", "close"])
def test_index_file_that_cannot_be_read_is_written_again(
    change: Callable[[SegmentedLog], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = fresh_disk(1)
    log = open_log(disk, "log")
    fill(log, 5)
    index = disk.open("log/00000000000000000000.index", create=True)
    index.write_at(0, b"of another version")
    with monkeypatch.context() as patched:
        patched.setattr(OpenFile, "read_at", fail_with_io_error)
        change(log)
    assert b"version" not in index.read_at(0, index.size())


def test_failed_write_that_cannot_be_undone_stops_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_with_snapshot(fresh_disk(1))
    monkeypatch.setattr(SimulatedDisk, "free_space_for", fail_with_disk_full)
    monkeypatch.setattr(Segment, "trim", fail_with_io_error)
    with pytest.raises(FlushFailed):
        fill(log, 20)
    with pytest.raises(FlushFailed):
        log.begin_flush()()


def test_full_disk_is_reported_by_writes_of_small_files_and_at_open(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = fresh_disk(1)
    with monkeypatch.context() as patched:
        patched.setattr(OpenFile, "sync", fail_with_disk_full)
        with pytest.raises(DiskFull, match="log/file"):
            write_atomically(disk, "log/file", b"x")
    monkeypatch.setattr(disk, "make_directory", fail_with_disk_full)
    with pytest.raises(DiskFull, match="log"):
        open_log(disk, "log")


@pytest.mark.stand_in
def test_snapshot_that_is_not_valid_once_written_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = fresh_disk(1)
    with monkeypatch.context() as patched:
        patched.setattr(OpenFile, "sync", fail_with_io_error)
        with pytest.raises(StorageError):
            write_snapshot(disk, "log", IN_LOG)

    def reject(*arguments: object, **options: object) -> None:
        raise CorruptSnapshot("a byte changed")

    monkeypatch.setattr(snapshot_file, "check_snapshot", reject)
    with pytest.raises(CorruptSnapshot):
        write_snapshot(disk, "log", IN_LOG)
    assert disk.list_directory("log") == []
