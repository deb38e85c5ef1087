"""Logs and snapshots whose records contradict the metadata before them, and damaged snapshots: a node cannot use
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from quorumd.ids import KafkaUuid, OffsetAndEpoch
from quorumd.log.segment import LOG_SUFFIX
from quorumd.log.snapshot_file import file_name
from quorumd.protocol.batch_header import read_header
from quorumd.protocol.control_record import ControlMessage, encode_control
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.clear_elr_record import ClearElrRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from quorumd.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from quorumd.protocol.messages.voters_record import KRaftVersionFeature, Voter, VotersRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from quorumd.protocol.wire import Message

OFFSET: Final = 1 << 40
"""Where the log begins, above all offsets that other files of the node name."""
_ID: Final = KafkaUuid(bytes(15) + b"\x07")
_OTHER: Final = KafkaUuid(bytes(15) + b"\x08")
_BROKER: Final = RegisterBrokerRecord(7, broker_epoch=1)
_TOPIC: Final = TopicRecord("contradicted", _ID)
CONTRADICTIONS: Final[tuple[tuple[Message, ...], ...]] = (
    (UnregisterBrokerRecord(7, 1),),
    (_BROKER, FenceBrokerRecord(7, 2)),
    (_BROKER, UnfenceBrokerRecord(8, 1)),
    (_BROKER, BrokerRegistrationChangeRecord(7, 1, 9)),
    (_TOPIC, TopicRecord("contradicted", _OTHER)),
    (_TOPIC, TopicRecord("other", _ID)),
    (RemoveTopicRecord(_ID),),
    (PartitionRecord(0, _ID, [7], [7]),),
    (_TOPIC, PartitionChangeRecord(3, _ID, [7])),
    (_TOPIC, PartitionRecord(0, _ID, [7], [7], leader=7, leader_recovery_state=7)),
    (_TOPIC, PartitionRecord(0, _ID, [7, 8], [7], leader=7, directories=[_OTHER])),
    (ClearElrRecord("unknown"),),
    (BeginTransactionRecord("first"), BeginTransactionRecord("second")),
    (_TOPIC, EndTransactionRecord()),
    (AbortTransactionRecord("none"),),
    (RemoveAccessControlEntryRecord(_ID),),
)
"""Records of which the last one contradicts the others."""
INVALID_VOTERS: Final = ((), (1, 1), (-1, 2))
NO_RECORDS: Final = (b"", b"\x01", b"\x02\x03\x00", b"\x01\x02\x00\x7f")
"""Values of data records that are not frames of metadata records."""


def draw_contradiction(random: Random, epoch: int) -> Mapping[str, bytes]:
    """Draw a snapshot and a segment that begins at its end, by name. The node must refuse one of them."""
    way = random.randrange(4)
    frames = [frame_of(record) for record in random.choice(CONTRADICTIONS)]
    if random.random() < 0.15:
        frames = [frame_of(_TOPIC), random.choice(NO_RECORDS)]
    if way == 0 and random.random() < 0.2:
        return _files(epoch, b"".join(_parts(epoch, [])), _voters(epoch, random.choice(INVALID_VOTERS)))
    if way == 0:
        return log_files(epoch, [], frames)
    if way == 1:
        return _files(epoch, _damaged_snapshot(random, epoch))
    if way == 2 and random.random() < 0.3:
        frames = [frame_of(BeginTransactionRecord("open")), frame_of(_TOPIC)]
    return log_files(epoch, frames, [])


def log_files(epoch: int, in_snapshot: Sequence[bytes], in_segment: Sequence[bytes]) -> Mapping[str, bytes]:
    """Return a snapshot and a segment with these frames, by name."""
    segment = encode_batch(OFFSET, epoch, 1, in_segment) if in_segment else b""
    return _files(epoch, b"".join(_parts(epoch, in_snapshot)), segment)


def end_offset(segment: bytes) -> int:
    """Return the offset at which a segment of at most one batch ends."""
    return read_header(segment, 0).end_offset if segment else OFFSET


def segment_name() -> str:
    return f"{OFFSET:020d}{LOG_SUFFIX}"


def _files(epoch: int, snapshot: bytes, segment: bytes = b"") -> Mapping[str, bytes]:
    return {file_name(OffsetAndEpoch(OFFSET, epoch)): snapshot, segment_name(): segment}


def frame_of(record: Message) -> bytes:
    return encode_record(record, record.MAX_VERSION)


def _control(offset: int, epoch: int, message: ControlMessage) -> bytes:
    return encode_control_batch(offset, epoch, 1, [encode_control(message)])


def _voters(epoch: int, ids: Sequence[int]) -> bytes:
    voters = [Voter(id, kraft_version_feature=KRaftVersionFeature(0, 1)) for id in ids]
    return _control(OFFSET, epoch, VotersRecord(0, voters))


def _parts(epoch: int, frames: Sequence[bytes]) -> list[bytes]:
    """Return the batches of a snapshot."""
    parts = [_control(0, epoch, SnapshotHeaderRecord(0, 1))]
    if frames:
        parts.append(encode_batch(1, epoch, 1, frames))
    return [*parts, _control(1 + len(frames), epoch, SnapshotFooterRecord(0))]


def _damaged_snapshot(random: Random, epoch: int) -> bytes:
    """Return a snapshot with a missing, additional or damaged batch."""
    header, data, footer = _parts(epoch, [frame_of(_TOPIC)])
    return random.choice(
        (
            b"",
            header,
            header + data,
            data + footer,
            _control(0, epoch, SnapshotFooterRecord(0)),
            encode_batch(0, epoch, 1, [frame_of(_TOPIC)]) + footer,
            header + data + footer + encode_batch(3, epoch, 1, [frame_of(_TOPIC)]),
            header + data + footer + bytes(100),
            header + encode_batch(1, epoch + 1, 1, [frame_of(_TOPIC)]) + footer,
            header + data[:-1] + bytes((data[-1] ^ 1,)) + footer,
            header + data + footer[: random.randrange(len(footer))],
        )
    )
