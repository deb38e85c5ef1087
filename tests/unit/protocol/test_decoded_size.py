"""Estimates of the memory of decoded messages, compared with what the allocator counts."""

from __future__ import annotations

import tracemalloc

import pytest

from quorumd.protocol.codec import decode, encode
from quorumd.protocol.decoded_size import decoded_size
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from quorumd.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from quorumd.protocol.wire import Message

NUMBERS = list(range(1_000_000, 1_005_000))
FETCHED = [FetchPartition(number) for number in NUMBERS]


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
        decoded = decode(type(message), version, data)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / 2 <= decoded_size(decoded) <= 2 * used


def test_message_without_lists_needs_no_more() -> None:
    assert decoded_size(ApiVersionsRequest()) == 0
