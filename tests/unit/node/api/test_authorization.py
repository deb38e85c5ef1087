from __future__ import annotations

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode
from quorumd.node.api.authorization import RequestAuthorization
from quorumd.node.sessions.router import Route
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from quorumd.protocol.routes import SlicedTask
from quorumd.security.acls import AclIndex
from quorumd.security.authorizer import Authorizer, AuthorizerSettings
from tests.support.node.recording_session import RecordingSession, request_of
from tests.support.node.scripted_role import ScriptedRole
from tests.support.security.rights import authorizer_of


def begin(task: SlicedTask) -> None:
    """Run a task at once."""
    while not task.is_done:
        task.advance(1)


def test_api_without_a_rule_is_not_served() -> None:
    authorization = RequestAuthorization(
        authorizer_of(), ClusterImage, ScriptedRole(lambda: True), NodeStatistics(), begin
    )
    route = Route(DescribeQuorumRequest, lambda session, request: None)
    with pytest.raises(KeyError):
        authorization.guard([route], {})
    assert len(list(authorization.guard([route]))) == 1


def test_request_before_the_acls_are_loaded_gets_an_error() -> None:
    authorizer = Authorizer(
        AuthorizerSettings(frozenset({"User:admin"})), AclIndex, lambda: False, lambda: 0.0
    )
    authorization = RequestAuthorization(
        authorizer, ClusterImage, ScriptedRole(lambda: True), NodeStatistics(), begin
    )
    served: list[str] = []
    route = Route(DescribeQuorumRequest, lambda session, request: served.append(session.origin.principal))
    (guarded,) = authorization.guard([route])
    sessions = {}
    for principal in ("User:alice", "User:admin"):
        sessions[principal] = session = RecordingSession()
        session.origin.principal = principal
        guarded.handler(session, request_of(DescribeQuorumRequest([]), 2))
    assert served == ["User:admin"]
    assert [each.error_code for each in sessions["User:alice"].responses] == [ErrorCode.UNKNOWN_SERVER_ERROR]
