"""Checks that snapshots are valid, and equal on all nodes that have them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from quorumd.errors import InputIncomplete, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.log.snapshot_file import SnapshotSummary, check_snapshot, read_batches
from quorumd.pipeline.audit.findings import Finding, Severity
from quorumd.pipeline.copies.log_files import CopyDirectory, SnapshotFile
from quorumd.pipeline.copies.read_only_disk import ReadOnlyDisk
from quorumd.pipeline.scan.batches import read_pieces
from quorumd.protocol.record_batch import values

_LEFT_OVER = (".checkpoint.part", ".building", ".checkpoint.corrupt", ".checkpoint.deleted")


class SoundSnapshot(NamedTuple):
    """A valid snapshot."""

    file: SnapshotFile
    summary: SnapshotSummary

    @property
    def id(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.file.end_offset, self.file.epoch)


def check_snapshots(directory: CopyDirectory) -> tuple[list[SoundSnapshot], list[Finding]]:
    """Return the valid snapshots of a directory in order, and findings about the others. Raises InputIncomplete."""
    sound: list[SoundSnapshot] = []
    findings: list[Finding] = list(_left_over(directory))
    for file in directory.snapshots:
        faults = list(_faults(file))
        findings += faults
        if faults:
            continue
        try:
            summary = check_snapshot(ReadOnlyDisk(), file.path, OffsetAndEpoch(file.end_offset, file.epoch))
        except StorageError as error:
            findings.append(_damaged(file, str(error), None))
            continue
        sound.append(SoundSnapshot(file, summary))
    return sound, findings


def compare_snapshots(
    snapshots: Iterable[SoundSnapshot], explained: Container[str] = ()
) -> Iterator[Finding]:
    """Check that snapshots with the same id hold the same records, in any order and any batches.

    Snapshots whose paths are in `explained` match the log except for differences that are already reported.
    """
    by_id: defaultdict[OffsetAndEpoch, list[SoundSnapshot]] = defaultdict(list)
    for snapshot in snapshots:
        by_id[snapshot.id].append(snapshot)
    for same in by_id.values():
        first, *others = same
        crcs = _crcs(first) if others else []
        different = [other for other in others if _crcs(other) != crcs]
        digest = _records_digest(first) if different else 0
        for other in different:
            if first.file.path in explained and other.file.path in explained:
                continue
            if _records_digest(other) == digest:
                continue
            detail = f"its records differ from those of the snapshot of node {first.file.node}"
            yield Finding(
                Severity.CRITICAL, "SNAPSHOT_DIFFERS", detail, other.file.node, first.file.node, other.file.name,
                offset_lo=0, offset_hi=other.file.end_offset, epoch_lo=other.file.epoch,
                epoch_hi=other.file.epoch, committed=True,
            )  # fmt: skip


def _faults(file: SnapshotFile) -> Iterator[Finding]:
    try:
        for _, _, scanned in read_pieces(file.path, base_offset=0):
            for fault in scanned.faults:
                yield _damaged(file, str(fault), fault.position)
    except OSError as error:
        raise InputIncomplete(f"{file.path} cannot be read: {error.strerror}") from None


def _damaged(file: SnapshotFile, detail: str, position: int | None) -> Finding:
    return Finding(
        Severity.WARNING, "SNAPSHOT_DAMAGED", detail, file.node, segment=file.name, position=position,
        offset_lo=0, offset_hi=file.end_offset, epoch_lo=file.epoch, epoch_hi=file.epoch,
    )  # fmt: skip


def _left_over(directory: CopyDirectory) -> Iterator[Finding]:
    for name in sorted(os.listdir(directory.path)):
        if name.endswith(_LEFT_OVER):
            detail = "an unfinished or discarded snapshot, which is never read"
            yield Finding(Severity.INFO, "SNAPSHOT_PART", detail, directory.node, segment=name)


def _crcs(snapshot: SoundSnapshot) -> list[tuple[int, int]]:
    batches = read_batches(ReadOnlyDisk(), snapshot.file.path, snapshot.id)
    return [(header.base_offset, header.crc) for _, header in batches]


def _records_digest(snapshot: SoundSnapshot) -> int:
    """Return the sum of the hashes of all data records, which is independent of their order."""
    total = 0
    for data, header in read_batches(ReadOnlyDisk(), snapshot.file.path, snapshot.id):
        if not header.is_control:
            for value in values(data, header):
                total += int.from_bytes(blake2b(value, digest_size=16).digest(), "big")
    return total
