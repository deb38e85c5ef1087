"""A read-only Disk port on this machine's files: modifications are rejected."""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import EROFS
from typing import NoReturn, TypeVar

from quorumd.ports import Disk

T = TypeVar("T")


def _refuse(path: str) -> NoReturn:
    raise OSError(EROFS, os.strerror(EROFS), path)


class ReadOnlyFile:
    """A file opened for reading; modifications raise OSError (EROFS)."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read_at(self, position: int, length: int) -> bytes:
        """Read up to `length` bytes; a system call returns at most 2 GB of them."""
        pieces = []
        while length > 0 and (piece := os.pread(self._descriptor, min(length, 1 << 30), position)):
            pieces.append(piece)
            position += len(piece)
            length -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def write_at(self, position: int, data: bytes) -> None:
        _refuse(self._path)

    def truncate(self, size: int) -> None:
        _refuse(self._path)

    def allocate(self, size: int) -> None:
        _refuse(self._path)

    def sync(self) -> None:
        _refuse(self._path)

    def close(self) -> None:
        os.close(self._descriptor)


class ReadOnlyDisk:
    """Opens and lists files; every other method raises OSError (EROFS)."""

    def open(self, path: str, *, create: bool = False) -> ReadOnlyFile:
        if create:
            _refuse(path)
        return ReadOnlyFile(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        _refuse(path)

    def rename(self, source: str, target: str) -> None:
        _refuse(target)

    def remove(self, path: str) -> None:
        _refuse(path)

    def remove_directory(self, path: str) -> None:
        _refuse(path)

    def sync_directory(self, path: str) -> None:
        _refuse(path)

    def lock(self, path: str) -> ReadOnlyFile:
        _refuse(path)

    def free_bytes(self, path: str) -> int:
        return 0

    def total_bytes(self, path: str) -> int:
        return 0

    def submit(self, operation: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        _refuse("submit")

    def throttle_subprocess(self, duty_cycle: float) -> None:
        """Do nothing: no subprocess runs on this disk."""

    def run_in_subprocess(self, job: Callable[[Disk], T], done: Callable[[T | BaseException], None]) -> None:
        _refuse("run_in_subprocess")
