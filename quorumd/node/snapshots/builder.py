"""Builds a snapshot file from the previous snapshot and the log, with or without a running node.

The content of a snapshot is a function of the log below its end offset: every node builds the same bytes. Only the
log below `end_offset`, which is committed, is read, so the node may keep appending to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.image_records import snapshot_frames
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.errors import CorruptLog, CorruptSnapshot, MalformedMessage, UnsupportedVersion
from quorumd.ids import OffsetAndEpoch
from quorumd.log.log_reader import read_log
from quorumd.log.meta_properties import partition_directory
from quorumd.log.snapshot_file import SnapshotWriter
from quorumd.log.snapshot_store import SnapshotStore
from quorumd.node.state.batch_replay import apply_batch
from quorumd.node.state.snapshot_loader import load_image
from quorumd.ports import Disk
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.control_record import decode_control
from quorumd.protocol.messages.voters_record import VotersRecord
from quorumd.protocol.record_batch import records

BATCH_RECORDS = 1000
BATCH_BYTES = 64 * 1024
"""A batch of a snapshot ends with the record that reaches either limit."""
PROGRESS_RECORDS = 20_000


class BuiltSnapshot(NamedTuple):
    """The result of a build. Plain values only, since it is passed between processes."""

    snapshot: OffsetAndEpoch
    size: int
    """Bytes."""
    records: int
    is_new: bool
    """False if nothing was committed since the newest snapshot, which is this one."""
    warnings: tuple[str, ...]
    """The errors in invalid snapshots that were skipped."""


Progress = Callable[[str], None]


def _no_progress(text: str) -> None:
    return None


def build_snapshot(
    disk: Disk,
    data_directory: str,
    end_offset: int,
    token: str,
    on_progress: Progress = _no_progress,
    seek_hint: tuple[int, int] | None = None,
) -> BuiltSnapshot | None:
    """Build the snapshot of all batches that end at or below `end_offset`, except an open transaction at the end.

    Returns None if there are no such batches. `token` distinguishes the temporary files of several builders;
    `on_progress` is called periodically with a description; `seek_hint` saves a search for the end of the newest
    snapshot (`SegmentedLog.seek_hint`). Blocks for a long time.

    Raises StorageError, CorruptLog, DiskFull or FlushFailed, and leaves no file of the new snapshot behind. A record
    of an unknown type or version is an error too, since the snapshot would lack it.
    """
    directory = partition_directory(data_directory)
    prefix = _LogPrefix(disk, directory, on_progress)
    prefix.load_snapshot(end_offset)
    start = prefix.end
    prefix.read_log(end_offset, seek_hint)
    if prefix.end.offset == 0:
        return None
    if prefix.end == start:
        summary = prefix.store.check(start)
        return BuiltSnapshot(start, summary.size, summary.records, False, tuple(prefix.warnings))
    writer = SnapshotWriter(disk, directory, prefix.end, prefix.timestamp_ms, prefix.voters, token)
    written = 0
    try:
        for batch in _batched(snapshot_frames(prefix.image)):
            writer.write(batch)
            written += len(batch)
            on_progress(f"{written:,} records written")
        on_progress(f"checking {written:,} records")
    except BaseException:
        writer.abandon()
        raise
    summary = writer.finish()
    return BuiltSnapshot(prefix.end, summary.size, summary.records, True, tuple(prefix.warnings))


class _LogPrefix:
    """The image and the voters at the offset `end` of the log."""

    def __init__(self, disk: Disk, directory: str, on_progress: Progress) -> None:
        self._disk = disk
        self._directory = directory
        self._on_progress = on_progress
        self.store = SnapshotStore(disk, directory)
        self.image = ClusterImage()
        self.voters: VotersRecord | None = None
        self.end = OffsetAndEpoch(0, 0)
        self.timestamp_ms = 0
        self.warnings: list[str] = []

    def load_snapshot(self, end_offset: int) -> None:
        """Load the newest valid snapshot, so that the log below it need not be read."""
        for snapshot in reversed(self.store.ids):
            if snapshot.offset > end_offset:
                continue
            self._on_progress(f"reading the snapshot that ends at offset {snapshot.offset:,}")
            try:
                summary = self.store.check(snapshot)
                self.image = load_image(self._disk, self.store.path(snapshot), snapshot)
            except CorruptSnapshot as fault:
                self.warnings.append(str(fault))
                continue
            self.voters, self.timestamp_ms = summary.voters, summary.timestamp_ms
            self.end = snapshot
            return

    def read_log(self, end_offset: int, seek_hint: tuple[int, int] | None) -> None:
        """Apply the log up to `end_offset`, but not to the middle of a transaction: a snapshot cannot end there
        (KIP-868). Raises CorruptLog for a record that is malformed or unknown."""
        begin = reported = self.end.offset
        voters = self.voters
        changes: list[UndoEntry] = []
        for data, header in read_log(self._disk, self._directory, begin, end_offset, seek_hint):
            try:
                if header.is_control:
                    voters = _last_voters(data, header) or voters
                else:
                    apply_batch(self.image, data, header, changes)
            except (MalformedMessage, UnsupportedVersion) as fault:
                raise CorruptLog(
                    f"the log in {self._directory} cannot be applied {fault}; no snapshot was built and the whole "
                    "log is kept; if a newer version wrote it, upgrade this node"
                ) from None
            if self.image.in_transaction:
                continue
            changes.clear()
            self.voters = voters
            self.end = OffsetAndEpoch(header.end_offset, header.epoch)
            self.timestamp_ms = header.max_timestamp_ms
            if self.end.offset - reported >= PROGRESS_RECORDS:
                reported = self.end.offset
                self._on_progress(f"{reported - begin:,} of {end_offset - begin:,} records of the log read")
        undo(reversed(changes))


def _last_voters(data: bytes, header: BatchHeader) -> VotersRecord | None:
    """The last voter record in a control batch, None if there is none."""
    voters = None
    for record in records(data, header):
        message = decode_control(record.key or b"", record.value or b"")
        if isinstance(message, VotersRecord):
            voters = message
    return voters


def _batched(frames: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for frame in frames:
        batch.append(frame)
        size += len(frame)
        if len(batch) >= BATCH_RECORDS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
