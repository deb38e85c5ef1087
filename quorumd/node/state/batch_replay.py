"""Applies batches of a log to an image."""

from __future__ import annotations

from collections.abc import Iterator

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition_frames import apply_frame
from quorumd.controller.undo_log import UndoEntry
from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values


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

    A step ends at the removal of a topic, which removes up to tens of thousands of partitions.

    Raises MalformedMessage, and UnsupportedVersion for an unknown record type or version, with the record's offset.
    """
    offset = reported = header.base_offset
    is_end = False
    apply = image.apply
    try:
        for value in values(data, header):
            if is_end or offset - reported == records_per_step:
                yield offset - reported
                reported = offset
            is_end = False
            if not apply_frame(image, value, changes):
                record = decode_record(value)
                apply(record, changes, value)
                is_end = type(record) is RemoveTopicRecord
            offset += 1
    except UnsupportedVersion as error:
        raise UnsupportedVersion(f"at offset {offset}: {error}") from None
    except MalformedMessage as error:
        raise MalformedMessage(f"at offset {offset}: {error}") from None
    yield offset - reported
