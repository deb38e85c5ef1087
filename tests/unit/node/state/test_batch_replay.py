from __future__ import annotations

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.ids import KafkaUuid
from quorumd.node.state.batch_replay import apply_steps
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch
from quorumd.protocol.wire import Message

IDS = [KafkaUuid(bytes([number] * 16)) for number in (1, 2, 3)]
CREATIONS: list[Message] = [TopicRecord(str(topic_id), topic_id) for topic_id in IDS]
REMOVALS: list[Message] = [RemoveTopicRecord(topic_id) for topic_id in IDS]


def steps_of(image: ClusterImage, records: list[Message], changes: list[UndoEntry]) -> list[int]:
    """The number of records of each step of at most two."""
    data = encode_batch(0, 1, 0, [encode_record(record, 0) for record in records])
    (header,) = headers(data)
    return list(apply_steps(image, data, header, changes, 2))


def test_step_ends_at_the_removal_of_a_topic() -> None:
    image = ClusterImage()
    assert steps_of(image, CREATIONS, []) == [2, 1]
    changes: list[UndoEntry] = []
    assert steps_of(image, [*REMOVALS, NoOpRecord(), NoOpRecord(), NoOpRecord()], changes) == [1, 1, 1, 2, 1]
    assert image.topics == {}
    undo(reversed(changes))
    assert sorted(image.topics) == IDS
