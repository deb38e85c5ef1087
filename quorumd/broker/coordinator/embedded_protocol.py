"""The consumer protocol that is embedded in JoinGroup and SyncGroup: subscriptions and assignments of consumers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from quorumd.broker.coordinator.consumer_group import Assignment, by_topic
from quorumd.broker.coordinator.topics import Topics
from quorumd.errors import MalformedMessage
from quorumd.protocol.codec import decode_prefix, encode_into
from quorumd.protocol.messages import consumer_protocol_assignment as assignments
from quorumd.protocol.messages import consumer_protocol_subscription as subscriptions
from quorumd.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from quorumd.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from quorumd.protocol.wire import Message

VERSION_BYTES = 2
M = TypeVar("M", bound=Message)


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Return the subscription in the metadata of a member. Raises QuorumdError if there is none."""
    return _decode(ConsumerProtocolSubscription, metadata)


def decode_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Return the assignment in a SyncGroup message. Raises QuorumdError if there is none."""
    return _decode(ConsumerProtocolAssignment, assignment)


def encode_assignment(assignment: Assignment, metadata: bytes, topics: Topics) -> bytes:
    """Encode the assignment of a member in the version of its metadata; deleted topics are left out."""
    version = _version(ConsumerProtocolAssignment, metadata)
    out = bytearray(version.to_bytes(VERSION_BYTES, "big"))
    named = [(topics.name(topic_id), numbers) for topic_id, numbers in by_topic(assignment)]
    assigned = [assignments.TopicPartition(name, numbers) for name, numbers in named if name is not None]
    encode_into(ConsumerProtocolAssignment(assigned), version, out)
    return bytes(out)


def partitions_of(
    listed: Iterable[assignments.TopicPartition | subscriptions.TopicPartition], topics: Topics
) -> Assignment:
    """Return partitions by topic id; partitions of deleted topics are left out."""
    found = [(topics.partitions(topic.topic), topic.partitions) for topic in listed]
    return frozenset((known[0], number) for known, numbers in found if known for number in numbers)


def _decode(kind: type[M], data: bytes) -> M:
    return decode_prefix(kind, _version(kind, data), data, VERSION_BYTES)[0]


def _version(kind: type[Message], data: bytes) -> int:
    """Return the version of the data, or the highest known one if it is later: later versions only add fields."""
    if len(data) < VERSION_BYTES:
        raise MalformedMessage(f"{kind.NAME} of {len(data)} bytes has no version")
    return min(int.from_bytes(data[:VERSION_BYTES], "big"), kind.MAX_VERSION)
