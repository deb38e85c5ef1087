"""An open file on a simulated disk."""

from __future__ import annotations

from errno import ENOSPC
from typing import TYPE_CHECKING

from quorumd.simulator.environment.disk_errors import disk_error
from quorumd.simulator.environment.stored_file import StoredFile

if TYPE_CHECKING:
    from quorumd.simulator.environment.disk import SimulatedDisk


class OpenFile:
    """The File port over one inode."""

    __slots__ = ("_closed", "_disk", "_file", "_lock_path", "_mount")

    def __init__(self, disk: SimulatedDisk, file: StoredFile, lock_path: str = "") -> None:
        self._disk = disk
        self._file = file
        self._lock_path = lock_path
        self._mount = disk.mounts
        self._closed = False

    def size(self) -> int:
        self._check()
        return len(self._file.content)

    def read_at(self, position: int, length: int) -> bytes:
        self._check()
        self._disk.before_read()
        return self._file.read(position, length)

    def write_at(self, position: int, data: bytes) -> None:
        self._check()
        self._disk.before_change()
        limit = self._disk.free_space_for(self._file, position + len(data))
        if limit < position + len(data):
            # A full disk may accept part of a write before it fails.
            if limit > position:
                self._file.write(position, bytes(data[: limit - position]))
            raise disk_error(ENOSPC)
        self._file.write(position, bytes(data))

    def truncate(self, size: int) -> None:
        self._check()
        self._disk.before_change()
        if self._disk.free_space_for(self._file, size) < size:
            raise disk_error(ENOSPC)
        self._disk.cuts += 1
        self._file.truncate(size)

    def allocate(self, size: int) -> None:
        self._check()
        self._disk.before_change()
        if self._disk.free_space_for(self._file, size) < size:
            raise disk_error(ENOSPC)
        self._file.allocate(size)

    def sync(self) -> None:
        self._check()
        self._disk.before_call()
        self._disk.before_sync(self._file)
        self._file.sync()
        self._disk.after_sync(self._file)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._disk.unlock(self._lock_path)

    def _check(self) -> None:
        self._disk.check_power()
        if self._closed or self._mount != self._disk.mounts:
            raise ValueError("I/O operation on a closed file")
