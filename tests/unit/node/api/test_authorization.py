from __future__ import annotations

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.node.api.authorization import RequestAuthorization
from quorumd.node.sessions.router import Route
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from tests.support.node.scripted_role import ScriptedRole
from tests.support.security.rights import authorizer_of


def test_api_without_a_rule_is_not_served() -> None:
    authorization = RequestAuthorization(
        authorizer_of(), ClusterImage, ScriptedRole(lambda: True), NodeStatistics()
    )
    route = Route(DescribeQuorumRequest, lambda session, request: None)
    with pytest.raises(KeyError):
        authorization.guard([route], {})
    assert len(list(authorization.guard([route]))) == 1
