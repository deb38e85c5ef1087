"""Small files: the old content or the new one, never a mixture, and an honest error."""

from __future__ import annotations

from errno import EDQUOT, EIO, ENOSPC
from random import Random

import pytest

from quorumd.errors import CorruptLog, DiskFull, FlushFailed, StorageError
from quorumd.log.atomic_file import (
    MAX_SMALL_FILE_BYTES,
    is_disk_full,
    parent_directory,
    read_small_file,
    read_whole,
    reserve_spare,
    write_atomically,
)
from quorumd.ports import Disk
from quorumd.simulator.environment.disk import PowerLost, SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.environment.stored_file import StoredFile


def test_replaces_the_content_without_leftovers(disk: Disk, directory: str) -> None:
    path = f"{directory}/name"
    assert read_whole(disk, path) is None
    write_atomically(disk, path, b"a rather long first content")
    write_atomically(disk, path, b"short")
    assert read_whole(disk, path) == b"short"
    assert disk.list_directory(directory) == ["name"]


def test_leftovers_of_spare_or_failed_write_are_overwritten(disk: Disk, directory: str) -> None:
    path = f"{directory}/name"
    reserve_spare(disk, path)
    write_atomically(disk, path, b"content")
    assert read_whole(disk, path) == b"content"


def test_crash_at_any_call_leaves_old_or_new_content() -> None:
    seen = set()
    for seed in range(40):
        for calls in range(1, 9):
            disk = SimulatedDisk(EventHeap(), Random(seed))
            disk.mount(Process("test"))
            disk.make_directory("data")
            disk.sync_directory(".")
            write_atomically(disk, "data/name", b"old")
            disk.lose_power_within(calls)
            returned = False
            try:
                write_atomically(disk, "data/name", b"new content")
                returned = True
            except PowerLost:
                pass
            disk.lose_power()
            disk.mount(Process("test"))
            content = read_whole(disk, "data/name")
            assert content in ([b"new content"] if returned else [b"old", b"new content"])
            seen.add((returned, content))
    assert seen == {(True, b"new content"), (False, b"old"), (False, b"new content")}


def test_full_disk_keeps_the_old_content(memory_disk: SimulatedDisk, directory: str) -> None:
    write_atomically(memory_disk, f"{directory}/name", b"old")
    memory_disk.capacity = memory_disk.used_bytes() + 2
    with pytest.raises(DiskFull, match=r"data/name .*No space left"):
        write_atomically(memory_disk, f"{directory}/name", b"new content")
    assert read_whole(memory_disk, f"{directory}/name") == b"old"


def test_spare_makes_the_next_write_work_on_a_full_disk(memory_disk: SimulatedDisk, directory: str) -> None:
    path = f"{directory}/name"
    write_atomically(memory_disk, path, b"old")
    reserve_spare(memory_disk, path)
    memory_disk.capacity = memory_disk.used_bytes()
    write_atomically(memory_disk, path, b"new content")
    assert read_whole(memory_disk, path) == b"new content"
    memory_disk.capacity = 0
    reserve_spare(memory_disk, path)  # a full disk leaves no spare, which is not an error


class CrowdedDisk(SimulatedDisk):
    """Freed blocks are taken by another process immediately."""

    crowded = False

    def free_space_for(self, file: StoredFile, size: int) -> int:
        """See SimulatedDisk."""
        if self.crowded:
            self.capacity = min(self.capacity, self.used_bytes())
        return super().free_space_for(file, size)


def test_spare_blocks_are_reused_without_freeing_them() -> None:
    disk = CrowdedDisk(EventHeap(), Random(1))
    disk.mount(Process("test"))
    reserve_spare(disk, "name")
    disk.crowded = True
    write_atomically(disk, "name", b"content")
    assert read_whole(disk, "name") == b"content"


def test_failed_sync_is_a_failed_flush_and_keeps_the_old_content(
    memory_disk: SimulatedDisk, directory: str
) -> None:
    write_atomically(memory_disk, f"{directory}/name", b"old")
    memory_disk.fail_sync()
    with pytest.raises(FlushFailed, match="old content"):
        write_atomically(memory_disk, f"{directory}/name", b"new")
    assert read_whole(memory_disk, f"{directory}/name") == b"old"


def test_failed_sync_of_the_directory_is_a_failed_flush(
    memory_disk: SimulatedDisk, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> None:
        raise OSError(ENOSPC, "No space left on device", path)

    monkeypatch.setattr(memory_disk, "sync_directory", fail)
    with pytest.raises(FlushFailed, match=f"{directory}/name"):
        write_atomically(memory_disk, f"{directory}/name", b"new")


def test_file_that_cannot_be_read_is_an_error_that_names_it(disk: Disk, directory: str) -> None:
    with pytest.raises(StorageError, match=directory):
        read_whole(disk, directory)


def test_oversized_file_is_damage_and_not_parsed(disk: Disk, directory: str) -> None:
    """Parsing a megabyte of backslashes took seconds and 40 MB (found by fuzzing)."""
    path = f"{directory}/meta.properties"
    write_atomically(disk, path, b"\\" * MAX_SMALL_FILE_BYTES)
    assert read_small_file(disk, path) == b"\\" * MAX_SMALL_FILE_BYTES
    write_atomically(disk, path, b"\\" * (MAX_SMALL_FILE_BYTES + 1))
    with pytest.raises(CorruptLog, match=f"{path}.*65536 bytes"):
        read_small_file(disk, path)


def test_disk_full_means_no_space_or_quota_exceeded() -> None:
    assert is_disk_full(OSError(ENOSPC, ""))
    assert is_disk_full(OSError(EDQUOT, ""))
    assert not is_disk_full(OSError(EIO, ""))


@pytest.mark.parametrize(
    ("path", "directory_name"), [("a/b/c", "a/b"), ("/a", "/"), ("/a/b", "/a"), ("a", ".")]
)
def test_directory_of(path: str, directory_name: str) -> None:
    assert parent_directory(path) == directory_name
