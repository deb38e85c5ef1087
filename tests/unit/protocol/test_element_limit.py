"""Decoding takes bounded memory however many small elements a message has."""

from __future__ import annotations

import tracemalloc
from importlib import import_module

import pytest

from quorumd.errors import MessageTooLarge
from quorumd.protocol import primitives
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages import (
    alter_partition_reassignments_request,
    alter_partition_request,
    metadata_response,
    vote_request,
)
from quorumd.protocol.messages.vote_request import TopicData, VoteRequest
from quorumd.protocol.primitives import ALWAYS_ALLOWED_MEMORY
from quorumd.protocol.wire import Message
from tests.fuzz.messages import crowded
from tests.support.protocol.message_strategies import all_versions, message_class

LATEST_VERSION = dict(all_versions())
VOTE_TOPIC_BYTES = 185
"""The generator's estimate of the memory of one Vote topic."""
OTHER_MEMORY = 16 * 1024
"""Memory of a decoded message besides the elements of its arrays."""
SMALL_ALLOWANCE = 1024 * 1024
MOST_VOTE_TOPICS = SMALL_ALLOWANCE // VOTE_TOPIC_BYTES


@pytest.mark.stand_in
@pytest.mark.parametrize(
    "name",
    [
        "VoteRequest",
        "AlterConfigsRequest",
        "MetadataResponse",
        "DescribeConfigsResponse",
        "ProduceRequest",
        "JoinGroupRequest",
        "AddPartitionsToTxnRequest",
        "OffsetFetchResponse",
        "ConsumerGroupCurrentMemberAssignmentValue",
    ],
)
def test_decoded_messages_stay_within_the_estimate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, version = message_class(name), LATEST_VERSION[name]
    module = import_module(decoder.__module__)
    estimates: list[int] = []
    check = "check_response_memory" if name.endswith("Response") else "check_memory"
    monkeypatch.setattr(module, check, lambda buf, memory: estimates.append(memory))
    monkeypatch.setattr(module, "ALWAYS_ALLOWED_MEMORY", 0)
    for message in crowded(name, version, 1_500):
        data = encode(message, version)
        estimates.clear()
        tracemalloc.start()
        try:
            decode(decoder, version, data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= 1.25 * estimates[-1] + OTHER_MEMORY


@pytest.mark.stand_in
def test_element_counts_require_matching_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (primitives, vote_request):
        monkeypatch.setattr(module, "ALWAYS_ALLOWED_MEMORY", SMALL_ALLOWANCE)
    few = encode(VoteRequest(topics=[TopicData("")] * MOST_VOTE_TOPICS), 2)
    assert len(decode(VoteRequest, 2, few).topics) == MOST_VOTE_TOPICS
    many = encode(VoteRequest(topics=[TopicData("")] * 2 * MOST_VOTE_TOPICS), 2)
    with pytest.raises(MessageTooLarge, match=r"VoteRequest v2: "):
        decode(VoteRequest, 2, many)
    real = encode(VoteRequest(topics=[TopicData("a" * 140)] * 2 * MOST_VOTE_TOPICS), 2)
    assert len(decode(VoteRequest, 2, real).topics) == 2 * MOST_VOTE_TOPICS


@pytest.mark.parametrize(("beyond", "is_allowed"), [(0, True), (1, False)])
def test_bound_is_exact(beyond: int, is_allowed: bool) -> None:
    memory = ALWAYS_ALLOWED_MEMORY + 4 * 10 + beyond
    if is_allowed:
        primitives.check_memory(bytes(10), memory)
    else:
        with pytest.raises(MessageTooLarge):
            primitives.check_memory(bytes(10), memory)
    primitives.check_response_memory(bytes(10), memory)


def large_requests() -> list[Message]:
    altered, moved = alter_partition_request, alter_partition_reassignments_request
    in_sync = [altered.BrokerState(broker, 1 << 40) for broker in (1001, 1002, 1003)]
    partitions = [altered.PartitionData(number, 7, [], in_sync, 0, 9) for number in range(12_000)]
    targets = [moved.ReassignablePartition(number, [1001, 1002, 1003]) for number in range(11_000)]
    return [
        altered.AlterPartitionRequest(1001, 1 << 40, [altered.TopicData("", partitions=partitions)]),
        moved.AlterPartitionReassignmentsRequest(30_000, True, [moved.ReassignableTopic("large", targets)]),
    ]


@pytest.mark.parametrize("message", large_requests(), ids=lambda message: str(message.NAME))
def test_requests_about_a_large_topic_can_be_decoded(message: Message) -> None:
    version = message.MAX_VERSION
    assert decode(type(message), version, encode(message, version)) == message


def test_metadata_of_a_very_large_topic_can_be_decoded() -> None:
    """Its objects take more than ALWAYS_ALLOWED_MEMORY."""
    wire = metadata_response
    nodes = [1001, 1002, 1003]
    partitions = [wire.MetadataResponsePartition(0, n, 1001, 3, nodes, nodes, []) for n in range(50_000)]
    message = wire.MetadataResponse(topics=[wire.MetadataResponseTopic(0, "large", partitions=partitions)])
    assert decode(wire.MetadataResponse, 12, encode(message, 12)) == message
