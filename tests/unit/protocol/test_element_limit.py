"""However many small elements a message has, decoding it takes at most 4 x its size and 16 MiB (found by fuzzing)."""

from __future__ import annotations

import tracemalloc

import pytest

from quorumd.errors import MalformedMessage
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages.alter_configs_request import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from quorumd.protocol.messages.vote_request import TopicData, VoteRequest
from quorumd.protocol.primitives import ALWAYS_ALLOWED_ELEMENTS
from tests.fuzz.messages import crowded
from tests.support.message_strategies import all_versions, message_class

NEWEST = dict(all_versions())


@pytest.mark.parametrize(
    "name", ["VoteRequest", "AlterConfigsRequest", "MetadataResponse", "DescribeConfigsResponse"]
)
def test_as_many_as_are_always_allowed_take_little_memory(name: str) -> None:
    decoder, version = message_class(name), NEWEST[name]
    for message in crowded(name, version, ALWAYS_ALLOWED_ELEMENTS - 100):
        data = encode(message, version)
        tracemalloc.start()
        try:
            decode(decoder, version, data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= 4 * len(data) + (16 << 20)


def test_more_must_come_with_bytes_that_justify_them() -> None:
    few = encode(VoteRequest(topics=[TopicData("")] * (ALWAYS_ALLOWED_ELEMENTS + 1)), 2)
    assert len(decode(VoteRequest, 2, few).topics) == ALWAYS_ALLOWED_ELEMENTS + 1
    many = encode(VoteRequest(topics=[TopicData("")] * 2 * ALWAYS_ALLOWED_ELEMENTS), 2)
    with pytest.raises(MalformedMessage, match=r"80000 array elements in .* bytes are too many"):
        decode(VoteRequest, 2, many)
    real = encode(VoteRequest(topics=[TopicData("a" * 140)] * 2 * ALWAYS_ALLOWED_ELEMENTS), 2)
    assert len(decode(VoteRequest, 2, real).topics) == 2 * ALWAYS_ALLOWED_ELEMENTS


def test_arrays_within_arrays_count_together() -> None:
    config = AlterableConfig("a", "b")
    for others, is_allowed in ((200, True), (400, False)):
        message = AlterConfigsRequest([AlterConfigsResource(32, "g", [config] * 200)] * others)
        if is_allowed:
            assert decode(AlterConfigsRequest, 2, encode(message, 2)) == message
        else:
            with pytest.raises(MalformedMessage, match="array elements"):
                decode(AlterConfigsRequest, 2, encode(message, 2))
