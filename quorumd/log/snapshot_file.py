"""Snapshot files: the state at an offset of the log, in Kafka's checkpoint format (KIP-630).

    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint

Batches have offsets from 0 and the epoch in the name: a control batch with SnapshotHeader and, if the log has the
voters, KRaftVersion and KRaftVoters; data batches; a control batch with SnapshotFooter. A snapshot is read and
written batch by batch, so that it need not fit in memory.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from quorumd.errors import (
    CorruptSnapshot,
    DiskFull,
    MalformedMessage,
    StorageError,
    UnknownRecord,
    UnsupportedVersion,
)
from quorumd.ids import OffsetAndEpoch
from quorumd.log.atomic_file import is_disk_full, parent_directory
from quorumd.log.batch_windows import read_windows
from quorumd.log.flush import flush_failed
from quorumd.ports import Disk, File
from quorumd.protocol.batch_header import COMPRESSION_MASK, BatchHeader
from quorumd.protocol.batch_scan import Gapless
from quorumd.protocol.control_record import ControlMessage, decode_control, encode_control
from quorumd.protocol.known_records import check_known
from quorumd.protocol.messages.kraft_version_record import KRaftVersionRecord
from quorumd.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from quorumd.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from quorumd.protocol.messages.voters_record import VotersRecord
from quorumd.protocol.record_batch import encode_batch, encode_control_batch, records

SUFFIX = ".checkpoint"
PART = ".part"
"""Suffix of a snapshot being fetched."""
BUILDING = ".building"
"""Suffix of a snapshot being built, after the builder's token."""
QUARANTINE_SUFFIX = ".corrupt"
"""Suffix of a damaged snapshot."""
_NAME = re.compile(r"([0-9]{20})-([0-9]{10})" + re.escape(SUFFIX))
_MAX_BATCH_BYTES = 16 * 1024 * 1024
"""Twice the largest batch that a snapshot has: a batch whose length field is larger is damaged."""
_SYNC_BYTES = 4 * 1024 * 1024
"""Sync after this many bytes, so that a concurrent flush of the log does not wait for the whole snapshot."""


def file_name(snapshot: OffsetAndEpoch) -> str:
    return f"{snapshot.offset:020d}-{snapshot.epoch:010d}{SUFFIX}"


