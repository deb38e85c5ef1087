"""Applies the frames of most PartitionRecords and PartitionChangeRecords without building the records.

A follower applies every change that its leader commits, and a node loads all partitions at its start. Decoding the
record of one takes as long as applying it. Nearly all changes are those of an ISR, and some of an ELR and a leader;
few partitions are being reassigned or have an ELR. Other records, and malformed ones, are left to `decode_record`
and `ClusterImage.apply`: tests/property/test_partition_frames.py compares both ways.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from quorumd.controller.cluster_image import ClusterImage, Topic
from quorumd.controller.intern_pool import InternPool
from quorumd.controller.partition import LEADER_UNCHANGED, RECOVERED, Partition
from quorumd.controller.undo_log import UndoEntry
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.metadata_record import FRAME_VERSION, HEAD_SIZE

_CHANGE: Final = bytes((FRAME_VERSION, PartitionChangeRecord.API_KEY, PartitionChangeRecord.MAX_VERSION))
"""The start of a frame with a change, of the newest version."""
_NEW: Final = bytes((FRAME_VERSION, PartitionRecord.API_KEY))
"""The start of a frame with a partition, of any version; from version 1 on it has directories."""
_VERSION: Final = 2
_NUMBER: Final = Struct(">i").unpack_from
_LEADER_AND_EPOCHS: Final = Struct(">iii").unpack_from
_TOPIC_ID: Final = HEAD_SIZE + 4
_AFTER_TOPIC_ID: Final = _TOPIC_ID + 16
_ISR: Final = 0
_LEADER: Final = 1
_ELR: Final = 6
_LAST_KNOWN_ELR: Final = 7
"""The tags of the fields of a change that are read here."""
_EMPTY: Final = 1
"""The first byte of a compact array is one more than the number of its elements, if that is less than 127."""


class PartitionLoader:
    """Adds the partitions of a snapshot to an image that has no readers yet, without undo entries."""

    __slots__ = ("_image", "_topic")

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._topic: Topic | None = None
        """The topic of the previous frame, None if that was of another kind of record."""

    def load(self, frame: bytes) -> bool:
        """Apply the PartitionRecord in a frame, as `ClusterImage.apply` does. Returns False, without any effect, if
        the record has to be decoded. Raises MalformedMessage for a state that Kafka rejects."""
        topic = self._topic
        if topic is None or not frame.startswith(topic.id, _TOPIC_ID):
            topic = _topic(self._image, frame)
        self._topic = None
        if topic is None or not frame.startswith(_NEW) or self._image.in_transaction:
            return False
        partition = _new_partition(frame, self._image.shared)
        if partition is None:
            return False
        number: int = _NUMBER(frame, HEAD_SIZE)[0]
        if number in topic.partitions:
            return False
        self._image.load_partition(topic, number, partition)
        self._topic = topic
        return True


def apply_frame(image: ClusterImage, frame: bytes, changes: list[UndoEntry]) -> bool:
    """Apply the record in a frame, as `ClusterImage.apply` does. Returns False, without any effect, if the record has
    to be decoded. Raises MalformedMessage for a state that Kafka rejects."""
    is_change = frame.startswith(_CHANGE)
    if (not is_change and not frame.startswith(_NEW)) or image.in_transaction:
        return False
    topic = _topic(image, frame)
    if topic is None:
        return False
    number: int = _NUMBER(frame, HEAD_SIZE)[0]
    if is_change:
        before = topic.partitions.get(number)
        after = _changed(before, frame, image.shared) if before is not None else None
    else:
        after = _new_partition(frame, image.shared)
    if after is None:
        return False
    image.set_partition(topic, number, after, changes)
    return True


def _topic(image: ClusterImage, frame: bytes) -> Topic | None:
    """Return the topic of a partition, None if the frame is too short or the topic unknown."""
    if len(frame) <= _AFTER_TOPIC_ID:
        return None
    return image.topics.get(KafkaUuid(frame[_TOPIC_ID:_AFTER_TOPIC_ID]))


def _new_partition(frame: bytes, pool: InternPool) -> Partition | None:
    """Return the partition of a PartitionRecord; None if the record has to be decoded."""
    version = frame[_VERSION]
    if version > PartitionRecord.MAX_VERSION:
        return None
    try:
        isr_at = _AFTER_TOPIC_ID + _array_size(frame[_AFTER_TOPIC_ID], 4)
        removing_at = isr_at + _array_size(frame[isr_at], 4)
        replicas = pool.encoded_replicas(frame[_AFTER_TOPIC_ID:isr_at])
        isr = pool.encoded_replicas(frame[isr_at:removing_at])
        if frame[removing_at] != _EMPTY or frame[removing_at + 1] != _EMPTY:
            return None
        leader, leader_epoch, partition_epoch = _LEADER_AND_EPOCHS(frame, removing_at + 2)
        end = removing_at + 14
        directories: tuple[KafkaUuid, ...] | None = ()
        if version >= 1:
            begin, end = end, end + _array_size(frame[end], 16)
            directories = pool.encoded_directories(frame[begin:end])
        has_tags = frame[end] != 0
    except (IndexError, StructError):
        return None
    if has_tags or end + 1 != len(frame) or replicas is None or isr is None or directories is None:
        return None
    return Partition(
        replicas, isr, leader, leader_epoch, partition_epoch, (), (), (), (), (), RECOVERED, directories
    )


def _array_size(first_byte: int, element_size: int) -> int:
    """Return the number of bytes of a compact array with at most 126 elements, 1 for null."""
    return 1 + element_size * max(first_byte - 1, 0)


def _changed(partition: Partition, frame: bytes, pool: InternPool) -> Partition | None:
    """Return the partition after the record, as `Partition.apply` does; None if the record has to be decoded."""
    isr, elr, last_known_elr = partition.isr, partition.elr, partition.last_known_elr
    leader = LEADER_UNCHANGED
    position = _AFTER_TOPIC_ID + 1
    end = len(frame)
    for _ in range(frame[_AFTER_TOPIC_ID]):
        if position + 2 > end:
            return None
        tag = frame[position]
        start = position + 2
        position = start + frame[position + 1]
        value = frame[start:position]
        if tag == _LEADER and len(value) == 4:
            leader = _NUMBER(value)[0]
            continue
        replicas = pool.encoded_replicas(value)
        if replicas is None:
            return None
        if tag == _ISR:
            isr = replicas
        elif tag == _ELR:
            elr = replicas
        elif tag == _LAST_KNOWN_ELR:
            last_known_elr = replicas
        else:
            return None
    if position != end:
        return None
    names_leader = leader != LEADER_UNCHANGED
    return Partition(
        partition.replicas,
        isr,
        leader if names_leader else partition.leader,
        partition.leader_epoch + 1 if names_leader else partition.leader_epoch,
        partition.partition_epoch + 1,
        partition.adding,
        partition.removing,
        partition.original,
        elr,
        last_known_elr,
        partition.recovery,
        partition.directories,
    )
