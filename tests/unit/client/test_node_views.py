"""The view of each node, from nodes that describe themselves and from those that refuse to."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.client.cluster_client import describe_error
from quorumd.client.node_views import node_views
from quorumd.errors import ErrorCode
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.describe_node_response import DescribeNodeResponse
from quorumd.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from quorumd.protocol.wire import Message
from tests.support.client.fake_node import ALL_APIS, FakeNode

DENIED = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def refuse(request: Request[Message]) -> Message:
    if request.api_key == ApiKey.DESCRIBE_NODE:
        return DescribeNodeResponse(DENIED)
    return DescribeQuorumResponse(DENIED)


@pytest.mark.asyncio
@pytest.mark.usefixtures("patient_time")
@pytest.mark.parametrize("is_stock", [False, True])
async def test_node_that_refuses_has_no_view(is_stock: bool) -> None:
    known: Any = {key: each for key, each in ALL_APIS.items() if not is_stock or key != ApiKey.DESCRIBE_NODE}
    async with FakeNode(refuse, known) as node:
        (view,) = await node_views([node.address], 60_000)
    assert view.description is None
    assert "CLUSTER_AUTHORIZATION_FAILED" in view.failure


def test_name_of_an_error_is_not_its_own_explanation() -> None:
    name = ErrorCode.describe(DENIED)
    assert describe_error(DENIED, name).count(name) == 1
    assert describe_error(DENIED, "text") == f"{name}: text"
