"""A response that is encoded piece by piece has the same bytes as one that is encoded at once."""

from __future__ import annotations

import pytest

from quorumd.protocol.connection import encode_response
from quorumd.protocol.encoded_items import EncodedItems
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest
from quorumd.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.support.node.recording_session import request_of

VERSIONS = range(DescribeConfigsResponse.MIN_VERSION, DescribeConfigsResponse.MAX_VERSION + 1)


def result(number: int) -> DescribeConfigsResult:
    return DescribeConfigsResult(0, None, 2, f"t{number}", [DescribeConfigsResourceResult("a", str(number))])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("pieces", [(0,), (1,), (3, 0, 2), (200, 127, 128)])
def test_pieces_have_the_bytes_of_the_whole(version: int, pieces: tuple[int, ...]) -> None:
    request = request_of(DescribeConfigsRequest([]), version)
    encoded = EncodedItems(request, "results")
    for piece in pieces:
        encoded.add(DescribeConfigsResponse(7, [result(number) for number in range(piece)]))
    whole = [result(number) for piece in pieces for number in range(piece)]
    assert encoded.take_response() == encode_response(request, DescribeConfigsResponse(7, whole))
