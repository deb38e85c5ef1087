"""Power failures: a directory keeps only flushed contents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR

import pytest


class FlushedDisk:
    """Files and directories at their last flush, by inode.

    The content of a directory is its names: a file that was created or renamed since then has its old name, or none.
    """

    def __init__(self) -> None:
        self._files: dict[int, bytes] = {}
        self._directories: dict[int, dict[str, tuple[int, bool]]] = {}
        self.handles: list[int] = []

    def flushed(self, handle: int) -> None:
        """Record the flush of a file or directory."""
        # While the file is open, no other file gets its inode number.
        self.handles.append(os.dup(handle))
        status = os.fstat(handle)
        if S_ISDIR(status.st_mode):
            with os.scandir(handle) as inside:
                names = {each.name: (each.inode(), each.is_dir()) for each in inside}
            self._directories[status.st_ino] = names
        else:
            # The handle may be open for writing only.
            self._files[status.st_ino] = Path(f"/dev/fd/{handle}").read_bytes()

    def has(self, file: Path) -> bool:
        """Whether the whole content of a file was flushed."""
        return self._files.get(file.stat().st_ino) == file.read_bytes()

    def leave(self, directory: Path, into: Path) -> Path:
        """Copy the remains of `directory` to `into`."""
        self._leave(directory.stat().st_ino, into)
        return into

    def _leave(self, number: int, into: Path) -> None:
        into.mkdir(parents=True)
        for name, (inside, is_directory) in self._directories.get(number, {}).items():
            if is_directory:
                self._leave(inside, into / name)
            else:
                (into / name).write_bytes(self._files.get(inside, b""))


@contextmanager
def flushed_disk() -> Iterator[FlushedDisk]:
    """Record the content that `os.fsync` makes durable while the block runs."""
    disk, fsync = FlushedDisk(), os.fsync

    def flush(handle: int) -> None:
        fsync(handle)
        disk.flushed(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", flush)
        try:
            yield disk
        finally:
            for handle in disk.handles:
                os.close(handle)
