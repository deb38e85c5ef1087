"""Applies batches of a log to an image."""

from __future__ import annotations

from collections.abc import Iterator

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.undo_log import UndoEntry
from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import BatchHeader, values


def apply_batch(image: ClusterImage, data: bytes, header: BatchHeader, changes: list[UndoEntry]) -> None:
    """Apply the records of a data batch, which `data` holds completely, and append their undo entries to `changes`.

    Raises the errors of `apply_steps`.
    """
    for _ in apply_steps(image, data, header, changes, header.count):
        pass


def apply_steps(
    image: ClusterImage, data: bytes, header: BatchHeader, changes: list[UndoEntry], records_per_step: int
) -> Iterator[int]:
    """Apply a batch like `apply_batch`, `records_per_step` at a time; yields the number of records of each step.

    Raises MalformedMessage, and UnsupportedVersion for an unknown record type or version, with the record's offset.
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
