"""Log recovery: verify every batch of a log when it is opened, and truncate after the last valid one.

A log that does not start at offset 0 starts where a snapshot ends. A snapshot ahead of the log means that a crash
interrupted its installation: the log is then reset to start at the snapshot's end.

A crash leaves zeros (preallocated blocks), or torn and missing writes, all after the last flush. Recovery removes
them: it keeps a batch if its header is valid, its CRC matches, its offsets follow the preceding batch, its epoch is
not lower, and all batches before it are kept. A valid batch after an invalid one is a reordered write and is removed.
Records known to be committed are never removed: a log that lacks some is damaged, and its files are left unchanged.

Recovery reads the whole log and ignores the index files. That takes about three microseconds per batch.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from quorumd.errors import CorruptLog, CorruptSnapshot
from quorumd.ids import OffsetAndEpoch
from quorumd.log.batch_windows import read_windows
from quorumd.log.epoch_cache import EpochCache
from quorumd.log.flush import flush_failed
from quorumd.log.remedies import REFORMAT_REMEDY
from quorumd.log.segment import Segment, parse_base_offset
from quorumd.log.snapshot_store import SnapshotStore
from quorumd.ports import Disk, File
from quorumd.protocol.batch_scan import Gapless

logger = logging.getLogger("quorumd.log")

_WINDOW = 1024 * 1024
_MAX_OFFSET = 2**62
"""Higher than any real offset, and well below the limit of the int64 offsets in batches and messages."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """A truncation by recovery: `bytes` removed from `position` of a file, where the log ends at `offset`."""

    path: str
    position: int
    offset: int
    bytes: int
    reason: str

    def __str__(self) -> str:
        where = (
            f"{self.path}: truncated {self.bytes} bytes at position {self.position} (offset {self.offset})"
        )
        return f"{where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """The result of recovery: the log end offset, the truncations, and the snapshot that was installed, if any."""

    end_offset: int
    truncations: tuple[Truncation, ...] = ()
    restored_snapshot: OffsetAndEpoch | None = None
    """The snapshot that was ahead of the log and replaced it."""

    @property
    def truncated_bytes(self) -> int:
        """Total size of all truncations."""
        return sum(truncation.bytes for truncation in self.truncations)

    def __str__(self) -> str:
        parts = [f"log ends at offset {self.end_offset}", *map(str, self.truncations)]
        if self.restored_snapshot is not None:
            parts.append("the snapshot that ends there was ahead of the log and replaced it")
        return "; ".join(parts)


@dataclass(slots=True)
class Recovered:
    """A recovered log: durable, with only valid batches in its files."""

    segments: list[Segment]
    epochs: EpochCache
    report: RecoveryReport
    start_offset: int


def recover(
    disk: Disk,
    directory: str,
    index_interval_bytes: int,
    known_high_watermark: int,
    snapshots: SnapshotStore,
) -> Recovered:
    """Read the log in a directory and remove the remains of a crash. Blocks.

    Raises CorruptLog, with the files unchanged, if that would truncate below the known high watermark; FlushFailed if
    the result cannot be made durable.
    """
    found = _Reader(disk, directory, index_interval_bytes)
    try:
        found.read()
        end = OffsetAndEpoch(found.end_offset, found.epochs.last_epoch)
        ahead, invalid = _snapshots_ahead(snapshots, end)
        if ahead is not None and end.offset < known_high_watermark and not found.was_reset_at(ahead.offset):
            ahead = None  # The log is damaged: it may have had committed records that the snapshot lacks.
        if ahead is not None:
            found.reset_to(ahead)
        if found.end_offset > _MAX_OFFSET:
            raise CorruptLog(
                f"The log in {directory} ends at offset {found.end_offset}, which no log can reach. Nothing was "
                f"changed. Restore the files, or, {REFORMAT_REMEDY}"
            )
        if found.end_offset < known_high_watermark:
            raise CorruptLog(_corruption_message(directory, found, known_high_watermark))
        start = ahead or _recovered_start(directory, found, snapshots, invalid)
        for snapshot in invalid:
            logger.warning("%s was renamed to %s", snapshots.path(snapshot), snapshots.quarantine(snapshot))
        if ahead is not None:
            # It may have been renamed by a process that was killed before the sync, or copied by an operator.
            snapshots.make_durable(ahead)
        found.repair()
        if start.offset > 0:
            found.epochs.set_start(start)
    except BaseException:
        for segment in found.opened:
            segment.file.close()
        raise
    report = RecoveryReport(found.end_offset, tuple(found.truncations), ahead)
    return Recovered(found.kept, found.epochs, report, start.offset)


def _snapshots_ahead(
    snapshots: SnapshotStore, end: OffsetAndEpoch
) -> tuple[OffsetAndEpoch | None, list[OffsetAndEpoch]]:
    """The newest valid snapshot that is ahead of the log by epoch or end offset (KIP-630), and newer invalid ones.

    A snapshot is not ahead of an empty log that starts at its end, although the epoch of an empty log is 0.
    """
    invalid: list[OffsetAndEpoch] = []
    for snapshot in reversed(snapshots.ids):
        starts_there = end == (snapshot.offset, 0)
        if starts_there or (snapshot.epoch, snapshot.offset) <= (end.epoch, end.offset):
            break
        try:
            snapshots.check(snapshot, with_records=True)
        except CorruptSnapshot as fault:
            logger.warning("%s", fault)
            invalid.append(snapshot)
        else:
            return snapshot, invalid
    return None, invalid


def _recovered_start(
    directory: str, found: _Reader, snapshots: SnapshotStore, invalid: list[OffsetAndEpoch]
) -> OffsetAndEpoch:
    """The log start: 0, or the end of the oldest snapshot that its first segment reaches back to."""
    if not found.kept or found.kept[0].base_offset == 0:
        return OffsetAndEpoch(0, 0)
    first = found.kept[0].base_offset
    for snapshot in snapshots.ids:
        if first <= snapshot.offset <= found.end_offset and snapshot not in invalid:
            return snapshot
    raise CorruptLog(
        f"The log in {directory} starts at offset {first}, and the snapshot of the records before it is missing. "
        f"Nothing was changed. Restore the .checkpoint file from a copy, or, {REFORMAT_REMEDY}"
    )


def _corruption_message(directory: str, found: _Reader, known_high_watermark: int) -> str:
    if found.truncations:
        first = found.truncations[0]
        where = f"{first.path} is damaged at position {first.position}: {first.reason}. Its log ends there at"
    else:
        where = f"The log in {directory} is valid, but ends at"
    return (
        f"{where} offset {found.end_offset}, and records up to offset {known_high_watermark} are known to be "
        f"committed. Nothing was changed. Restore the file from a copy, or, {REFORMAT_REMEDY}"
    )


class _Reader:
    """Reads a log without changing it; `repair` applies the necessary changes afterwards."""

    def __init__(self, disk: Disk, directory: str, index_interval_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self.opened: list[Segment] = []
        self.kept: list[Segment] = []
        self.epochs = EpochCache()
        self.end_offset = 0
        self.truncations: list[Truncation] = []
        self._was_reset = False

    def read(self) -> None:
        for name in self._disk.list_directory(self._directory):
            base_offset = parse_base_offset(name)
            if base_offset is not None:
                segment = Segment(self._disk, self._directory, base_offset, self._index_interval_bytes)
                self.opened.append(segment)
        for segment in self.opened:
            if not self.kept:
                self.end_offset = segment.base_offset
            elif self.truncations:
                self._truncate(segment, "it follows a truncation")
                continue
            elif segment.base_offset != self.end_offset:
                self._truncate(
                    segment,
                    f"its base offset {segment.base_offset} is not the end offset of the log before it",
                )
                continue
            self.kept.append(segment)
            fault = self._read_batches(segment)
            if fault or segment.needs_trim:
                self._check_tail(segment, fault)

    def was_reset_at(self, offset: int) -> bool:
        """Whether an empty segment starts at `offset`: a reset creates it before it removes the old segments."""
        return any(
            segment.base_offset == offset and _length_without_zeros(segment.file, 0) == 0
            for segment in self.opened
        )

    def reset_to(self, start: OffsetAndEpoch) -> None:
        """Discard everything that was read: the log is to be empty and start at `start`."""
        self.kept, self.epochs = [], EpochCache()
        self.end_offset = start.offset
        self._was_reset = True

    def repair(self) -> None:
        """Apply the changes, last segment first, so that recovery after a crash in between finds the same log."""
        path = self._directory
        try:
            obsolete = self.opened[len(self.kept) :]
            if self._was_reset:
                obsolete = [segment for segment in self.opened if segment.base_offset != self.end_offset]
                self.kept.append(self._empty_segment())
            for segment in reversed(obsolete):
                segment.remove()
                segment.file.close()
            for segment in self.kept:
                path = segment.path
                if segment.needs_trim:
                    segment.trim()
                # Sync even an unchanged file: if the process was killed, its data may be only in the page cache.
                segment.file.sync()
                segment.write_indexes()
            self._disk.sync_directory(self._directory)
        except OSError as cause:
            raise flush_failed(path, cause) from cause

    def _empty_segment(self) -> Segment:
        """Create the segment of a reset log durably, before the others are removed (see `was_reset_at`)."""
        for segment in self.opened:
            if segment.base_offset == self.end_offset:
                segment.file.truncate(0)
                segment.file.sync()
                segment.file.close()
        empty = Segment(self._disk, self._directory, self.end_offset, self._index_interval_bytes)
        self._disk.sync_directory(self._directory)
        return empty

    def _read_batches(self, segment: Segment) -> str:
        """Add the valid batches of a segment. Return the fault that ends them, "" for zeros or the end of the
        file."""
        fault = ""
        for window in read_windows(segment.file, Gapless(self.end_offset, self.epochs.last_epoch)):
            for header in window.headers:
                if header.epoch > self.epochs.last_epoch:
                    self.epochs.add(header.epoch, header.base_offset)
            if window.headers:
                segment.add(window.headers, window.position, window.end - window.position)
                self.end_offset = segment.end_offset
            fault = window.fault
        return fault

    def _check_tail(self, segment: Segment, fault: str) -> None:
        """Record the bytes after the last valid batch as a truncation, unless they are zeros."""
        position = segment.size
        surplus = _length_without_zeros(segment.file, position)
        if surplus > 0:
            reason = fault or "bytes that are not a batch follow zeros"
            self.truncations.append(Truncation(segment.path, position, self.end_offset, surplus, reason))

    def _truncate(self, segment: Segment, reason: str) -> None:
        size = _length_without_zeros(segment.file, 0)
        self.truncations.append(Truncation(segment.path, 0, self.end_offset, size, reason))


def _length_without_zeros(file: File, position: int) -> int:
    """Number of bytes from `position` to the last one that is not zero."""
    length = 0
    start = position
    while data := file.read_at(start, _WINDOW):
        if rest := data.rstrip(b"\0"):
            length = start - position + len(rest)
        start += len(data)
    return length
