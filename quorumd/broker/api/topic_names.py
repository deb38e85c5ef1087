"""Looks up topics of requests that contain topic names in earlier versions and topic ids in later ones."""

from __future__ import annotations

from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid


def topic_name(image: ClusterImage, name: str, topic_id: KafkaUuid, by_id: bool) -> str | None:
    """Return the name of a topic, None if it does not exist."""
    if by_id:
        topic = image.topics.get(topic_id)
        return None if topic is None else topic.name
    return name if name in image.topic_ids else None


def unknown_topic_error(by_id: bool) -> ErrorCode:
    """Return the error for an unknown topic."""
    return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def has_partition(image: ClusterImage, topic: str, partition: int) -> bool:
    """Whether the topic exists and has the partition."""
    topic_id = image.topic_ids.get(topic)
    return topic_id is not None and partition in image.topics[topic_id].partitions
