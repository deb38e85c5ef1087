"""Loads a data log: trusts its files after a clean shutdown, otherwise verifies all that may be unflushed.

After an unclean shutdown, recovery scans the segment that contains the recovery point, all later segments, and every
segment without index files. It truncates the log after the last valid batch. Unflushed segments must be contiguous: a
gap between them is a lost write. Only compaction leaves gaps, and only in flushed segments.

Epochs below the first scanned segment come from `leader-epoch-checkpoint`, producer state from the newest snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from quorumd.broker.log.compaction_files import complete_compaction
from quorumd.broker.log.data_segment import ALL_INDEX_SUFFIXES, MAX_SEGMENT_OFFSETS, DataSegment
from quorumd.broker.log.leader_epochs import FILE_NAME as EPOCH_FILE_NAME
from quorumd.broker.log.leader_epochs import LeaderEpochs
from quorumd.broker.log.producer_snapshot import parse_snapshot_name
from quorumd.broker.log.producer_snapshots import ProducerSnapshots
from quorumd.broker.log.producer_state import ProducerStates
from quorumd.broker.log.transaction_marker import TransactionMarker, read_marker
from quorumd.errors import CorruptLog, DiskFull, MalformedMessage
from quorumd.log.atomic_file import read_whole, write_atomically
from quorumd.log.flush import flush_failed
from quorumd.log.recovery import Truncation
from quorumd.log.segment import LOG_SUFFIX, parse_base_offset
from quorumd.ports import Disk
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.batch_scan import Ascending

logger = logging.getLogger("quorumd.broker.log")

_OBSOLETE_SUFFIXES = (".deleted", ".tmp")


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """The result of opening a log: its end offset, the truncations and the number of verified bytes."""

    end_offset: int
    truncations: tuple[Truncation, ...] = ()
    verified_bytes: int = 0

    @property
    def truncated_bytes(self) -> int:
        """The total size of all truncations."""
        return sum(truncation.bytes for truncation in self.truncations)

    def __str__(self) -> str:
        return "; ".join([f"log ends at offset {self.end_offset}", *map(str, self.truncations)])


@dataclass(slots=True)
class LoadedLog:
    """The state of a recovered log."""

    segments: list[DataSegment]
    epochs: LeaderEpochs
    producers: ProducerStates
    report: RecoveryReport
    start_offset: int
    recovery_point: int
    snapshots: ProducerSnapshots


def load_log(
    disk: Disk,
    directory: str,
    index_interval_bytes: int,
    recovery_point: int,
    start_offset: int,
    is_clean: bool,
) -> LoadedLog:
    """Load the log in an existing directory, and remove files that a crash has left. Blocks.

    Raises CorruptLog if a trusted segment cannot be read, FlushFailed if the result cannot be made durable, OSError.
    """
    complete_compaction(disk, directory)
    loader = _Loader(disk, directory, index_interval_bytes)
    try:
        loader.open_segments()
        loader.load(recovery_point, is_clean)
        loader.discard_below(start_offset)
        loader.repair()
        return loader.finish(start_offset)
    except BaseException:
        for segment in loader.opened:
            segment.close()
        raise


def replay(
    segments: Sequence[DataSegment], producers: ProducerStates, start: int, index_from: int | None
) -> None:
    """Update `producers` with the batches from offset `start` on.

    `index_from` is the base offset of the first segment whose transaction index is rebuilt, None to rebuild none.
    Raises CorruptLog.
    """
    for index, segment in enumerate(segments):
        if index + 1 < len(segments) and segments[index + 1].base_offset <= start:
            continue
        aborted = []
        first = segment.position_of(start) if start > segment.base_offset else 0
        for window in segment.windows(first, segment.size):
            for batch in window.headers:
                ended = producers.update(batch, marker_of(window.data, batch))
                if ended is not None:
                    aborted.append(ended)
        if index_from is not None and segment.base_offset >= index_from:
            segment.set_aborted(aborted)


def marker_of(data: bytes, batch: BatchHeader) -> TransactionMarker | None:
    """The marker of a control batch, None for a data batch. Raises CorruptLog."""
    if not batch.is_control:
        return None
    try:
        return read_marker(data, batch)
    except MalformedMessage as fault:
        raise CorruptLog(str(fault)) from None


class _Loader:
    """Reads a log without changing it; `repair` then applies the changes."""

    def __init__(self, disk: Disk, directory: str, index_interval_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._epoch_path = f"{directory}/{EPOCH_FILE_NAME}"
        self._interval = index_interval_bytes
        self.opened: list[DataSegment] = []
        self._valid: list[DataSegment] = []
        self._scanned: list[DataSegment] = []
        self._obsolete: list[str] = []
        self._snapshots = ProducerSnapshots(disk, directory, ())
        self._epochs = LeaderEpochs()
        self._known_starts: dict[int, int] = {}
        """Epoch -> start offset in the checkpoint file."""
        self._end_offset = 0
        self._truncations: list[Truncation] = []
        self._verified_bytes = 0

    def open_segments(self) -> None:
        """Open all segments, and collect the files that are obsolete or belong to no segment."""
        names = self._disk.list_directory(self._directory)
        logs = set(names)
        for name in names:
            stem, dot, suffix = name.partition(".")
            if name.endswith(_OBSOLETE_SUFFIXES) or (
                dot + suffix in ALL_INDEX_SUFFIXES and stem + LOG_SUFFIX not in logs
            ):
                self._obsolete.append(name)
            elif (base_offset := parse_base_offset(name)) is not None:
                self.opened.append(DataSegment(self._disk, self._directory, base_offset, self._interval))
            elif (end_offset := parse_snapshot_name(name)) is not None:
                self._snapshots.end_offsets.append(end_offset)

    def load(self, recovery_point: int, is_clean: bool) -> None:
        """Load or scan each segment, and determine the leader epochs."""
        content = read_whole(self._disk, self._epoch_path)
        has_epochs = content is not None and self._epochs.decode(content)
        must_be_contiguous = False
        for index, segment in enumerate(self.opened):
            is_last = index + 1 == len(self.opened)
            following = 0 if is_last else self.opened[index + 1].base_offset
            if must_be_contiguous and (self._truncations or segment.base_offset != self._end_offset):
                self._reject(segment, f"the previous segment ends at offset {self._end_offset}")
                continue
            is_trusted = segment.load()
            must_read = not is_clean and (bool(self._scanned) or is_last or following > recovery_point)
            if is_last and is_trusted and not must_read:
                is_trusted = segment.find_end_offset()
            had_index_files = segment.has_index_files
            if must_read or not is_trusted:
                if not self._scanned and not is_clean:
                    self._known_starts = dict(self._epochs.entries())
                    self._epochs.truncate(segment.base_offset)
                self._scan(segment, assigns_epochs=not is_clean)
                # A segment without index files was not flushed, and may have lost its last batches.
                must_be_contiguous = bool(self._truncations) or (not is_clean and not had_index_files)
            elif not is_last:
                segment.end_offset = following
            self._valid.append(segment)
            self._end_offset = segment.end_offset
        if not has_epochs:
            self._rebuild_epochs()
        self._epochs.truncate(self._end_offset)

    def _reject(self, segment: DataSegment, reason: str) -> None:
        size = segment.file.size()
        self._truncations.append(Truncation(segment.path, 0, self._end_offset, size, reason))

    def _scan(self, segment: DataSegment, assigns_epochs: bool) -> None:
        """Verify the batches of a segment, and rebuild its indexes."""
        file_size = segment.size
        segment.clear_batches()
        fault = ""
        for window in segment.windows(0, file_size, Ascending(segment.base_offset)):
            fault = window.fault
            for batch in window.headers:
                if batch.end_offset - segment.base_offset > MAX_SEGMENT_OFFSETS:
                    fault = f"offset {batch.end_offset - 1} is too far from base offset {segment.base_offset}"
                    break
                if assigns_epochs and batch.epoch > self._epochs.last_epoch:
                    # Compaction may have removed the first batches of the epoch.
                    start = self._known_starts.get(batch.epoch, batch.base_offset)
                    is_possible = segment.end_offset <= start <= batch.base_offset
                    self._epochs.assign(batch.epoch, start if is_possible else batch.base_offset)
                segment.add(batch)
        self._scanned.append(segment)
        self._verified_bytes += segment.size
        surplus = file_size - segment.size
        if surplus and (fault or any(segment.file.read_at(segment.size, surplus))):
            self._truncations.append(
                Truncation(
                    segment.path,
                    segment.size,
                    segment.end_offset,
                    surplus,
                    fault or "zeros follow the last batch",
                )
            )

    def _rebuild_epochs(self) -> None:
        self._epochs = LeaderEpochs()
        for segment in self._valid:
            for batch in segment.batches_from(0):
                if batch.epoch > self._epochs.last_epoch:
                    self._epochs.assign(batch.epoch, batch.base_offset)

    def discard_below(self, start_offset: int) -> None:
        """Empty a log that has lost unflushed batches and ends below the log start offset."""
        if self._valid and self._end_offset >= start_offset:
            return
        for segment in self._valid:
            self._reject(segment, f"the log start offset is {start_offset}")
        self._valid, self._scanned, self._epochs = [], [], LeaderEpochs()
        self._end_offset = start_offset

    def repair(self) -> None:
        """Apply the changes, last segment first, so that recovery after a crash in between has the same result."""
        disk, path = self._disk, self._directory
        removed = [known for known in self._snapshots.end_offsets if known > self._end_offset]
        rejected = self.opened[len(self._valid) :]
        if self._valid and not (self._obsolete or removed or rejected or self._scanned):
            return
        try:
            for name in self._obsolete:
                disk.remove(f"{self._directory}/{name}")
            self._snapshots.remove_above(self._end_offset)
            for segment in reversed(rejected):
                segment.remove()
                segment.close()
            if not self._valid:
                # As in a reset: without the batches, their epochs must be removed too.
                if disk.exists(self._epoch_path):
                    write_atomically(disk, self._epoch_path, self._epochs.encode())
                self._valid.append(DataSegment(disk, self._directory, self._end_offset, self._interval))
            self.opened = self._valid
            for segment in self._scanned:
                # Keep index files: without them, the next recovery would mistake gaps of compaction for lost writes.
                path = segment.path
                segment.trim()
                # Sync even if nothing is truncated: after a killed process the data may be only in the page cache.
                segment.file.sync()
            disk.sync_directory(self._directory)
        except OSError as cause:
            raise flush_failed(path, cause) from cause

    def finish(self, start_offset: int) -> LoadedLog:
        """Rebuild the producer state, and write the transaction indexes, epochs and index files durably."""
        producers = ProducerStates()
        index_from = self._scanned[0].base_offset if self._scanned else None
        usable = self._end_offset if index_from is None else index_from
        begin = self._snapshots.load_newest(usable, producers)
        if begin < self._end_offset or index_from is not None:
            replay(self._valid, producers, begin, index_from)
        for segment in self._scanned:
            for path, file in segment.files():
                try:
                    file.sync()
                except OSError as cause:
                    raise flush_failed(path, cause) from cause
        if self._epochs.encode() != (read_whole(self._disk, self._epoch_path) or LeaderEpochs().encode()):
            write_atomically(self._disk, self._epoch_path, self._epochs.encode())
        for segment in self._scanned:
            if segment is not self._valid[-1]:
                with suppress(DiskFull):
                    segment.write_index_files()
                    segment.has_index_files = True
        active = self._valid[-1]
        active.has_index_files = active.has_any_index_file()
        report = RecoveryReport(self._end_offset, tuple(self._truncations), self._verified_bytes)
        return LoadedLog(
            self._valid,
            self._epochs,
            producers,
            report,
            max(start_offset, self._valid[0].base_offset),
            self._end_offset,
            self._snapshots,
        )
