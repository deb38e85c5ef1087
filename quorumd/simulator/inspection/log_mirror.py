"""The checkers' copies of logs: as a node reads its log, and as its disk preserves it in a crash."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from quorumd.errors import StorageError
from quorumd.log.snapshot_file import parse_snapshot_name
from quorumd.protocol.batch_scan import headers
from quorumd.simulator.environment.directory import Directory
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.stored_file import StoredFile


class Batch(NamedTuple):
    """One record batch of a log: fields of its header, and all of its bytes."""

    base_offset: int
    end_offset: int
    epoch: int
    is_control: bool
    data: bytes


class LogChange(NamedTuple):
    """The change of a log since the last observation: first a truncation, then appends."""

    removed: Sequence[Batch]
    """The truncated batches, oldest first."""
    appended: Sequence[Batch]


READ_BYTES = 1 << 20
IN_SNAPSHOT = "snapshot"
"""The place of a batch in a snapshot, instead of the file of a segment."""


class LogMirror:
    """A copy of a node's log in memory, updated by reading only the changes."""

    def __init__(self, start_offset: int = 0) -> None:
        self.batches: list[Batch] = []
        self._start_offset = start_offset

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else self._start_offset

    def refresh(
        self,
        read: Callable[[int, int], bytes],
        start_offset: int = 0,
        committed: Sequence[Batch] = (),
        *,
        sync_failed: bool = False,
    ) -> LogChange:
        """Update the mirror with `read(offset, limit)`, which is `SegmentedLog.read`.

        A log that starts above offset 0 starts with a snapshot. The mirror covers the whole log, and takes the
        batches that the snapshot replaces from `committed`. With `sync_failed`, batches that can no longer be
        read remain: a failed sync has dropped them, which removes nothing from the log of the quorum.

        Raises ValueError if no committed batch ends at `start_offset`.
        """
        batches = self.batches
        removed: list[Batch] = []
        appended: list[Batch] = []
        # One read confirms the last batch and returns the batches after it.
        data = b""
        while batches and batches[-1].base_offset >= start_offset:
            last = batches[-1]
            try:
                data = read(last.base_offset, READ_BYTES)
            except StorageError:
                if not sync_failed:
                    raise
                break
            if data.startswith(last.data):
                data = data[len(last.data) :]
                break
            removed.append(batches.pop())
            data = b""
        if start_offset > 0 and (not batches or batches[-1].base_offset < start_offset):
            replaced, appended = self._begin_with(start_offset, committed)
            removed += replaced
        removed.reverse()
        while data or (data := read(self.end_offset, READ_BYTES)):
            found = batches_in(data)
            batches += found
            appended += found
            data = b""
        return LogChange(removed, appended)

    def _begin_with(self, start_offset: int, committed: Sequence[Batch]) -> tuple[list[Batch], list[Batch]]:
        """Start with the committed batches below `start_offset`; return the removed batches, newest first, and the
        new batches."""
        count = batches_below(committed, start_offset)
        if count == 0 or committed[count - 1].end_offset != start_offset:
            raise ValueError(f"the log starts at {start_offset}, where no committed batch ends")
        batches, removed = self.batches, []
        while batches and (len(batches) > count or batches[-1] != committed[len(batches) - 1]):
            removed.append(batches.pop())
        appended = list(committed[len(batches) : count])
        batches += appended
        return removed, appended


def batches_below(batches: Sequence[Batch], offset: int) -> int:
    """Count the batches of a log that end at or below an offset."""
    return bisect_right(batches, offset, key=lambda batch: batch.end_offset)


def batches_in(data: bytes) -> list[Batch]:
    """Split `data` into batches."""
    found = []
    for header in headers(data):
        start, size = header.position, header.size
        # Most observations of a growing log find one batch: avoid a copy.
        batch = data if size == len(data) else data[start : start + size]
        found.append(Batch(header.base_offset, header.end_offset, header.epoch, header.is_control, batch))
    return found


class DurableLog:
    """Finds the batches of a given log that a disk preserves in every crash."""

    def __init__(self, disk: SimulatedDisk, directory: str) -> None:
        self._disk = disk
        self._path = directory
        self._directory: Directory | None = None
        self._found: list[tuple[Batch, str, int]] = []
        """Batch, segment file and position, as last found."""
        self._cuts = 0

    def holds(self, batches: Sequence[Batch]) -> int:
        """Count how many of these batches, the first of a log, are durable without a gap."""
        found, disk = self._found, self._disk
        if self._directory is None or disk.cuts != self._cuts:
            # A durable directory stays durable until something is removed or lost.
            self._cuts, self._directory = disk.cuts, disk.durable_directory(self._path)
            found.clear()
        while found:
            last, segment, position = found[-1]
            if segment == IN_SNAPSHOT:
                break
            file = self._file(segment)
            if file is not None and file.holds(last.data, position):
                break
            found.pop()
        if batches and len(found) >= len(batches) and found[len(batches) - 1][0] == batches[-1]:
            return len(batches)
        while found and (len(found) > len(batches) or found[-1][0] != batches[len(found) - 1]):
            found.pop()
        self._find(batches)
        if len(found) < len(batches):
            self._find_behind_snapshot(batches)
        return len(found)

    def _find_behind_snapshot(self, batches: Sequence[Batch]) -> None:
        """Count the batches that a durable snapshot replaces, and continue in the segment that follows it."""
        found = self._found
        count = batches_below(batches, self._snapshot_end())
        if count > len(found):
            found += [(batch, IN_SNAPSHOT, 0) for batch in batches[len(found) : count]]
        if len(found) == len(batches) or not found or found[-1][1] != IN_SNAPSHOT:
            return
        following = batches[len(found)]
        segment, position = self._place_of(following)
        file = self._file(segment)
        if file is not None and file.holds(following.data, position):
            found.append((following, segment, position))
            self._find(batches)

    def _snapshot_end(self) -> int:
        """Return the end offset of the newest snapshot that survives every crash."""
        if self._directory is None:
            return 0
        ids = (parse_snapshot_name(name) for name in self._directory.durable if self._is_durable(name))
        return max((snapshot.offset for snapshot in ids if snapshot is not None), default=0)

    def _place_of(self, wanted: Batch) -> tuple[str, int]:
        """Return segment and position that a batch must have if the log was truncated before it."""
        names = [name for name in self._directory.durable if name.endswith(".log")] if self._directory else []
        segment = max((name for name in names if int(name[:20]) <= wanted.base_offset), default="")
        file = self._file(segment)
        position = file.durable_prefix(file.durable_bytes()).find(wanted.data) if file is not None else -1
        return segment, max(position, 0)

    def _find(self, batches: Sequence[Batch]) -> None:
        """Find the batches after those already found: in the same segment, or at the start of the next one."""
        found = self._found
        segment, position, file = "", 0, None
        if found and found[-1][1] != IN_SNAPSHOT:
            last, segment, start = found[-1]
            position, file = start + len(last.data), self._file(segment)
        for index in range(len(found), len(batches)):
            batch = batches[index]
            if file is None or not file.holds(batch.data, position):
                segment, position = f"{batch.base_offset:020d}.log", 0
                file = self._file(segment)
                if file is None or not file.holds(batch.data, position):
                    return
            found.append((batch, segment, position))
            position += len(batch.data)

    def _is_durable(self, name: str) -> bool:
        file = self._file(name)
        return file is not None and not file.pending

    def _file(self, segment: str) -> StoredFile | None:
        entry = self._directory.durable_entry(segment) if self._directory is not None else None
        return entry if isinstance(entry, StoredFile) else None
