"""The Disk port on a real file system."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable
from errno import EINVAL, EOPNOTSUPP
from typing import Final, TypeVar

from quorumd.ports import Disk
from quorumd.runtime.disk_operations import DiskOperations
from quorumd.runtime.subprocess_job import SubprocessJob

FILE_MODE: Final = 0o600
"""For the owner only: the log has the SCRAM credentials of users, and the names of all topics and clients."""
DIRECTORY_MODE: Final = 0o700

T = TypeVar("T")


class OsFile:
    """The File port on a file descriptor."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def size(self) -> int:
        """The size of the file in bytes, including allocated blocks without data."""
        return os.fstat(self._descriptor).st_size

    def read_at(self, position: int, length: int) -> bytes:
        """See `ports.File`."""
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        missing = length - len(data)
        while missing and (data := os.pread(self._descriptor, missing, position + length - missing)):
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def send(self, socket: int, position: int, length: int) -> int:
        """Send up to `length` bytes from `position` to a socket, and return their number.

        They are not copied from the page cache until the peer receives them: if they are replaced before, it receives
        the new ones. Raises BlockingIOError if a non-blocking socket accepts none.
        """
        return os.sendfile(socket, self._descriptor, position, length)

    def write_at(self, position: int, data: bytes) -> None:
        """See `ports.File`."""
        written = os.pwrite(self._descriptor, data, position)
        if written < len(data):
            # A second write usually fails, with the reason for the short first one.
            rest = memoryview(data)[written:]
            while rest:
                written = os.pwrite(self._descriptor, rest, position + len(data) - len(rest))
                rest = rest[written:]

    def truncate(self, size: int) -> None:
        """See `ports.File`."""
        os.ftruncate(self._descriptor, size)

    def allocate(self, size: int) -> None:
        """See `ports.File`. Only the size is set if the file system cannot allocate blocks."""
        current = self.size()
        if size <= current:
            return
        if sys.platform != "darwin":
            try:
                os.posix_fallocate(self._descriptor, current, size - current)
                return
            except OSError as error:
                if error.errno not in (EINVAL, EOPNOTSUPP):
                    raise
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """See `ports.File`."""
        if sys.platform == "darwin":
            # On macOS, fsync does not flush the drive's cache.
            fcntl.fcntl(self._descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the descriptor, which releases a lock on the file. No effect if already closed."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class OsDisk:
    """The Disk port. `call_threadsafe`, `call_soon` and `call_later`: see `DiskOperations`."""

    def __init__(
        self,
        call_threadsafe: Callable[[Callable[[], None]], object],
        call_soon: Callable[[Callable[[], None]], object] | None = None,
        call_later: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        self._operations = DiskOperations(call_threadsafe, call_soon, call_later)
        self._subprocess = SubprocessJob(call_threadsafe)

    def open(self, path: str, *, create: bool = False) -> OsFile:
        """See `ports.Disk`."""
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), FILE_MODE)
        if sys.platform == "linux":
            # After a failed flush Linux marks the lost pages in its cache as clean. Recovery must read from the disk.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return self.make_file(descriptor)

    def make_file(self, descriptor: int) -> OsFile:
        """Create the file object for a descriptor."""
        return OsFile(descriptor)

    def exists(self, path: str) -> bool:
        """See `ports.Disk`."""
        return os.path.exists(path)

    def list_directory(self, path: str) -> list[str]:
        """See `ports.Disk`."""
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        """See `ports.Disk`."""
        os.makedirs(path, DIRECTORY_MODE, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """See `ports.Disk`."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """See `ports.Disk`."""
        os.remove(path)

    def remove_directory(self, path: str) -> None:
        """See `ports.Disk`."""
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        """See `ports.Disk`."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> OsFile:
        """See `ports.Disk`. The kernel releases the lock when the process ends."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The process id is only for error messages.
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        return OsFile(descriptor)

    def free_bytes(self, path: str) -> int:
        """See `ports.Disk`."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        """See `ports.Disk`."""
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def submit(self, operation: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """See `ports.Disk`."""
        self._operations.submit(operation, done)

    def run_in_subprocess(self, job: Callable[[Disk], T], done: Callable[[T | BaseException], None]) -> None:
        """See `ports.Disk`. The subprocess ends when this process does."""
        self._subprocess.run(job, done)

    def throttle_subprocess(self, duty_cycle: float) -> None:
        """See `ports.Disk`."""
        self._subprocess.throttle(duty_cycle)

    def close(self) -> None:
        """Kill the subprocess job, complete the submitted operations and end the flush thread."""
        self._subprocess.close()
        self._operations.close()
