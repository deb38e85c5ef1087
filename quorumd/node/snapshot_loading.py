"""A snapshot as an image: read from its file, a few records at a time; and what a node begins with."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from quorumd.controller.assignment import Change
from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import CorruptSnapshot, MalformedMessage, StorageError, UnsupportedVersion
from quorumd.ids import OffsetAndEpoch
from quorumd.log.segmented_log import SegmentedLog
from quorumd.log.snapshot_file import read_batches
from quorumd.node.voter_records import VoterRecord, snapshot_voters
from quorumd.ports import Disk
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values

logger = logging.getLogger("quorumd.node")

_ALL = 1 << 62


class Beginning(NamedTuple):
    """What a node knows of its log without having read it: all that is below `offset`."""

    image: ClusterImage
    offset: int
    voters: VoterRecord | None


def begin(disk: Disk, log: SegmentedLog) -> Beginning:
    """Load the newest sound snapshot of a log. Blocks.

    One that is not sound is set aside and told: an older one, or the whole log, does as well. Raises StorageError
    where neither is there.
    """
    set_aside = ""
    for snapshot in reversed(log.snapshots.ids):
        if not log.start_offset <= snapshot.offset <= log.end_offset:
            continue
        try:
            message = log.snapshots.check(snapshot).voters
            voters = snapshot_voters(snapshot, message) if message is not None else None
            return Beginning(
                load_image(disk, log.snapshots.path(snapshot), snapshot), snapshot.offset, voters
            )
        except (CorruptSnapshot, MalformedMessage) as fault:
            set_aside = log.snapshots.set_aside(snapshot)
            logger.warning("%s; it is set aside as %s", fault, set_aside)
    if log.start_offset > 0:
        raise StorageError(
            f"the log begins at offset {log.start_offset}, and no sound snapshot of what was before is left"
            f" ({set_aside or 'none is there'}): restore the .checkpoint file from a copy, or, if a majority of the "
            "other voters is intact, remove this replica's data folder and format it anew: the log is fetched from "
            "them then"
        )
    return Beginning(ClusterImage(), 0, None)


def load_image(disk: Disk, path: str, snapshot: OffsetAndEpoch) -> ClusterImage:
    """The image of a whole snapshot. Blocks. Raises as `load_steps`."""
    image = ClusterImage()
    for _ in load_steps(disk, path, snapshot, image, _ALL):
        pass
    return image


def load_steps(
    disk: Disk, path: str, snapshot: OffsetAndEpoch, image: ClusterImage, records_a_step: int
) -> Iterator[int]:
    """Fill an empty image; yields how many records were applied after every `records_a_step` of them.

    Raises CorruptSnapshot; StorageError where the file cannot be read, or a newer version wrote it.
    """
    count = 0
    for data, header in read_batches(disk, path, snapshot):
        if header.is_control:
            continue
        changes: list[Change] = []
        try:
            for value in values(data, header):
                image.apply(decode_record(value), changes)
                count += 1
                if count % records_a_step == 0:
                    yield count
        except MalformedMessage as error:
            raise CorruptSnapshot(
                f"{path} cannot be applied at its offset {header.base_offset}: {error}"
            ) from None
        except UnsupportedVersion as error:
            # Not damaged: another version can use it.
            raise StorageError(
                f"{path} cannot be applied at its offset {header.base_offset}: {error}; run the version that "
                "wrote it here too"
            ) from None
    if image.in_transaction:
        raise CorruptSnapshot(f"{path} ends within a transaction")
