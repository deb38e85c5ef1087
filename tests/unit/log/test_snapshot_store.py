"""The snapshots of a directory: found, served in chunks, fetched in chunks."""

from __future__ import annotations

from contextlib import suppress

import pytest

from quorumd.errors import CorruptSnapshot, DiskFull, StorageError, UnknownRecord
from quorumd.ids import OffsetAndEpoch
from quorumd.log.retention import StoredSnapshot
from quorumd.log.snapshot_file import SnapshotWriter, file_name
from quorumd.log.snapshot_store import SnapshotStore
from quorumd.ports import Disk
from quorumd.simulator.environment.disk import PowerLost, SimulatedDisk
from quorumd.simulator.environment.open_file import OpenFile
from tests.support.log.small_logs import (
    fail_with_disk_full,
    fail_with_io_error,
    fresh_disk,
    open_log,
    restart_after_power_loss,
)
from tests.support.log.snapshots import TIMESTAMP_MS, write_snapshot

OLD, NEW = OffsetAndEpoch(42, 7), OffsetAndEpoch(100, 8)


def store_with(*snapshots: OffsetAndEpoch) -> tuple[SimulatedDisk, SnapshotStore]:
    disk = fresh_disk(1)
    for snapshot in snapshots:
        write_snapshot(disk, "log", snapshot)
    return disk, SnapshotStore(disk, "log")


def put(disk: Disk, name: str) -> None:
    disk.open(f"log/{name}", create=True).write_at(0, b"x")


def test_finds_complete_snapshots_in_order() -> None:
    disk, store = store_with(NEW, OLD)
    put(disk, f"{file_name(OLD)}.part")
    put(disk, file_name(OffsetAndEpoch(0, 0)))
    store.rescan()
    assert store.ids == [OLD, NEW]
    assert store.latest == NEW


def test_empty_directory_has_none() -> None:
    assert store_with()[1].latest is None


def test_finds_snapshots_of_other_processes() -> None:
    disk, store = store_with(OLD)
    write_snapshot(disk, "log", NEW)
    assert store.latest == OLD
    store.rescan()
    assert store.latest == NEW


def test_size_of_a_removed_snapshot_is_not_remembered() -> None:
    disk, store = store_with(OLD)
    before = store.size(OLD)
    disk.remove(store.path(OLD))
    store.rescan()
    assert store.size(OLD) is None
    write_snapshot(disk, "log", OLD, values=[])
    store.rescan()
    assert (store.size(OLD) or 0) < (before or 0)


def test_serves_chunks() -> None:
    _, store = store_with(OLD)
    size = store.size(OLD)
    assert size is not None
    pieces = [store.read(OLD, position, 50) or b"" for position in range(0, size, 50)]
    assert [len(piece) for piece in pieces[:-1]] == [50] * (len(pieces) - 1)
    assert len(b"".join(pieces)) == size
    assert store.read(OLD, size, 50) == b""


def test_missing_snapshot_is_reported() -> None:
    disk, store = store_with(OLD)
    assert (store.size(NEW), store.read(NEW, 0, 10)) == (None, None)
    disk.remove(store.path(OLD))
    assert (store.size(OLD), store.read(OLD, 0, 10)) == (None, None)


def test_fetched_snapshot_appears_when_complete() -> None:
    _, source = store_with(OLD)
    size = source.size(OLD) or 0
    disk, store = store_with()
    for position in range(0, size, 50):
        assert store.part_size(OLD) == position
        store.write_part(OLD, position, source.read(OLD, position, 50) or b"")
        store.rescan()
        assert store.ids == []
    summary = store.finish_part(OLD)
    store.rescan()
    assert (store.ids, summary.size) == ([OLD], size)
    assert disk.list_directory("log") == [file_name(OLD)]


def test_fetch_continues_after_a_restart_and_from_an_earlier_position() -> None:
    disk, store = store_with()
    store.write_part(OLD, 0, b"0123456789")
    again = SnapshotStore(disk, "log")
    assert again.part_size(OLD) == 10
    again.write_part(OLD, 4, b"ab")
    assert again.part_size(OLD) == 6


def test_partial_file_of_another_snapshot_is_discarded() -> None:
    disk, store = store_with()
    store.write_part(OLD, 0, b"x")
    store.write_part(NEW, 0, b"y")
    assert disk.list_directory("log") == [f"{file_name(NEW)}.part"]


def test_corrupt_fetched_snapshot_is_removed() -> None:
    disk, store = store_with()
    store.write_part(OLD, 0, b"x" * 100)
    with pytest.raises(CorruptSnapshot):
        store.finish_part(OLD)
    assert disk.list_directory("log") == []


def test_snapshot_of_a_later_version_is_rejected() -> None:
    """It is not corrupt: fetching it again would not help."""
    disk, store = store_with()
    other = fresh_disk(2)
    size = write_snapshot(other, "log", OLD, [b"\1\x63\0\0"]).size
    store.write_part(OLD, 0, SnapshotStore(other, "log").read(OLD, 0, size) or b"")
    with pytest.raises(UnknownRecord, match=r"offset 3: .*record type 99\b"):
        store.finish_part(OLD)
    assert disk.list_directory("log") == []


def test_fetching_an_existing_snapshot_keeps_it() -> None:
    _, source = store_with(OLD)
    whole = source.read(OLD, 0, source.size(OLD) or 0) or b""
    _, store = store_with()
    store.write_part(OLD, 0, whole)
    store.finish_part(OLD)
    store.rescan()
    assert store.part_size(OLD) == 0
    store.write_part(OLD, 0, b"x")
    assert store.read(OLD, 0, len(whole)) == whole


