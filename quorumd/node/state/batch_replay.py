"""A batch of the log or of a snapshot, applied to an image."""

from __future__ import annotations

from collections.abc import Iterator

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.undo_log import UndoEntry
from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import BatchHeader, values


def apply_batch(image: ClusterImage, data: bytes, header: BatchHeader, changes: list[UndoEntry]) -> None:
    """Apply the records of a data batch that is whole in `data`, and note in `changes` how to take them back. Raises
    as `apply_steps`."""
    for _ in apply_steps(image, data, header, changes, header.count):
        pass


def apply_steps(
    image: ClusterImage, data: bytes, header: BatchHeader, changes: list[UndoEntry], records_per_step: int
) -> Iterator[int]:
    """As `apply_batch`, a few records at a time; yields how many were applied since the last time, at the end too.

    Raises MalformedMessage, and UnsupportedVersion for a type or version that is not known, with the offset of the
    record.
    """
    offset = reported = header.base_offset
    apply = image.apply
    try:
        for value in values(data, header):
            if offset - reported == records_per_step:
                yield records_per_step
                reported = offset
            apply(decode_record(value), changes, value)
            offset += 1
    except UnsupportedVersion as error:
        raise UnsupportedVersion(f"at offset {offset}: {error}") from None
    except MalformedMessage as error:
        raise MalformedMessage(f"at offset {offset}: {error}") from None
    yield offset - reported
