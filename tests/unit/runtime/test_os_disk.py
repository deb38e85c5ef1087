"""The Disk port on files: the contract, on the simulator's disk too, and what only a real one can show."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from errno import ENOSPC, EOPNOTSUPP
from pathlib import Path
from queue import SimpleQueue
from random import Random
from threading import current_thread

import pytest

from quorumd.ports import Disk
from quorumd.runtime.disk import OsDisk, OsFile
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process

PATIENCE_S = 300.0


@pytest.fixture
def os_disk() -> Iterator[OsDisk]:
    """Results of operations are delivered on the flush thread itself."""
    disk = OsDisk(lambda callback: callback())
    yield disk
    disk.close()


@pytest.fixture(params=["files", "simulated"])
def disk(request: pytest.FixtureRequest, os_disk: OsDisk, directory: str) -> Disk:
    """The Disk port, twice."""
    if request.param == "files":
        return os_disk
    simulated = SimulatedDisk(EventHeap(), Random(1))
    simulated.mount(Process("test"))
    simulated.make_directory(directory)
    return simulated


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """A directory that is there."""
    return str(tmp_path)


class TestFileContract:
    def test_write_and_read(self, disk: Disk, directory: str) -> None:
        file = disk.open(f"{directory}/file", create=True)
        assert file.size() == 0
        assert file.read_at(0, 10) == b""
        file.write_at(3, b"abc")
        assert file.size() == 6
        assert file.read_at(0, 100) == b"\0\0\0abc"
        assert file.read_at(4, 1) == b"b"
        assert file.read_at(6, 1) == b""
        file.write_at(4, b"XYZ")
        file.sync()
        file.close()
        file.close()
        assert disk.open(f"{directory}/file").read_at(0, 100) == b"\0\0\0aXYZ"

    def test_truncate(self, disk: Disk, directory: str) -> None:
        file = disk.open(f"{directory}/file", create=True)
        file.write_at(0, b"abcdef")
        file.truncate(2)
        file.truncate(4)
        assert file.read_at(0, 100) == b"ab\0\0"

    def test_allocate_never_shrinks_and_reads_as_zeros(self, disk: Disk, directory: str) -> None:
        file = disk.open(f"{directory}/file", create=True)
        file.write_at(0, b"ab")
        file.allocate(5)
        assert file.read_at(0, 100) == b"ab\0\0\0"
        file.allocate(3)
        assert file.size() == 5

    def test_removed_or_replaced_file_stays_readable_while_it_is_open(
        self, disk: Disk, directory: str
    ) -> None:
        file = disk.open(f"{directory}/file", create=True)
        file.write_at(0, b"ab")
        disk.remove(f"{directory}/file")
        file.write_at(2, b"c")
        file.sync()
        assert file.read_at(0, 9) == b"abc"
        assert not disk.exists(f"{directory}/file")


class TestDiskContract:
    def test_names(self, disk: Disk, directory: str) -> None:
        assert not disk.exists(f"{directory}/b")
        for name in ("b", "a", "c"):
            disk.open(f"{directory}/{name}", create=True).close()
        assert disk.exists(f"{directory}/b")
        assert disk.list_directory(directory) == ["a", "b", "c"]
        file = disk.open(f"{directory}/a")
        file.write_at(0, b"new")
        disk.rename(f"{directory}/a", f"{directory}/b")
        disk.remove(f"{directory}/c")
        disk.sync_directory(directory)
        assert disk.list_directory(directory) == ["b"]
        assert disk.open(f"{directory}/b").read_at(0, 9) == b"new"

    def test_directories(self, disk: Disk, directory: str) -> None:
        disk.make_directory(f"{directory}/a/b")
        disk.make_directory(f"{directory}/a/b")
        assert disk.exists(f"{directory}/a")
        assert disk.list_directory(f"{directory}/a") == ["b"]

    def test_only_empty_directories_are_removed(self, disk: Disk, directory: str) -> None:
        disk.make_directory(f"{directory}/a/b")
        for refused in (disk.remove_directory, disk.remove):
            with pytest.raises(OSError):
                refused(f"{directory}/a")
        disk.remove_directory(f"{directory}/a/b")
        disk.remove_directory(f"{directory}/a")
        assert disk.list_directory(directory) == []

    @pytest.mark.parametrize(
        "call",
        [
            lambda disk, path: disk.open(path),
            lambda disk, path: disk.list_directory(path),
            lambda disk, path: disk.remove(path),
            lambda disk, path: disk.remove_directory(path),
            lambda disk, path: disk.rename(path, path + "2"),
            lambda disk, path: disk.sync_directory(path),
            lambda disk, path: disk.open(path + "/below", create=True),
        ],
    )
    def test_missing_file_or_directory(
        self, disk: Disk, directory: str, call: Callable[[Disk, str], object]
    ) -> None:
        with pytest.raises(FileNotFoundError):
            call(disk, f"{directory}/missing")

    def test_lock(self, disk: Disk, directory: str) -> None:
        held = disk.lock(f"{directory}/lock")
        with pytest.raises(BlockingIOError):
            disk.lock(f"{directory}/lock")
        held.close()
        disk.lock(f"{directory}/lock").close()

    def test_free_bytes(self, disk: Disk, directory: str) -> None:
        assert 0 < disk.free_bytes(directory) <= disk.total_bytes(directory)


class TestLock:
    def test_holds_against_another_process(self, os_disk: OsDisk, directory: str) -> None:
        held = os_disk.lock(f"{directory}/lock")
        other = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        command = [sys.executable, "-c", other, f"{directory}/lock"]
        assert b"BlockingIOError" in subprocess.run(command, capture_output=True, check=False).stderr
        held.close()
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0

    def test_failed_lock_leaves_no_descriptor(self, os_disk: OsDisk, directory: str) -> None:
        os_disk.lock(f"{directory}/lock")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with pytest.raises(BlockingIOError):
                os_disk.lock(f"{directory}/lock")
        assert len(os.listdir("/proc/self/fd")) == before


class TestSystemCalls:
    def test_short_writes_and_reads_are_completed(
        self, os_disk: OsDisk, directory: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pwrite, pread = os.pwrite, os.pread
        monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data)[:3], at))
        monkeypatch.setattr(os, "pread", lambda fd, length, at: pread(fd, min(length, 4), at))
        file = os_disk.open(f"{directory}/file", create=True)
        file.write_at(2, b"abcdefghijk")
        assert file.read_at(0, 13) == b"\0\0abcdefghijk"
        assert file.read_at(0, 100) == b"\0\0abcdefghijk"
        assert file.read_at(5, 7) == b"defghij"

    def test_allocated_blocks_are_real(self, os_disk: OsDisk, directory: str) -> None:
        file = os_disk.open(f"{directory}/file", create=True)
        file.allocate(1 << 20)
        assert os.stat(f"{directory}/file").st_blocks * 512 >= 1 << 20

    def test_file_system_without_allocation_gets_the_size(
        self, os_disk: OsDisk, directory: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*arguments: int) -> None:
            raise OSError(EOPNOTSUPP, "Operation not supported")

        monkeypatch.setattr(os, "posix_fallocate", refuse)
        file = os_disk.open(f"{directory}/file", create=True)
        file.allocate(5000)
        assert file.read_at(0, 9999) == bytes(5000)

    def test_full_disk_shows_when_allocating(
        self, os_disk: OsDisk, directory: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*arguments: int) -> None:
            raise OSError(ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "posix_fallocate", refuse)
        with pytest.raises(OSError, match="No space left"):
            os_disk.open(f"{directory}/file", create=True).allocate(5000)

    def test_sync_reaches_the_system(
        self, os_disk: OsDisk, directory: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[str] = []
        monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
        monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
        os_disk.open(f"{directory}/file", create=True).sync()
        os_disk.sync_directory(directory)
        assert synced == [f"{directory}/file", directory]

    def test_descriptors_are_not_inherited(self, os_disk: OsDisk, directory: str) -> None:
        file = os_disk.open(f"{directory}/file", create=True)
        assert isinstance(file, OsFile)
        assert not os.get_inheritable(file._descriptor)


class TestSubmit:
    def test_runs_in_order_on_another_thread(self) -> None:
        delivered: SimpleQueue[Callable[[], None]] = SimpleQueue()
        disk = OsDisk(delivered.put)
        order: list[object] = []
        threads: list[str] = []

        def operation(number: int) -> int:
            threads.append(current_thread().name)
            order.append(("ran", number))
            return number

        for number in range(50):
            disk.submit(
                lambda number=number: operation(number), lambda result: order.append(("told", result))
            )
        disk.close()
        assert order == [("ran", number) for number in range(50)]
        assert set(threads) == {"flush"}
        while not delivered.empty():
            delivered.get()()
        assert order[50:] == [("told", number) for number in range(50)]

    def test_returns_exceptions_and_continues(self, os_disk: OsDisk) -> None:
        results: SimpleQueue[object] = SimpleQueue()

        def fail() -> None:
            raise OSError(5, "Input/output error")

        os_disk.submit(fail, results.put)
        os_disk.submit(lambda: "fine", results.put)
        failure = results.get(timeout=PATIENCE_S)
        assert isinstance(failure, OSError)
        assert failure.errno == 5
        assert results.get(timeout=PATIENCE_S) == "fine"

    def test_continues_after_event_loop_is_closed(self) -> None:
        ran: list[int] = []

        def gone(callback: Callable[[], None]) -> None:
            raise RuntimeError("Event loop is closed")

        disk = OsDisk(gone)
        disk.submit(lambda: ran.append(1), lambda result: None)
        disk.submit(lambda: ran.append(2), lambda result: None)
        disk.close()
        assert ran == [1, 2]

    def test_can_be_used_again_after_close(self, os_disk: OsDisk) -> None:
        results: SimpleQueue[object] = SimpleQueue()
        os_disk.close()
        os_disk.submit(lambda: 1, results.put)
        os_disk.close()
        os_disk.submit(lambda: 2, results.put)
        assert (results.get(timeout=PATIENCE_S), results.get(timeout=PATIENCE_S)) == (1, 2)


def test_directories_and_files_are_private_whatever_the_umask(os_disk: OsDisk, tmp_path: Path) -> None:
    """The log holds the keys of SCRAM users."""
    before = os.umask(0)
    try:
        os_disk.make_directory(str(tmp_path / "data"))
        os_disk.open(str(tmp_path / "data" / "log"), create=True).close()
        os_disk.lock(str(tmp_path / "data" / ".lock")).close()
    finally:
        os.umask(before)
    found = [tmp_path / "data", *sorted((tmp_path / "data").iterdir())]
    assert [oct(path.stat().st_mode & 0o777) for path in found] == ["0o700", "0o600", "0o600"]
