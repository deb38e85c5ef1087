"""The snapshots of a data directory: list and read them, and store those being fetched.

A snapshot being fetched is written to `<name>.part`, which survives a restart, and is renamed once it is complete and
verified. One being built has another name (`snapshot_file.SnapshotWriter`) and is removed after a crash.
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
    """The snapshots of one log; see the package docstring.

    All methods run on the event thread, except the blocking `finish_part`.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        """Raises OSError for a directory that cannot be read."""
        self._disk = disk
        self._directory = directory
        self.ids: list[OffsetAndEpoch] = []
        """The complete snapshots, ascending."""
        self.quarantined_count = 0
        """Number of snapshots that were renamed because they are damaged."""
        self._known: dict[OffsetAndEpoch, StoredSnapshot] = {}
        self._scan()

    def __repr__(self) -> str:
        return f"<snapshots {', '.join(f'{s.offset}-{s.epoch}' for s in self.ids) or 'none'}>"

    @property
    def latest(self) -> OffsetAndEpoch | None:
        return self.ids[-1] if self.ids else None

    def rescan(self) -> None:
        """List the directory again, as another process may have added a snapshot. Raises StorageError."""
        try:
            self._scan()
        except OSError as cause:
            raise StorageError(f"{self._directory} cannot be listed: {cause}") from cause

    def _scan(self) -> None:
        found = (parse_snapshot_name(name) for name in self._disk.list_directory(self._directory))
        # Kafka 4.4's kafka-storage writes a snapshot that ends at offset 0, with the bootstrap records.
        self.ids = sorted(snapshot for snapshot in found if snapshot is not None and snapshot.offset > 0)
        self._known = {snapshot: known for snapshot, known in self._known.items() if snapshot in self.ids}

    def remove_leftovers(self, token: str = "") -> None:
        """Remove unfinished snapshots of terminated builders: all, or those with the given token."""
        for name in self._disk.list_directory(self._directory):
            if SUFFIX in name and name.endswith(token + BUILDING):
                remove_best_effort(self._disk, f"{self._directory}/{name}")

    def path(self, snapshot: OffsetAndEpoch) -> str:
        return f"{self._directory}/{file_name(snapshot)}"

    def stored(self) -> list[StoredSnapshot]:
        """The complete snapshots with size and timestamp, ascending. Raises StorageError."""
        found = [self._stat(snapshot) for snapshot in self.ids]
        return [stored for stored in found if stored is not None]

    def size(self, snapshot: OffsetAndEpoch) -> int | None:
        """Size of a snapshot in bytes, None if there is no such snapshot. Raises StorageError."""
        stored = self._stat(snapshot) if snapshot in self.ids else None
        return stored.size if stored is not None else None

    def timestamp_ms(self, snapshot: OffsetAndEpoch) -> int:
        """Timestamp of the last log batch in a snapshot, Unix milliseconds; 0 if there is no such snapshot or its
        header is damaged. Raises StorageError."""
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
        """The snapshot's timestamp; 0 if its header is damaged, so that retention removes it first."""
        try:
            return read_timestamp(self._disk, self.path(snapshot), snapshot)
        except CorruptSnapshot:
            return 0

    def read(self, snapshot: OffsetAndEpoch, position: int, limit: int) -> bytes | None:
        """Read up to `limit` bytes from `position`; None if the snapshot does not exist. Raises StorageError."""
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
        """Verify a stored snapshot; see `check_snapshot`."""
        return check_snapshot(self._disk, self.path(snapshot), snapshot, with_records)

    def make_durable(self, snapshot: OffsetAndEpoch) -> None:
        """Sync a snapshot and the directory. Blocks. Raises FlushFailed."""
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
        """Rename a damaged snapshot and return its new path. Raises StorageError."""
        path = self.path(snapshot)
        try:
            self._disk.rename(path, path + QUARANTINE_SUFFIX)
        except OSError as cause:
            raise StorageError(f"{path} is damaged and cannot be renamed: {cause}") from cause
        self.ids.remove(snapshot)
        self.quarantined_count += 1
        return path + QUARANTINE_SUFFIX

    def remove_before(self, offset: int) -> None:
        """Remove the snapshots that end below `offset`."""
        for snapshot in [snapshot for snapshot in self.ids if snapshot.offset < offset]:
            self.ids.remove(snapshot)
            remove_best_effort(self._disk, self.path(snapshot))

    # Snapshots being fetched. The file is opened for every chunk, since `finish_part` removes or renames it on
    # another thread.

    def part_size(self, snapshot: OffsetAndEpoch) -> int:
        """Number of bytes already stored of a snapshot that is being fetched."""
        try:
            file = self._disk.open(self.path(snapshot) + PART)
            try:
                return file.size()
            finally:
                file.close()
        except OSError:
            return 0

    def write_part(self, snapshot: OffsetAndEpoch, position: int, data: bytes) -> None:
        """Store fetched bytes at `position`; remove bytes after them, and parts of other snapshots.

        Raises DiskFull or StorageError with the part removed; StorageError also for a position above the stored size.
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
                raise DiskFull(f"disk full: the snapshot {path} cannot be written: {cause}") from cause
            raise StorageError(f"{path} was not written: {cause}") from cause

    def _remove_parts(self) -> None:
        for name in self._disk.list_directory(self._directory):
            if name.endswith(SUFFIX + PART):
                remove_best_effort(self._disk, f"{self._directory}/{name}")

    def finish_part(self, snapshot: OffsetAndEpoch) -> SnapshotSummary:
        """Verify a completely fetched snapshot and durably rename it into place. Blocks.

        Call `rescan` on the event thread afterwards. Raises CorruptSnapshot, UnknownRecord or StorageError with the
        part removed, and FlushFailed.
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
                raise CorruptSnapshot(f"{path} has no voters; a quorum with kraft.version 0 is not supported")
        except StorageError:
            remove_best_effort(self._disk, path)
            raise
        publish_snapshot(self._disk, path, self.path(snapshot))
        return summary
