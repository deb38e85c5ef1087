"""Applying the frame of a partition or of its change equals decoding the record and applying it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import Partition, PartitionId
from quorumd.controller.partition_frames import PartitionLoader, apply_frame
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import decode_record, encode_record

TOPIC = KafkaUuid(bytes(range(16)))
OTHER = KafkaUuid(bytes(range(1, 17)))
brokers = st.integers(0, 4) | st.integers(-(2**31), 2**31 - 1)
replicas = st.none() | st.lists(brokers, max_size=4)
directories = st.none() | st.lists(st.sampled_from([TOPIC, OTHER]), min_size=3, max_size=3)
rarely = st.none() | st.none() | replicas
changes_of_partitions = st.builds(
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
few = st.lists(brokers, max_size=4)
nearly_always_empty = st.just([]) | st.just([]) | few


@st.composite
def new_partitions(draw: st.DrawFn) -> bytes:
    """Return the frame of a PartitionRecord, most of them as a controller writes them."""
    version = draw(st.sampled_from([0, 1, 2, 2, 2]))
    record = PartitionRecord(
        draw(st.integers(0, 3)),
        draw(st.sampled_from([TOPIC, TOPIC, TOPIC, OTHER])),
        draw(st.just([1, 2, 3]) | few | st.lists(brokers, min_size=30, max_size=33)),
        draw(st.just([1, 2, 3]) | few),
        draw(nearly_always_empty),
        draw(nearly_always_empty),
        draw(st.sampled_from([-1, 1, 300])),
        draw(st.sampled_from([0, 0, 0, 1, 2])),
        draw(st.integers(0, 9)),
        draw(st.integers(0, 9)),
    )
    if version >= 1:
        count = draw(st.sampled_from([len(record.replicas), len(record.replicas), 0, 2]))
        record.directories = [TOPIC] * count
    if version >= 2:
        record.eligible_leader_replicas, record.last_known_elr = draw(rarely), draw(rarely)
    record.original_replicas = draw(rarely)
    return encode_record(record, version)


frames = st.builds(encode_record, changes_of_partitions, st.just(2)) | new_partitions()


def image() -> ClusterImage:
    found = ClusterImage()
    found.apply(TopicRecord("a", TOPIC), [])
    found.apply(PartitionRecord(0, TOPIC, [1, 2, 3], [1, 2, 3], [], [], 1, 0, 5, 7), [])
    return found


def partitions(subject: ClusterImage) -> dict[PartitionId, Partition]:
    topic = subject.topics[TOPIC]
    return {PartitionId(TOPIC, number): partition for number, partition in topic.partitions.items()}


def decoded(subject: ClusterImage, frame: bytes, changes: list[UndoEntry]) -> str:
    """Decode and apply the frame; return the error."""
    try:
        subject.apply(decode_record(frame), changes, frame)
    except (MalformedMessage, UnsupportedVersion) as error:
        return str(error)
    return ""


def applied(subject: ClusterImage, frame: bytes, changes: list[UndoEntry]) -> str:
    """Apply the frame as a follower does; return the error."""
    try:
        done = apply_frame(subject, frame, changes)
    except MalformedMessage as error:
        return str(error)
    return "" if done else decoded(subject, frame, changes)


def loaded(subject: ClusterImage, loader: PartitionLoader, frame: bytes) -> str:
    """Apply the frame as a node does that loads a snapshot; return the error."""
    try:
        done = loader.load(frame)
    except MalformedMessage as error:
        return str(error)
    return "" if done else decoded(subject, frame, [])


def state(subject: ClusterImage) -> tuple[object, ...]:
    index = subject.index
    return (
        subject.fingerprint(),
        subject.hash,
        index.leader_counts,
        [list(index.partitions_with_broker(broker)) for broker in range(5)],
        (index.leaderless, index.with_elr, index.rebalance_candidates, index.imbalanced_count),
        (index.reassigning, index.partition_count),
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


@given(st.lists(frames, min_size=1, max_size=6))
def test_loaded_frame_equals_the_applied_record(written: list[bytes]) -> None:
    expected, subject = image(), image()
    loader = PartitionLoader(subject)
    for frame in written:
        assert loaded(subject, loader, frame) == decoded(expected, frame, [])
    assert state(subject) == state(expected)
    for tp, partition in partitions(subject).items():
        assert (partition.id, partition.row) == (tp, partitions(expected)[tp].row)


@given(frames, st.data())
def test_damaged_frame_has_the_same_outcome(frame: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(frame) - 1))
    damaged = data.draw(
        st.sampled_from(
            [
                frame[:position],
                frame + b"\0",
                frame[:position] + bytes([data.draw(st.integers(0, 255))]) + frame[position + 1 :],
            ]
        )
    )
    expected, followed, read = image(), image(), image()
    outcome = decoded(expected, damaged, [])
    assert applied(followed, damaged, []) == loaded(read, PartitionLoader(read), damaged) == outcome
    assert state(followed) == state(read) == state(expected)


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


def test_partition_is_loaded_without_decoding_unless_it_exists_or_a_transaction_is_open() -> None:
    new = PartitionRecord(1, TOPIC, [1, 2, 3], [2, 3], [], [], 2, 0, 5, 7, [TOPIC, OTHER, TOPIC])
    frame = encode_record(new, 2)
    subject = image()
    loader = PartitionLoader(subject)
    assert loader.load(frame)
    assert not loader.load(frame)
    partition = subject.topics[TOPIC].partitions[1]
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2, 3), (2, 3), 2)
    assert (partition.leader_epoch, partition.partition_epoch) == (5, 7)
    assert partition.directories == (TOPIC, OTHER, TOPIC)
    follower = image()
    assert apply_frame(follower, frame, [])
    assert state(follower) == state(subject)
    subject.apply(BeginTransactionRecord(None), [])
    new.partition_id = 2
    assert not loader.load(encode_record(new, 2))


def test_partitions_of_a_removed_topic_are_not_loaded() -> None:
    frame = encode_record(PartitionRecord(1, TOPIC, [1], [1], [], [], 1, 0, 5, 7), 2)
    subject = image()
    loader = PartitionLoader(subject)
    assert loader.load(frame)
    removal = encode_record(RemoveTopicRecord(TOPIC), 0)
    assert not loader.load(removal)
    subject.apply(decode_record(removal), [])
    assert not loader.load(frame)
    assert state(subject) == state(ClusterImage())


def test_unusual_partitions_have_to_be_decoded() -> None:
    new = PartitionRecord(1, TOPIC, [1, 2, 3], [2, 3], [], [], 2, 0, 5, 7, [TOPIC] * 3)
    frame = encode_record(new, 2)
    new.directories = [TOPIC] * 32
    many_directories = encode_record(new, 2)
    new.directories, new.eligible_leader_replicas = [TOPIC] * 3, [1]
    with_elr = encode_record(new, 2)
    new.eligible_leader_replicas, new.adding_replicas = None, [3]
    reassigned = encode_record(new, 2)
    unknown_version = frame[:2] + b"\x03" + frame[3:]
    subject = image()
    before, loader = state(subject), PartitionLoader(subject)
    for unusual in (many_directories, with_elr, reassigned, unknown_version, frame[:30], frame[:-20]):
        assert not loader.load(unusual)
        assert not apply_frame(subject, unusual, [])
    assert state(subject) == before
