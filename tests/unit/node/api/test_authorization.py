from __future__ import annotations

import pytest

from quorumd.broker.api.rights import Close, Extend
from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode
from quorumd.node.api.authorization import ExtendedSession, RequestAuthorization
from quorumd.node.sessions.router import Route
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest
from quorumd.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from quorumd.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.vote_request import VoteRequest
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.routes import SlicedTask
from quorumd.protocol.wire import Message
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


@pytest.mark.parametrize(
    ("message", "version", "error"),
    [
        (DeleteTopicsRequest([], ["orders"], 0), 5, ErrorCode.UNKNOWN_SERVER_ERROR),
        (FindCoordinatorRequest("orders", 0), 3, ErrorCode.UNKNOWN_SERVER_ERROR),
        (MetadataRequest(None), 13, ErrorCode.UNKNOWN_SERVER_ERROR),
        (MetadataRequest(None), 12, None),
    ],
)
def test_malformed_response_of_another_node_is_an_error(
    message: Message, version: int, error: ErrorCode | None
) -> None:
    """Without an error in the response of its API the connection is closed: an empty response would mean success."""
    session, extended = RecordingSession(), []
    ExtendedSession(session, Extend(extended.append)).respond_encoded(request_of(message, version), b"\xff")
    assert extended == []
    assert [error for each in session.responses for error, _ in errors_in(each)] == ([error] if error else [])
    assert session.is_closed == (error is None)


@pytest.mark.parametrize("is_leader", [True, False])
def test_only_the_leader_decides_about_requests_that_are_forwarded_to_it(is_leader: bool) -> None:
    authorization = RequestAuthorization(
        authorizer_of(), ClusterImage, ScriptedRole(lambda: is_leader), NodeStatistics(), begin
    )
    served: list[int] = []
    session = RecordingSession()
    session.origin.principal = "User:stranger"
    for message, version in ((DescribeQuorumRequest([]), 2), (VoteRequest(), 2)):
        route = Route(type(message), lambda session, request: served.append(request.api_key))
        (guarded,) = authorization.guard([route])
        guarded.handler(session, request_of(message, version))
    assert ApiKey.VOTE not in served
    assert (ApiKey.DESCRIBE_QUORUM in served) is not is_leader


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


def test_refused_request_without_a_response_closes_the_connection() -> None:
    """As Produce with acks=0: the client learns it by no other means."""
    authorization = RequestAuthorization(
        authorizer_of(), ClusterImage, ScriptedRole(lambda: True), NodeStatistics(), begin
    )
    served: list[int] = []
    route = Route(MetadataRequest, lambda session, request: served.append(request.api_key))
    (guarded,) = authorization.guard([route], {ApiKey.METADATA: lambda check: Close()})
    session = RecordingSession()
    guarded.handler(session, request_of(MetadataRequest(None), 13))
    assert (served, session.responses, session.is_closed) == ([], [], True)
