"""Detects when a new version of a small, atomically replaced file becomes durable."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from quorumd.simulator.environment.directory import Directory
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.stored_file import StoredFile

MAX_BYTES = 1 << 16


class DurableFiles:
    """The watched small files of one disk, whose `SimulatedDisk.after_sync` is `synced`.

    A sync of a file changes only the content of its inode. The durable inode of a name changes only with a sync of a
    directory, a crash, or a removal. After other syncs there is nothing to read.
    """

    def __init__(self, disk: SimulatedDisk, paths: Mapping[str, Callable[[bytes], None]]) -> None:
        """`paths` has a callback per path, which is called with every new content once it survives every crash."""
        self._disk = disk
        self._callbacks = paths
        self._contents: dict[str, bytes] = {}
        self._inodes: list[StoredFile | None] = []
        self._cuts = -1

    def forget(self) -> None:
        """Report all contents again: the files on the disk were replaced."""
        self._contents.clear()

    def synced(self, entry: StoredFile | Directory) -> None:
        disk = self._disk
        if isinstance(entry, StoredFile) and entry not in self._inodes and disk.cuts == self._cuts:
            return
        self._cuts = disk.cuts
        self._inodes = [disk.durable_file(path) for path in self._callbacks]
        for (path, callback), inode in zip(self._callbacks.items(), self._inodes, strict=True):
            data = inode.durable_prefix(MAX_BYTES) if inode is not None else b""
            if data != self._contents.get(path, b""):
                self._contents[path] = data
                if data:
                    callback(data)
