"""A snapshot as an image: read from its file, a few records at a time."""

from __future__ import annotations

from collections.abc import Iterator

from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import CorruptSnapshot, MalformedMessage, UnsupportedVersion
from quorumd.ids import OffsetAndEpoch
from quorumd.log.snapshot_file import read_batches
from quorumd.ports import Disk
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values


def load_steps(
    disk: Disk, path: str, snapshot: OffsetAndEpoch, image: ClusterImage, records_a_step: int
) -> Iterator[int]:
    """Fill an empty image; yields how many records were applied after every `records_a_step` of them.

    Raises CorruptSnapshot, StorageError where the file cannot be read.
    """
    count = 0
    for data, header in read_batches(disk, path, snapshot):
        if header.is_control:
            continue
        try:
            for value in values(data, header):
                image.apply(decode_record(value))
                count += 1
                if count % records_a_step == 0:
                    yield count
        except (MalformedMessage, UnsupportedVersion) as error:
            raise CorruptSnapshot(
                f"{path} cannot be applied at its offset {header.base_offset}: {error}; "
                "if a newer version wrote it, run that version here too"
            ) from None


def load_image(disk: Disk, path: str, snapshot: OffsetAndEpoch) -> ClusterImage:
    """The image of a whole snapshot. Blocks. Raises as `load_steps`."""
    image = ClusterImage()
    for _ in load_steps(disk, path, snapshot, image, _MANY):
        pass
    return image


_MANY = 1 << 30
