"""DeleteTopics (KIP-4, KIP-516): by name, or by id from v6 on.

One record removes a topic; its partitions and configs go with it, in every reader of the log.
"""

from __future__ import annotations

from quorumd.controller.cluster_image import ClusterImage, Topic
from quorumd.controller.controller import Controller
from quorumd.controller.new_partitions import TopicRefused, too_large
from quorumd.controller.plan import Plan
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest
from quorumd.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.record_batch import RECORD_FRAMING_BYTES

Named = tuple[str | None, KafkaUuid]
"""How a request names a topic: by name, or by id."""

_REMOVAL_BYTES = RECORD_FRAMING_BYTES + 20


def plan_delete_topics(controller: Controller, message: DeleteTopicsRequest, version: int) -> Plan:
    """Remove topics, each by itself, all that can be in one atomic batch."""
    del version
    named: list[Named] = [(name, ZERO_UUID) for name in message.topic_names]
    named += [(topic.name, topic.topic_id) for topic in message.topics]
    times = _times_named(controller.image, named)
    room = len(named) * _REMOVAL_BYTES
    records: list[RemoveTopicRecord] = []
    results: list[DeletableTopicResult] = []
    for name, topic_id in dict.fromkeys(named):
        try:
            topic = _found(controller.image, name, topic_id)
            if times[topic.id] > 1:
                raise TopicRefused(ErrorCode.INVALID_REQUEST, "The topic is named twice in one request.")
            if room > controller.settings.max_batch_bytes:
                raise too_large(room, controller.settings.max_batch_bytes)
            records.append(RemoveTopicRecord(topic.id))
            results.append(DeletableTopicResult(topic.name, topic.id))
        except TopicRefused as refused:
            results.append(DeletableTopicResult(name, topic_id, int(refused.error), str(refused)))
    return Plan(records, DeleteTopicsResponse(0, results))


def _times_named(image: ClusterImage, named: list[Named]) -> dict[KafkaUuid, int]:
    """How often each topic is meant, by name or id."""
    times: dict[KafkaUuid, int] = {}
    for name, topic_id in named:
        meant = image.topic_ids.get(name) if name is not None else topic_id
        if meant is not None:
            times[meant] = times.get(meant, 0) + 1
    return times


def _found(image: ClusterImage, name: str | None, topic_id: KafkaUuid) -> Topic:
    if name is not None and topic_id != ZERO_UUID:
        raise TopicRefused(
            ErrorCode.INVALID_REQUEST, "A topic is named by its name or by its id, not by both."
        )
    if name is not None:
        topic = image.topic_named(name)
        if topic is None:
            raise TopicRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no topic of this name.")
        return topic
    if topic_id == ZERO_UUID:
        raise TopicRefused(ErrorCode.INVALID_REQUEST, "Neither the name nor the id of a topic is given.")
    topic = image.topics.get(topic_id)
    if topic is None:
        raise TopicRefused(ErrorCode.UNKNOWN_TOPIC_ID, "There is no topic of this id.")
    return topic
