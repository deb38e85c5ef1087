"""The memory of decoded messages that decoders estimate, compared with what the allocator counts."""

from __future__ import annotations

import tracemalloc

import pytest

from quorumd.protocol.codec import decode_in_steps, decode_prefix, encode
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from quorumd.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from quorumd.protocol.wire import Message

NUMBERS = list(range(1_000_000, 1_005_000))
FETCHED = [FetchPartition(number, 1000, number, partition_max_bytes=1 << 20) for number in NUMBERS]


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (CreateTopicsRequest([CreatableTopic("") for _ in NUMBERS]), 7),
        (FetchRequest(topics=[FetchTopic("t", partitions=FETCHED)]), 12),
        (ListPartitionReassignmentsRequest(0, [ListPartitionReassignmentsTopics("t", NUMBERS)]), 0),
    ],
    ids=["topics", "partitions", "numbers"],
)
def test_estimate_is_close_to_the_memory(message: Message, version: int) -> None:
    data = encode(message, version)
    tracemalloc.start()
    try:
        decoded, _, estimated = decode_prefix(type(message), version, data)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoded == message
    # Compiled messages take less: they store small numbers without objects.
    assert used / 2 <= estimated <= 3 * used


def test_memory_of_an_array_is_known_at_its_first_element() -> None:
    message = CreateTopicsRequest([CreatableTopic("") for _ in range(10)])
    data = encode(message, 7)
    _, _, estimated = decode_prefix(CreateTopicsRequest, 7, data)
    assert estimated > 0
    assert next(decode_in_steps(CreateTopicsRequest, 7, data, 0)) == estimated


def test_message_without_lists_needs_no_more() -> None:
    assert decode_prefix(ApiVersionsRequest, 0, b"") == (ApiVersionsRequest(), 0, 0)
