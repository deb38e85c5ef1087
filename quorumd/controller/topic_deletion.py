"""DeleteTopics (KIP-4, KIP-516): by name, or by id from v6 on.

A topic is removed by one record, which every reader of the log applies to its partitions and configs too.
"""

from __future__ import annotations

from quorumd.controller.cluster_image import ClusterImage, Topic
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.new_partitions import take_quota, too_large
from quorumd.controller.request_context import NO_CONTEXT, RequestContext
from quorumd.errors import ErrorCode, RequestError
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from quorumd.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.record_batch import RECORD_FRAMING_BYTES

TopicName = tuple[str | None, KafkaUuid]
"""How a request refers to a topic: (name, zero UUID) or (None, id)."""

_REMOVAL_BYTES = RECORD_FRAMING_BYTES + 20


def plan_delete_topics(
    controller: Controller,
    message: DeleteTopicsRequest,
    version: int,
    context: RequestContext = NO_CONTEXT,
) -> ControllerResult:
    """Plan each topic separately; all valid deletions form one atomic batch."""
    del version
    named = [as_named(each) for each in message.topic_names]
    named += [as_named(each) for each in message.topics]
    mentions = _count_mentions(controller.image, named)
    estimated_bytes = len(named) * _REMOVAL_BYTES
    records: list[RemoveTopicRecord] = []
    results: list[DeletableTopicResult] = []
    for name, topic_id in dict.fromkeys(named):
        try:
            topic = _find_topic(controller.image, name, topic_id)
            if mentions[topic.id] > 1:
                raise RequestError(ErrorCode.INVALID_REQUEST, "Duplicate topic in the request.")
            if estimated_bytes > controller.settings.max_batch_bytes:
                raise too_large(estimated_bytes, controller.settings.max_batch_bytes)
            take_quota(context.quota, len(topic.partitions))
            records.append(RemoveTopicRecord(topic.id))
            results.append(DeletableTopicResult(topic.name, topic.id))
        except RequestError as error:
            results.append(DeletableTopicResult(name, topic_id, int(error.error), str(error)))
    return ControllerResult(records, DeleteTopicsResponse(0, results))


def as_named(requested: str | DeleteTopicState) -> TopicName:
    """Return the name or id by which the request refers to a topic; both if it wrongly has both."""
    return (requested, ZERO_UUID) if isinstance(requested, str) else (requested.name, requested.topic_id)


def named_topic(image: ClusterImage, requested: str | DeleteTopicState) -> Topic | None:
    """Return the named topic, None if it does not exist."""
    name, topic_id = as_named(requested)
    return image.topic_by_name(name) if name is not None else image.topics.get(topic_id)


def _count_mentions(image: ClusterImage, named: list[TopicName]) -> dict[KafkaUuid, int]:
    """Count how often the request refers to each topic, by name or id."""
    mentions: dict[KafkaUuid, int] = {}
    for name, topic_id in named:
        topic_uuid = image.topic_ids.get(name) if name is not None else topic_id
        if topic_uuid is not None:
            mentions[topic_uuid] = mentions.get(topic_uuid, 0) + 1
    return mentions


def _find_topic(image: ClusterImage, name: str | None, topic_id: KafkaUuid) -> Topic:
    if name is not None and topic_id != ZERO_UUID:
        raise RequestError(ErrorCode.INVALID_REQUEST, "A topic name cannot be combined with a topic id.")
    if name is not None:
        topic = image.topic_by_name(name)
        if topic is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic does not exist.")
        return topic
    if topic_id == ZERO_UUID:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Either a topic name or a topic id is required.")
    topic = image.topics.get(topic_id)
    if topic is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, "No topic has this id.")
    return topic
