"""Compares snapshots with the result of replaying the log from offset 0 or from the previous snapshot.

Records are applied to an image one by one in Python, as a node applies them, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.undo_log import UndoEntry
from quorumd.errors import MalformedMessage, StorageError, UnsupportedVersion
from quorumd.ids import OffsetAndEpoch
from quorumd.log.log_reader import read_log
from quorumd.log.snapshot_file import read_batches
from quorumd.pipeline.audit.commitment import Pair
from quorumd.pipeline.audit.copies import Copy
from quorumd.pipeline.audit.findings import Finding, Severity
from quorumd.pipeline.audit.snapshots import SoundSnapshot
from quorumd.pipeline.copies.log_files import LogFolder
from quorumd.pipeline.copies.read_only_disk import ReadOnlyDisk
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import BatchHeader, values

_PARTS = ("configs", "features", "brokers", "topics", "producer ids", "records kept for others")


class Log(NamedTuple):
    """The copies of a log and their comparisons."""

    folders: Mapping[int, LogFolder]
    copies: Mapping[int, Copy]
    pairs: Mapping[tuple[int, int], Pair]

    def holder(self, snapshot: SoundSnapshot, start: int) -> Copy | None:
        """Return an undamaged copy equal to that of the snapshot's node from `start` to the snapshot's end."""
        node, end = snapshot.file.node, snapshot.file.end_offset
        own = self.copies[node]
        for copy in sorted(self.copies.values(), key=lambda copy: (copy.node != node, copy.node)):
            reaches = copy.start_offset <= start and copy.end_offset >= end
            is_same = copy is own or self.pairs[node, copy.node].parts_at >= min(end, own.end_offset)
            is_sound = not any(d.offset_lo < end and d.offset_hi >= start for d in copy.damages)
            if reaches and is_same and is_sound:
                return copy
        return None


class _Image:
    """The image of the log below `end`; empty at first."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.end = 0

    def load(self, snapshot: SoundSnapshot) -> None:
        """Load the records of a snapshot into an empty image."""
        self._apply(read_batches(ReadOnlyDisk(), snapshot.file.path, snapshot.id))
        self.end = snapshot.file.end_offset

    def read_log(self, folder: str, end: int) -> None:
        """Apply the records of the log in a folder up to `end`."""
        self._apply(read_log(ReadOnlyDisk(), folder, self.end, end))
        self.end = end

    def _apply(self, batches: Iterable[tuple[bytes, BatchHeader]]) -> None:
        for data, header in batches:
            if header.is_control:
                continue
            changes: list[UndoEntry] = []
            for value in values(data, header):
                self.image.apply(decode_record(value), changes, value)


def fold_snapshots(log: Log, snapshots: Sequence[SoundSnapshot], most_records: int) -> Iterator[Finding]:
    """Compare snapshots with the log, applying at most `most_records`.

    Snapshots that could not be compared are reported as INFO.
    """
    by_id: dict[OffsetAndEpoch, list[SoundSnapshot]] = {}
    for snapshot in snapshots:
        by_id.setdefault(snapshot.id, []).append(snapshot)
    before: SoundSnapshot | None = None
    image: _Image | None = None
    left = most_records
    for snapshot_id in sorted(by_id):
        same = by_id[snapshot_id]
        start = before.file.end_offset if before else 0
        holder = next((copy for each in same if (copy := log.holder(each, start))), None)
        cost = snapshot_id.offset - start + sum(each.summary.records for each in same)
        if image is None and before is not None:
            cost += before.summary.records
        if holder is None:
            why_not = f"no sound copy of the log begins at or before offset {start}"
        elif cost > left:
            why_not = f"it requires applying {cost} records, and {left} remain of --fold-records"
        else:
            left -= cost
            try:
                image = image or _begin(before)
                image.read_log(log.folders[holder.node].path, snapshot_id.offset)
                for each in same:
                    yield from _compare(image, each, holder, start)
                before = same[0]
                continue
            except (StorageError, MalformedMessage, UnsupportedVersion) as error:
                why_not = str(error)
        yield _not_compared(same[0], why_not)
        before, image = same[0], None


def _begin(before: SoundSnapshot | None) -> _Image:
    image = _Image()
    if before is not None:
        image.load(before)
    return image


def _compare(image: _Image, snapshot: SoundSnapshot, holder: Copy, start: int) -> Iterator[Finding]:
    loaded = _begin(snapshot).image
    if loaded.hash == image.image.hash:
        return
    ours, theirs = loaded.fingerprint(), image.image.fingerprint()
    different = [name for name, one, two in zip(_PARTS, ours, theirs, strict=True) if one != two]
    origin = f"the snapshot at offset {start} and the following log" if start else "the log"
    detail = f"it differs from the state in {origin} of node {holder.node}: {', '.join(different)}"
    file = snapshot.file
    yield Finding(
        Severity.CRITICAL, "SNAPSHOT_DIFFERS", detail, file.node, segment=file.name, offset_lo=start,
        offset_hi=file.end_offset, epoch_lo=file.epoch, epoch_hi=file.epoch, committed=True,
    )  # fmt: skip


def _not_compared(snapshot: SoundSnapshot, why: str) -> Finding:
    file = snapshot.file
    return Finding(
        Severity.INFO, "SNAPSHOT_NOT_COMPARED", f"not compared with the log: {why}", file.node, segment=file.name,
        offset_lo=0, offset_hi=file.end_offset, epoch_lo=file.epoch, epoch_hi=file.epoch,
    )  # fmt: skip
