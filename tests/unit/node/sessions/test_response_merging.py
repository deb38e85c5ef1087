"""The responses to the parts of a request become one response."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.node.broker.large_requests import BROKER_SPLIT_RULES
from quorumd.node.sessions.request_splitting import RequestPart
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.offset_fetch_request import OffsetFetchRequest
from quorumd.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from tests.support.node.merged import merge


@pytest.mark.parametrize("failed", [0, 1])
def test_group_that_fails_in_one_of_its_parts_has_one_result_with_the_error(failed: int) -> None:
    rule = BROKER_SPLIT_RULES[ApiKey.OFFSET_FETCH][0]
    topic = OffsetFetchResponseTopics("t")
    responses = [
        OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", [topic], 0)]),
        OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup("g", [topic], 0), OffsetFetchResponseGroup("h")]
        ),
    ]
    responses[failed].groups[0] = OffsetFetchResponseGroup("g", [], ErrorCode.NOT_COORDINATOR)
    parts = [RequestPart(OffsetFetchRequest()), RequestPart(OffsetFetchRequest(), 2)]
    whole: Any = merge(rule, parts, responses)
    assert [(each.group_id, each.error_code) for each in whole.groups] == [
        ("g", ErrorCode.NOT_COORDINATOR),
        ("h", 0),
    ]
