"""Chooses the snapshot that a node starts with, and loads snapshot files into images."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition_frames import PartitionLoader
from quorumd.controller.undo_log import UndoEntry
from quorumd.errors import CorruptSnapshot, MalformedMessage, StorageError, UnsupportedVersion
from quorumd.ids import OffsetAndEpoch
from quorumd.log.remedies import REFORMAT_REMEDY
from quorumd.log.segmented_log import SegmentedLog
from quorumd.log.snapshot_file import read_batches
from quorumd.node.state.log_validation import validate_log
from quorumd.node.wire.voter_records import VoterRecord, snapshot_voters
from quorumd.ports import Disk
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values

logger = logging.getLogger("quorumd.node")

_UNLIMITED = 1 << 62


class StartSnapshot(NamedTuple):
    """The snapshot that a node starts with, None for the beginning of its log, and the voters in it."""

    snapshot: OffsetAndEpoch | None = None
    voters: VoterRecord | None = None

    @property
    def offset(self) -> int:
        """The offset from which on the log has to be read."""
        return self.snapshot.offset if self.snapshot is not None else 0


def find_start_snapshot(log: SegmentedLog) -> StartSnapshot:
    """Find the newest valid snapshot of a log, and check that this version knows all records in it and after it.

    Blocks. Raises the errors of `validate_log`, and StorageError if no valid snapshot or log covers the first
    offsets.
    """
    start_snapshot = _newest_valid(log)
    validate_log(log, start_snapshot.offset)
    return start_snapshot


def _newest_valid(log: SegmentedLog) -> StartSnapshot:
    """Find the newest valid snapshot of a log.

    Invalid ones are quarantined and logged, since an older one or the whole log can replace them. Raises StorageError
    if there is neither, UnknownRecord for a record that this version does not know.
    """
    quarantined = ""
    for snapshot in reversed(log.snapshots.ids):
        if not log.start_offset <= snapshot.offset <= log.end_offset:
            continue
        try:
            message = log.snapshots.check(snapshot, with_records=True).voters
            voters = snapshot_voters(snapshot, message) if message is not None else None
            return StartSnapshot(snapshot, voters)
        except (CorruptSnapshot, MalformedMessage) as fault:
            quarantined = log.snapshots.quarantine(snapshot)
            logger.warning("%s; it was renamed to %s", fault, quarantined)
    if log.start_offset > 0:
        raise StorageError(
            f"the log begins at offset {log.start_offset}, and no valid snapshot covers the offsets before it"
            f" ({quarantined or 'there is none'}): restore the .checkpoint file from a copy, or, {REFORMAT_REMEDY}"
        )
    return StartSnapshot()


def load_image(disk: Disk, path: str, snapshot: OffsetAndEpoch) -> ClusterImage:
    """Return the image of a whole snapshot. Blocks. Raises the errors of `load_steps`."""
    image = ClusterImage()
    for _ in load_steps(disk, path, snapshot, image, _UNLIMITED):
        pass
    return image


def load_steps(
    disk: Disk, path: str, snapshot: OffsetAndEpoch, image: ClusterImage, records_per_step: int
) -> Iterator[int]:
    """Load a snapshot into an empty image, `records_per_step` at a time; yields the number of records of each step.

    Raises CorruptSnapshot; StorageError if the file cannot be read, or a newer version wrote it.
    """
    count = 0
    loader = PartitionLoader(image)
    for data, header in read_batches(disk, path, snapshot):
        if header.is_control:
            continue
        changes: list[UndoEntry] = []
        offset = header.base_offset
        try:
            for value in values(data, header):
                if not loader.load(value):
                    image.apply(decode_record(value), changes, value)
                offset += 1
                count += 1
                if count == records_per_step:
                    yield count
                    count = 0
        except MalformedMessage as error:
            raise CorruptSnapshot(f"{path} cannot be applied at its offset {offset}: {error}") from None
        except UnsupportedVersion as error:
            # Not damaged: another version can use it.
            raise StorageError(
                f"{path} cannot be applied at its offset {offset}: {error}; upgrade this node to "
                "the version that wrote it"
            ) from None
    if image.in_transaction:
        raise CorruptSnapshot(f"{path} ends within a transaction")
    yield count
