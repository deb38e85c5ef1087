"""Applying the frame of a PartitionChangeRecord equals decoding the record and applying it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition_change_frame import apply_frame
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.errors import MalformedMessage
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import decode_record, encode_record

TOPIC = KafkaUuid(bytes(range(16)))
OTHER = KafkaUuid(bytes(range(1, 17)))
brokers = st.integers(0, 4) | st.integers(-(2**31), 2**31 - 1)
replicas = st.none() | st.lists(brokers, max_size=4)
directories = st.none() | st.lists(st.sampled_from([TOPIC, OTHER]), min_size=3, max_size=3)
rarely = st.none() | st.none() | replicas
records = st.builds(
    PartitionChangeRecord,
    partition_id=st.sampled_from([0, 0, 0, 1]),
    topic_id=st.sampled_from([TOPIC, TOPIC, TOPIC, OTHER]),
    isr=replicas | st.lists(brokers, min_size=30, max_size=33),
    leader=st.sampled_from([-2, -1, 1, 300]),
    replicas=rarely,
    removing_replicas=rarely,
    adding_replicas=rarely,
    leader_recovery_state=st.sampled_from([-1, -1, 0, 1]),
    directories=st.none() | st.none() | directories,
    eligible_leader_replicas=replicas,
    last_known_elr=replicas,
    original_replicas=rarely,
)
frames = st.builds(encode_record, records, st.just(2))


def image() -> ClusterImage:
    found = ClusterImage()
    found.apply(TopicRecord("a", TOPIC), [])
    found.apply(PartitionRecord(0, TOPIC, [1, 2, 3], [1, 2, 3], [], [], 1, 0, 5, 7), [])
    return found


def decoded(subject: ClusterImage, frame: bytes, changes: list[UndoEntry]) -> str:
    """Decode and apply the frame; return the error."""
    try:
        subject.apply(decode_record(frame), changes, frame)
    except MalformedMessage as error:
        return str(error)
    return ""


def applied(subject: ClusterImage, frame: bytes, changes: list[UndoEntry]) -> str:
    """Apply the frame as a follower does; return the error."""
    try:
        done = apply_frame(subject, frame, changes)
    except MalformedMessage as error:
        return str(error)
    return "" if done else decoded(subject, frame, changes)


def state(subject: ClusterImage) -> tuple[object, ...]:
    index = subject.index
    return (
        subject.fingerprint(),
        subject.hash,
        index.leader_counts,
        [list(index.partitions_with_broker(broker)) for broker in range(5)],
        (index.leaderless, index.with_elr, index.rebalance_candidates, index.imbalanced_count),
    )


@given(st.lists(frames, min_size=1, max_size=4))
def test_applied_frame_equals_the_applied_record(written: list[bytes]) -> None:
    expected, subject, changes = image(), image(), list[UndoEntry]()
    before = state(subject)
    for frame in written:
        assert applied(subject, frame, changes) == decoded(expected, frame, [])
    assert state(subject) == state(expected)
    undo(reversed(changes))
    assert state(subject) == before


@given(frames, st.data())
def test_damaged_frame_has_the_same_outcome(frame: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(23, len(frame) - 1))
    damaged = data.draw(
        st.sampled_from(
            [
                frame[:position],
                frame + b"\0",
                frame[:position] + bytes([data.draw(st.integers(0, 255))]) + frame[position + 1 :],
            ]
        )
    )
    expected, subject = image(), image()
    assert applied(subject, damaged, []) == decoded(expected, damaged, [])
    assert state(subject) == state(expected)


def test_frames_that_have_to_be_decoded_change_nothing() -> None:
    isr = encode_record(PartitionChangeRecord(0, TOPIC, [1, 2]), 2)
    others = (
        PartitionChangeRecord(1, TOPIC, [1, 2]),
        PartitionChangeRecord(0, OTHER, [1, 2]),
        PartitionChangeRecord(0, TOPIC, list(range(32))),
        PartitionChangeRecord(0, TOPIC, replicas=[1, 2]),
    )
    damaged = (isr[:23], isr[:24], isr[:-1], isr + b"\0", isr[:25] + b"\0" + isr[26:])
    subject = image()
    before = state(subject)
    for frame in (*(encode_record(record, 2) for record in others), *damaged):
        assert not apply_frame(subject, frame, [])
    assert state(subject) == before


def test_change_of_the_isr_is_applied_without_decoding_except_in_a_transaction() -> None:
    record = PartitionChangeRecord(0, TOPIC, [1, 2], leader=2)
    record.eligible_leader_replicas, record.last_known_elr = [3], [1]
    frame = encode_record(record, 2)
    subject = image()
    assert apply_frame(subject, frame, [])
    partition = subject.topics[TOPIC].partitions[0]
    assert (partition.elr, partition.last_known_elr) == ((3,), (1,))
    assert (partition.isr, partition.leader, partition.leader_epoch, partition.partition_epoch) == (
        (1, 2),
        2,
        6,
        8,
    )
    subject.apply(BeginTransactionRecord(None), [])
    assert not apply_frame(subject, frame, [])
    assert not apply_frame(image(), encode_record(PartitionChangeRecord(0, TOPIC, [1, 2]), 1), [])
