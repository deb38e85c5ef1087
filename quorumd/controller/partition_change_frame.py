"""Applies the frames of most PartitionChangeRecords without building the records.

A follower applies every change that its leader commits, and decoding the record of one takes as long as applying it.
Nearly all of them change the ISR, and some the ELR and the leader. Other records, and malformed ones, are left to
`decode_record` and `ClusterImage.apply`: tests/property/test_partition_change_frames.py compares both ways.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.intern_pool import InternPool
from quorumd.controller.partition import LEADER_UNCHANGED, Partition
from quorumd.controller.undo_log import UndoEntry
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.metadata_record import FRAME_VERSION, HEAD_SIZE

_HEAD: Final = bytes((FRAME_VERSION, PartitionChangeRecord.API_KEY, PartitionChangeRecord.MAX_VERSION))
"""The start of a frame with a record of the newest version."""
_NUMBER: Final = Struct(">i").unpack_from
_TOPIC_ID: Final = HEAD_SIZE + 4
_TAG_COUNT: Final = _TOPIC_ID + 16
_ISR: Final = 0
_LEADER: Final = 1
_ELR: Final = 6
_LAST_KNOWN_ELR: Final = 7
"""The tags of the fields that are read here."""


def apply_frame(image: ClusterImage, frame: bytes, changes: list[UndoEntry]) -> bool:
    """Apply the record in a frame, as `ClusterImage.apply` does. Returns False, without any effect, if the record has
    to be decoded."""
    if not frame.startswith(_HEAD) or len(frame) <= _TAG_COUNT or image.in_transaction:
        return False
    topic = image.topics.get(KafkaUuid(frame[_TOPIC_ID:_TAG_COUNT]))
    number: int = _NUMBER(frame, HEAD_SIZE)[0]
    before = topic.partitions.get(number) if topic is not None else None
    if topic is None or before is None:
        return False
    after = _changed(before, frame, image.shared)
    if after is None:
        return False
    image.set_partition(topic, number, after, changes)
    return True


def _changed(partition: Partition, frame: bytes, pool: InternPool) -> Partition | None:
    """Return the partition after the record, as `Partition.apply` does; None if the record has to be decoded."""
    isr, elr, last_known_elr = partition.isr, partition.elr, partition.last_known_elr
    leader = LEADER_UNCHANGED
    position = _TAG_COUNT + 1
    end = len(frame)
    for _ in range(frame[_TAG_COUNT]):
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