def parse_snapshot_name(name: str) -> OffsetAndEpoch | None:
    """The snapshot id in a file name; None for other files and for unfinished snapshots."""
    match = _NAME.fullmatch(name)
    return OffsetAndEpoch(int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class SnapshotSummary:
    """The content of a snapshot that has been read completely and verified."""

    snapshot: OffsetAndEpoch
    size: int
    """In bytes."""
    records: int
    """Number of data records."""
    timestamp_ms: int
    """Timestamp of the last log batch in the snapshot, Unix milliseconds."""
    voters: VotersRecord | None
    """None for kraft.version 0, where the log has no voters."""


def read_batches(
    disk: Disk, path: str, snapshot: OffsetAndEpoch
) -> Generator[tuple[bytes, BatchHeader], None, None]:
    """Yield the batches of a snapshot as (data that contains the whole batch, header), with CRC, offsets and epoch
    verified. Close the generator unless it is exhausted: compiled by mypyc, it leaves the file open otherwise.

    Raises CorruptSnapshot for an invalid batch, StorageError if the file cannot be read.
    """
    try:
        file = disk.open(path)
    except OSError as cause:
        raise StorageError(f"{path} cannot be opened: {cause}") from cause
    try:
        yield from _batches(file, path, snapshot)
    except OSError as cause:
        raise StorageError(f"{path} cannot be read: {cause}; check the disk") from cause
    finally:
        file.close()


def _batches(file: File, path: str, snapshot: OffsetAndEpoch) -> Iterator[tuple[bytes, BatchHeader]]:
    end = 0
    for window in read_windows(file, Gapless(0), max_batch_bytes=_MAX_BATCH_BYTES):
        for header in window.headers:
            if header.epoch != snapshot.epoch:
                fault = f"a batch has epoch {header.epoch}, expected {snapshot.epoch}"
                raise _corrupt(path, window.position + header.position, fault)
            if header.attributes & COMPRESSION_MASK:
                raise _corrupt(path, window.position + header.position, "a batch is compressed")
            yield window.data, header
        end = window.end
        if window.fault:
            raise _corrupt(path, end, window.fault)
    if end < file.size():
        raise _corrupt(path, end, "zeros follow the last batch")


def read_timestamp(disk: Disk, path: str, snapshot: OffsetAndEpoch) -> int:
    """The timestamp of the last log batch in a snapshot, from its header, in Unix milliseconds.

    Raises CorruptSnapshot, or StorageError if the file cannot be read.
    """
    with closing(read_batches(disk, path, snapshot)) as batches:
        for data, batch in batches:
            for message in _control_messages(path, 0, data, batch) if batch.is_control else ():
                if isinstance(message, SnapshotHeaderRecord):
                    return message.last_contained_log_timestamp
            break
    raise _corrupt(path, 0, "it does not begin with a snapshot header")


def check_snapshot(
    disk: Disk, path: str, snapshot: OffsetAndEpoch, with_records: bool = False
) -> SnapshotSummary:
    """Read and verify a whole snapshot. Blocks.

    Raises CorruptSnapshot, StorageError if the file cannot be read, and UnknownRecord if `with_records` is set.
    """
    header: SnapshotHeaderRecord | None = None
    voters: VotersRecord | None = None
    ended = False
    count = size = 0
    for data, batch in read_batches(disk, path, snapshot):
        if ended:
            raise _corrupt(path, size, "a batch follows the footer")
        if batch.is_control:
            for message in _control_messages(path, size, data, batch):
                if isinstance(message, SnapshotHeaderRecord) and header is None and size == 0:
                    header = message
                elif isinstance(message, VotersRecord) and size == 0:
                    voters = message
                ended = ended or isinstance(message, SnapshotFooterRecord)
        else:
            count += batch.count
            if with_records:
                _check_records(path, size, data, batch)
        if header is None:
            raise _corrupt(path, size, "it does not begin with a snapshot header")
        size += batch.size
    if header is None or not ended:
        raise _corrupt(path, size, "it ends without a snapshot footer")
    return SnapshotSummary(snapshot, size, count, header.last_contained_log_timestamp, voters)


def _check_records(path: str, position: int, data: bytes, batch: BatchHeader) -> None:
    try:
        check_known(data, batch)
    except MalformedMessage as fault:
        raise _corrupt(path, position, str(fault)) from None
    except UnsupportedVersion as fault:
        raise UnknownRecord(
            f"{path} cannot be used: {fault}; run the version that wrote it. Nothing was changed"
        ) from None


def _control_messages(path: str, position: int, data: bytes, batch: BatchHeader) -> Iterator[ControlMessage]:
    try:
        for record in records(data, batch):
            yield decode_control(record.key or b"", record.value or b"")
    except (MalformedMessage, UnsupportedVersion) as fault:
        raise _corrupt(path, position, str(fault)) from None


def _corrupt(path: str, position: int, fault: str) -> CorruptSnapshot:
    return CorruptSnapshot(f"{path}, position {position}: {fault}. The snapshot is corrupt and is not used")


class SnapshotWriter:
    """Writes a snapshot to a temporary file and renames it into place when it is complete. Blocks.

    `token` distinguishes the temporary files of several builders. Methods raise DiskFull, StorageError or, from
    `finish`, CorruptSnapshot, with that file removed. `finish` also raises FlushFailed.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        snapshot: OffsetAndEpoch,
        timestamp_ms: int,
        voters: VotersRecord | None,
        token: str,
    ) -> None:
        self._disk = disk
        self._snapshot = snapshot
        self._timestamp_ms = timestamp_ms
        self._target = f"{directory}/{file_name(snapshot)}"
        self._path = f"{self._target}.{token}{BUILDING}"
        self._position = self._synced = self._offset = 0
        try:
            self._file = disk.open(self._path, create=True)
        except OSError as cause:
            raise self._error(cause) from cause
        header: list[ControlMessage] = [SnapshotHeaderRecord(0, timestamp_ms)]
        if voters is not None:
            header += [KRaftVersionRecord(0, 1), voters]
        self._write_control(header)

    def write(self, values: Sequence[bytes]) -> None:
        """Append one batch with these frames of metadata records."""
        data = encode_batch(self._offset, self._snapshot.epoch, self._timestamp_ms, values)
        self._append(data, len(values))

    def finish(self) -> SnapshotSummary:
        """Write the footer, sync, verify the file and durably rename it into place."""
        self._write_control([SnapshotFooterRecord(0)])
        try:
            self._file.truncate(self._position)
            self._file.sync()
            self._file.close()
        except OSError as cause:
            raise self._failed(cause) from cause
        try:
            summary = check_snapshot(self._disk, self._path, self._snapshot)
        except StorageError:
            self.abandon()
            raise
        publish_snapshot(self._disk, self._path, self._target)
        return summary

    def abandon(self) -> None:
        """Remove the temporary file."""
        with suppress(OSError):
            self._file.close()
        remove_best_effort(self._disk, self._path)

    def _write_control(self, messages: Sequence[ControlMessage]) -> None:
        pairs = [encode_control(message) for message in messages]
        data = encode_control_batch(self._offset, self._snapshot.epoch, self._timestamp_ms, pairs)
        self._append(data, len(messages))

    def _append(self, data: bytes, count: int) -> None:
        try:
            self._file.write_at(self._position, data)
            self._position += len(data)
            if self._position - self._synced >= _SYNC_BYTES:
                self._file.sync()
                self._synced = self._position
        except OSError as cause:
            raise self._failed(cause) from cause
        self._offset += count

    def _failed(self, cause: OSError) -> StorageError:
        self.abandon()
        return self._error(cause)

    def _error(self, cause: OSError) -> StorageError:
        if is_disk_full(cause):
            return DiskFull(f"disk full: the snapshot {self._target} cannot be written: {cause}")
        return StorageError(f"the snapshot {self._target} was not written: {cause}")


def publish_snapshot(disk: Disk, path: str, target: str) -> None:
    """Durably rename a complete, synced snapshot into place. Raises StorageError with the snapshot removed if it
    cannot be renamed, FlushFailed if the directory cannot be synced."""
    try:
        disk.rename(path, target)
    except OSError as cause:
        remove_best_effort(disk, path)
        raise StorageError(f"{path} could not be renamed to {target}: {cause}") from cause
    try:
        disk.sync_directory(parent_directory(target))
    except OSError as cause:
        raise flush_failed(target, cause) from cause


def remove_best_effort(disk: Disk, path: str) -> None:
    """Remove an obsolete file. A failure is ignored; the next start tries again."""
    with suppress(OSError):
        disk.remove(path)