def test_corrupt_snapshot_is_fetched_again_from_position_0() -> None:
    disk, source = store_with(OLD)
    content = source.read(OLD, 0, 10**6) or b""
    disk.remove(source.path(OLD))
    store = SnapshotStore(disk, "log")
    store.write_part(OLD, 0, b"x" * 100)
    with pytest.raises(CorruptSnapshot):
        store.finish_part(OLD)
    assert store.part_size(OLD) == 0
    store.write_part(OLD, 0, content)
    store.finish_part(OLD)
    assert store.part_size(OLD) == 0
    store.rescan()
    assert store.ids == [OLD]


def test_gap_in_fetched_bytes_restarts_the_fetch() -> None:
    disk, store = store_with()
    store.write_part(OLD, 0, b"0123456789")
    with pytest.raises(StorageError, match="position 11"):
        store.write_part(OLD, 11, b"x")
    assert disk.list_directory("log") == []


def test_snapshot_without_voters_is_rejected() -> None:
    disk = fresh_disk(1)
    writer = SnapshotWriter(disk, "log", OLD, TIMESTAMP_MS, None, "test")
    writer.finish()
    store = SnapshotStore(disk, "log")
    content = store.read(OLD, 0, 10**6) or b""
    store.write_part(OLD, 0, content)
    with pytest.raises(CorruptSnapshot, match=r"kraft\.version 0"):
        store.finish_part(OLD)


@pytest.mark.parametrize(
    ("failure", "error"), [(fail_with_disk_full, DiskFull), (fail_with_io_error, StorageError)]
)
def test_disk_error_costs_only_the_partial_file(
    failure: object, error: type[StorageError], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, store = store_with()
    store.write_part(OLD, 0, b"x")
    monkeypatch.setattr(OpenFile, "write_at", failure)
    with pytest.raises(error):
        store.write_part(OLD, 1, b"y")
    assert disk.list_directory("log") == []
    assert store.part_size(OLD) == 0


@pytest.mark.parametrize("calls", range(1, 14))
def test_power_loss_while_fetching_leaves_a_valid_snapshot_or_none(calls: int) -> None:
    _, source = store_with(OLD)
    content = source.read(OLD, 0, 10**6) or b""
    for seed in range(6):
        disk = fresh_disk(seed)
        write_snapshot(disk, "log", OffsetAndEpoch(5, 1))
        store = SnapshotStore(disk, "log")
        disk.lose_power_within(calls)
        with suppress(PowerLost):
            fetch(store, content)
        restart_after_power_loss(disk)
        again = SnapshotStore(disk, "log")
        for snapshot in again.ids:
            again.check(snapshot)
        assert again.part_size(OLD) <= len(content)
        with suppress(CorruptSnapshot):
            fetch(again, content)
        fetch(again, content)
        again.rescan()
        assert again.ids == [OffsetAndEpoch(5, 1), OLD]


def fetch(store: SnapshotStore, content: bytes) -> None:
    """Fetch as a follower does: continue at the local size, then check."""
    while (position := store.part_size(OLD)) < len(content):
        store.write_part(OLD, position, content[position : position + 150])
    store.finish_part(OLD)


def test_retention_is_reported_size_and_age() -> None:
    disk, store = store_with(OLD, NEW)
    size = store.size(NEW) or 0
    assert store.stored()[1] == StoredSnapshot(NEW, size, TIMESTAMP_MS)
    disk.open(store.path(OLD)).write_at(70, b"!")
    assert SnapshotStore(disk, "log").stored()[0] == StoredSnapshot(OLD, size, 0)
    disk.remove(store.path(OLD))
    assert [stored.snapshot for stored in SnapshotStore(disk, "log").stored()] == [NEW]


def test_failed_sync_leaves_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, store = store_with()
    store.write_part(OLD, 0, b"x")
    with monkeypatch.context() as patch:
        patch.setattr(OpenFile, "sync", fail_with_io_error)
        with pytest.raises(StorageError, match="durable"):
            store.finish_part(OLD)
    assert disk.list_directory("log") == []


def test_corrupt_snapshot_is_renamed() -> None:
    disk, store = store_with(OLD, NEW)
    path = store.quarantine(NEW)
    assert (store.ids, store.quarantined_count) == ([OLD], 1)
    assert f"{file_name(NEW)}.corrupt" in path
    assert disk.exists(path)


def test_old_snapshots_are_removed() -> None:
    disk, store = store_with(OLD, NEW)
    store.remove_before(NEW.offset)
    assert store.ids == [NEW]
    assert disk.list_directory("log") == [file_name(NEW)]


def test_start_removes_builder_leftovers_and_keeps_partial_fetches() -> None:
    disk, store = store_with(OLD)
    put(disk, f"{file_name(NEW)}.1-2.building")
    put(disk, f"{file_name(NEW)}.part")
    store.remove_leftovers()
    assert disk.list_directory("log") == [file_name(OLD), f"{file_name(NEW)}.part"]


def test_opened_log_has_no_builder_leftovers() -> None:
    disk, _ = store_with(OLD)
    put(disk, f"{file_name(NEW)}.1-2.building")
    open_log(disk, "log")
    assert not [name for name in disk.list_directory("log") if "building" in name]
