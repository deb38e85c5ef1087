"""The snapshots of a data folder: what is there, pieces of them for others, pieces of those that are fetched.

A snapshot that is fetched grows in `<name>.part` and keeps what it has over a restart: it is checked whole before it
gets its name. Building ones have names of their own (`snapshot_file.SnapshotWriter`).
"""

from __future__ import annotations

from quorumd.errors import CorruptSnapshot, DiskFull, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.log.atomic_file import is_disk_full
from quorumd.log.snapshot_file import (
    SUFFIX,
    SnapshotSummary,
    check_snapshot,
    file_name,
    put_in_place,
    remove_quietly,
    snapshot_of,
)
from quorumd.ports import Disk, File

PART = ".part"
BUILDING = ".building"
SET_ASIDE = ".corrupt"


class SnapshotStore:
    """See the package docstring. All methods belong to the event thread but `finish_part`, which blocks."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Raises OSError for a folder that cannot be read."""
        self._disk = disk
        self._directory = directory
        self.ids: list[OffsetAndEpoch] = []
        """The whole snapshots, ascending."""
        self._sizes: dict[OffsetAndEpoch, int] = {}
        self._part: tuple[OffsetAndEpoch, File] | None = None
        """The snapshot that is fetched, and its file while it is open."""
        self._scan()

    def __repr__(self) -> str:
        return f"<snapshots {', '.join(f'{s.offset}-{s.epoch}' for s in self.ids) or 'none'}>"

    @property
    def latest(self) -> OffsetAndEpoch | None:
        return self.ids[-1] if self.ids else None

    def rescan(self) -> None:
        """Look what is in the folder: others may have put a snapshot there. Raises StorageError."""
        try:
            self._scan()
        except OSError as cause:
            raise StorageError(f"{self._directory} cannot be listed: {cause}") from cause

    def _scan(self) -> None:
        found = (snapshot_of(name) for name in self._disk.list_directory(self._directory))
        # A stock folder has one that ends at 0: what its controller was formatted with.
        self.ids = sorted(snapshot for snapshot in found if snapshot is not None and snapshot.offset > 0)
        self._sizes = {snapshot: size for snapshot, size in self._sizes.items() if snapshot in self.ids}

    def remove_leftovers(self) -> None:
        """At a start: remove what builders left that are gone."""
        for name in self._disk.list_directory(self._directory):
            if SUFFIX in name and name.endswith(BUILDING):
                remove_quietly(self._disk, f"{self._directory}/{name}")

    def path(self, snapshot: OffsetAndEpoch) -> str:
        return f"{self._directory}/{file_name(snapshot)}"

    def size(self, snapshot: OffsetAndEpoch) -> int | None:
        """Bytes of a snapshot, None if it is not here. Raises StorageError."""
        if snapshot not in self.ids:
            return None
        if snapshot not in self._sizes:
            try:
                file = self._disk.open(self.path(snapshot))
            except FileNotFoundError:
                return None
            except OSError as cause:
                raise StorageError(f"{self.path(snapshot)} cannot be opened: {cause}") from cause
            try:
                self._sizes[snapshot] = file.size()
            finally:
                file.close()
        return self._sizes[snapshot]

    def read(self, snapshot: OffsetAndEpoch, position: int, limit: int) -> bytes | None:
        """Up to `limit` bytes from `position`; None if the snapshot is not here. Raises StorageError."""
        if snapshot not in self.ids:
            return None
        path = self.path(snapshot)
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            return None
        except OSError as cause:
            raise StorageError(f"{path} cannot be opened: {cause}") from cause
        try:
            return file.read_at(position, limit)
        except OSError as cause:
            raise StorageError(f"{path} cannot be read: {cause}; check the disk") from cause
        finally:
            file.close()

    def check(self, snapshot: OffsetAndEpoch) -> SnapshotSummary:
        """Read a snapshot whole. Blocks. Raises CorruptSnapshot, StorageError."""
        return check_snapshot(self._disk, self.path(snapshot), snapshot)

    def set_aside(self, snapshot: OffsetAndEpoch) -> str:
        """A snapshot turned out to be damaged: keep it under another name, which is returned."""
        path = self.path(snapshot)
        try:
            self._disk.rename(path, path + SET_ASIDE)
        except OSError as cause:
            raise StorageError(f"{path} cannot be set aside: {cause}") from cause
        self.ids.remove(snapshot)
        return path + SET_ASIDE

    def remove_below(self, offset: int) -> None:
        """Remove the snapshots that end below `offset`."""
        for snapshot in [snapshot for snapshot in self.ids if snapshot.offset < offset]:
            self.ids.remove(snapshot)
            remove_quietly(self._disk, self.path(snapshot))

    # ---- fetched ones

    def part_size(self, snapshot: OffsetAndEpoch) -> int:
        """How many bytes of a snapshot that is being fetched are here."""
        if self._part is not None and self._part[0] == snapshot:
            return self._part[1].size()
        try:
            file = self._disk.open(self.path(snapshot) + PART)
        except OSError:
            return 0
        try:
            return file.size()
        finally:
            file.close()

    def write_part(self, snapshot: OffsetAndEpoch, position: int, data: bytes) -> None:
        """Keep bytes of a snapshot that is fetched; what is there of others is removed.

        Raises DiskFull with nothing of it kept, StorageError.
        """
        path = self.path(snapshot) + PART
        try:
            if self._part is None or self._part[0] != snapshot:
                self._close_part()
                for name in self._disk.list_directory(self._directory):
                    if name.endswith(SUFFIX + PART) and name != file_name(snapshot) + PART:
                        remove_quietly(self._disk, f"{self._directory}/{name}")
                self._part = snapshot, self._disk.open(path, create=True)
            file = self._part[1]
            file.truncate(position)
            file.write_at(position, data)
        except OSError as cause:
            self._close_part()
            remove_quietly(self._disk, path)
            if is_disk_full(cause):
                raise DiskFull(f"no room for the snapshot {path}: {cause}") from cause
            raise StorageError(f"{path} was not written: {cause}") from cause

    def finish_part(self, snapshot: OffsetAndEpoch) -> SnapshotSummary:
        """Check a snapshot that has come whole and put it in place, durably. Blocks.

        `rescan` on the event thread shows it then. Raises CorruptSnapshot or StorageError with the part removed,
        FlushFailed.
        """
        path = self.path(snapshot) + PART
        try:
            file = self._disk.open(path)
            try:
                file.sync()
            finally:
                file.close()
        except OSError as cause:
            remove_quietly(self._disk, path)
            raise StorageError(f"{path} could not be made durable: {cause}") from cause
        try:
            summary = check_snapshot(self._disk, path, snapshot)
            if summary.voters is None:
                raise CorruptSnapshot(
                    f"{path} does not say who votes: a quorum of kraft.version 0 is not joined"
                )
        except StorageError:
            remove_quietly(self._disk, path)
            raise
        put_in_place(self._disk, path, self.path(snapshot))
        return summary

    def _close_part(self) -> None:
        if self._part is not None:
            part, self._part = self._part, None
            part[1].close()

    def close(self) -> None:
        self._close_part()
