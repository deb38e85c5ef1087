"""The snapshots of a data folder: what is there, pieces of them for others, pieces of those that are fetched.

A snapshot that is fetched grows in `<name>.part` and keeps what it has over a restart: it is checked whole before it
gets its name. Those that are built have names of their own (`snapshot_file.SnapshotWriter`), and what a crash leaves
of them is removed.
"""

from __future__ import annotations

from errno import EINVAL

from quorumd.errors import CorruptSnapshot, DiskFull, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.log.atomic_file import is_disk_full
from quorumd.log.flush import flush_failed
from quorumd.log.retention import StoredSnapshot
from quorumd.log.snapshot_file import (
    BUILDING,
    PART,
    QUARANTINE_SUFFIX,
    SUFFIX,
    SnapshotSummary,
    check_snapshot,
    file_name,
    parse_snapshot_name,
    publish_snapshot,
    read_timestamp,
    remove_best_effort,
)
from quorumd.ports import Disk


class SnapshotStore:
    """See the package docstring. All methods belong to the event thread but `finish_part`, which blocks."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Raises OSError for a folder that cannot be read."""
        self._disk = disk
        self._directory = directory
        self.ids: list[OffsetAndEpoch] = []
        """The whole snapshots, ascending."""
        self.set_aside_count = 0
        """Those that turned out to be damaged."""
        self._known: dict[OffsetAndEpoch, StoredSnapshot] = {}
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
        found = (parse_snapshot_name(name) for name in self._disk.list_directory(self._directory))
        # A stock folder has one that ends at 0: what its controller was formatted with.
        self.ids = sorted(snapshot for snapshot in found if snapshot is not None and snapshot.offset > 0)
        self._known = {snapshot: known for snapshot, known in self._known.items() if snapshot in self.ids}

    def remove_leftovers(self, token: str = "") -> None:
        """Remove what builders left that are gone: at a start of all, later of the one whose token it is."""
        for name in self._disk.list_directory(self._directory):
            if SUFFIX in name and name.endswith(token + BUILDING):
                remove_best_effort(self._disk, f"{self._directory}/{name}")

    def path(self, snapshot: OffsetAndEpoch) -> str:
        return f"{self._directory}/{file_name(snapshot)}"

    def stored(self) -> list[StoredSnapshot]:
        """The whole snapshots with what retention asks for, ascending. Raises StorageError."""
        found = [self._stat(snapshot) for snapshot in self.ids]
        return [stored for stored in found if stored is not None]

    def size(self, snapshot: OffsetAndEpoch) -> int | None:
        """Bytes of a snapshot, None if it is not here. Raises StorageError."""
        stored = self._stat(snapshot) if snapshot in self.ids else None
        return stored.size if stored is not None else None

    def timestamp_ms(self, snapshot: OffsetAndEpoch) -> int:
        """Of the last batch of the log in a snapshot, Unix milliseconds; 0 if it is not here. Raises StorageError."""
        stored = self._stat(snapshot) if snapshot in self.ids else None
        return stored.timestamp_ms if stored is not None else 0

    def _stat(self, snapshot: OffsetAndEpoch) -> StoredSnapshot | None:
        if snapshot not in self._known:
            path = self.path(snapshot)
            try:
                file = self._disk.open(path)
                try:
                    size = file.size()
                finally:
                    file.close()
            except FileNotFoundError:
                return None
            except OSError as cause:
                raise StorageError(f"{path} cannot be opened: {cause}") from cause
            self._known[snapshot] = StoredSnapshot(snapshot, size, self._timestamp(snapshot))
        return self._known[snapshot]

    def _timestamp(self, snapshot: OffsetAndEpoch) -> int:
        """0 where the header of a snapshot is damaged: nobody needs that one for long."""
        try:
            return read_timestamp(self._disk, self.path(snapshot), snapshot)
        except CorruptSnapshot:
            return 0

    def read(self, snapshot: OffsetAndEpoch, position: int, limit: int) -> bytes | None:
        """Up to `limit` bytes from `position`; None if the snapshot is not here. Raises StorageError."""
        if snapshot not in self.ids:
            return None
        path = self.path(snapshot)
        try:
            file = self._disk.open(path)
            try:
                return file.read_at(position, limit)
            finally:
                file.close()
        except FileNotFoundError:
            return None
        except OSError as cause:
            raise StorageError(f"{path} cannot be read: {cause}; check the disk") from cause

    def check(self, snapshot: OffsetAndEpoch, with_records: bool = False) -> SnapshotSummary:
        """As `check_snapshot`."""
        return check_snapshot(self._disk, self.path(snapshot), snapshot, with_records)

    def make_durable(self, snapshot: OffsetAndEpoch) -> None:
        """See to it that no crash takes a snapshot away. Blocks. Raises FlushFailed."""
        path = self.path(snapshot)
        try:
            file = self._disk.open(path)
            try:
                file.sync()
            finally:
                file.close()
            self._disk.sync_directory(self._directory)
        except OSError as cause:
            raise flush_failed(path, cause) from cause

    def quarantine(self, snapshot: OffsetAndEpoch) -> str:
        """A snapshot turned out to be damaged: keep it under another name, which is returned."""
        path = self.path(snapshot)
        try:
            self._disk.rename(path, path + QUARANTINE_SUFFIX)
        except OSError as cause:
            raise StorageError(f"{path} cannot be set aside: {cause}") from cause
        self.ids.remove(snapshot)
        self.set_aside_count += 1
        return path + QUARANTINE_SUFFIX

    def remove_before(self, offset: int) -> None:
        """Remove the snapshots that end below `offset`."""
        for snapshot in [snapshot for snapshot in self.ids if snapshot.offset < offset]:
            self.ids.remove(snapshot)
            remove_best_effort(self._disk, self.path(snapshot))

    # ---- fetched ones

    # The file is opened anew for every piece: `finish_part` removes or renames it on another thread.

    def part_size(self, snapshot: OffsetAndEpoch) -> int:
        """How many bytes of a snapshot that is being fetched are here."""
        try:
            file = self._disk.open(self.path(snapshot) + PART)
            try:
                return file.size()
            finally:
                file.close()
        except OSError:
            return 0

    def write_part(self, snapshot: OffsetAndEpoch, position: int, data: bytes) -> None:
        """Keep bytes of a snapshot that is fetched; what is there of others, or behind these, is removed.

        Raises DiskFull or StorageError with nothing of it kept, also for a position behind what is here.
        """
        path = self.path(snapshot) + PART
        try:
            if not self._disk.exists(path):
                self._remove_parts()
            file = self._disk.open(path, create=True)
            try:
                if position > file.size():
                    raise OSError(EINVAL, f"bytes before position {position} are missing")
                file.truncate(position)
                file.write_at(position, data)
            finally:
                file.close()
        except OSError as cause:
            remove_best_effort(self._disk, path)
            if is_disk_full(cause):
                raise DiskFull(f"no room for the snapshot {path}: {cause}") from cause
            raise StorageError(f"{path} was not written: {cause}") from cause

    def _remove_parts(self) -> None:
        for name in self._disk.list_directory(self._directory):
            if name.endswith(SUFFIX + PART):
                remove_best_effort(self._disk, f"{self._directory}/{name}")

    def finish_part(self, snapshot: OffsetAndEpoch) -> SnapshotSummary:
        """Check a snapshot that has come whole and put it in place, durably. Blocks.

        `rescan` on the event thread shows it then. Raises CorruptSnapshot, UnknownRecord or StorageError with the
        part removed, FlushFailed.
        """
        path = self.path(snapshot) + PART
        try:
            file = self._disk.open(path)
            try:
                file.sync()
            finally:
                file.close()
        except OSError as cause:
            remove_best_effort(self._disk, path)
            raise StorageError(f"{path} could not be made durable: {cause}") from cause
        try:
            summary = check_snapshot(self._disk, path, snapshot, with_records=True)
            if summary.voters is None:
                raise CorruptSnapshot(
                    f"{path} does not say who votes: a quorum of kraft.version 0 is not joined"
                )
        except StorageError:
            remove_best_effort(self._disk, path)
            raise
        publish_snapshot(self._disk, path, self.path(snapshot))
        return summary
