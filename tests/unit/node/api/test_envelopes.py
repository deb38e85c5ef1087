"""The leader's side of forwarding: requests in envelopes."""

from __future__ import annotations

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint
from quorumd.node.api.authorization import RequestAuthorization
from quorumd.node.api.envelopes import EnvelopeApis
from quorumd.node.api.error_responses import ENVELOPE_APIS, error_response
from quorumd.node.api.forwarding import RETRY_MS
from quorumd.node.settings import NodeSettings
from quorumd.protocol.apis import APIS, request_class
from quorumd.protocol.connection import ClientConnection, Request, encode_response
from quorumd.protocol.messages import (
    describe_configs_response,
)
from quorumd.protocol.messages.envelope_request import EnvelopeRequest
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.routes import Route, Session
from quorumd.protocol.wire import Message
from quorumd.security.acls import Operation
from quorumd.security.authorizer import Authorizer
from quorumd.security.forwarded_principals import deserialize, serialize
from tests.support.node.api_harness import ApiHarness
from tests.support.node.forwarding import SPOKEN, FollowerHarness, as_received, read, success, write
from tests.support.node.recording_session import RecordingSession, request_of
from tests.support.node.sample_requests import full_request
from tests.support.security.rights import authorizer_of, on_cluster


@pytest.fixture
def follower() -> FollowerHarness:
    return FollowerHarness()


class LeaderHarness(ApiHarness):
    def __init__(self, is_leader: bool = True, private_apis: bool = True) -> None:
        endpoint = Endpoint("CONTROLLER", "here", 9092)
        settings = NodeSettings(2, "/data", endpoint, endpoint, private_apis=private_apis)
        super().__init__(slice_partitions=10, settings=settings)
        self.is_leader = is_leader
        self.principal = serialize("User:alice", True)
        self.address = bytes([192, 0, 2, 9])
        self.routed: list[tuple[Session, Request[Message]]] = []
        router = self.context.gates.router
        router.add(
            Route(request_class(key), lambda session, request: self.routed.append((session, request)))
            for key in APIS
        )
        self.envelopes = EnvelopeApis(self.context)

    def receive(self, data: bytes, client_id: str | None = "101", is_checked: bool = False) -> None:
        envelope = EnvelopeRequest(data, self.principal, self.address, is_checked)
        self.envelopes.envelope(self.session, request_of(envelope, 0, 99, client_id))

    def outcome(self) -> tuple[int, bytes | None]:
        (response,) = self.session.responses
        return response.error_code, response.response_data


def test_envelope_is_unwrapped_and_its_response_wrapped() -> None:
    leader, request = LeaderHarness(), write()
    leader.receive(request.frame)
    ((session, inner),) = leader.routed
    assert (inner.api_key, inner.api_version, inner.correlation_id) == (44, 1, 2)
    assert session.origin.is_controller_client, "it must not be forwarded again"
    session.respond(inner, success(inner))
    assert leader.outcome() == (0, encode_response(request, success(request)))


@pytest.mark.parametrize(
    ("private_apis", "error"), [(True, ErrorCode.NONE), (False, ErrorCode.INVALID_REQUEST)]
)
def test_only_leaders_of_quorumd_accept_descriptions_of_configs(private_apis: bool, error: ErrorCode) -> None:
    leader = LeaderHarness(private_apis=private_apis)
    leader.receive(read().frame)
    assert [response.error_code for response in leader.session.responses] == [error][: not private_apis]
    assert len(leader.routed) == private_apis


@pytest.mark.parametrize(
    ("client_id", "is_broker"), [("101", True), (None, True), ("quorumd-2", False), ("quorumd-101", False)]
)
def test_only_envelopes_of_brokers_count_as_authorized_by_a_broker(
    client_id: str | None, is_broker: bool
) -> None:
    """Nodes of the quorum forward requests of any client."""
    leader = LeaderHarness()
    leader.receive(write().frame, client_id)
    assert leader.routed[0][0].origin.comes_from_broker is is_broker


def test_request_that_a_broker_of_quorumd_has_checked_counts_as_authorized_by_it(
    follower: FollowerHarness,
) -> None:
    follower.session.origin.comes_from_broker = True
    follower.forwarder.forward(follower.session, write())
    assert follower.leader_calls[0].build(0).is_checked
    leader = LeaderHarness()
    leader.receive(write().frame, "quorumd-2", is_checked=True)
    assert leader.routed[0][0].origin.comes_from_broker


def test_envelope_holds_the_principal_of_the_client(follower: FollowerHarness) -> None:
    follower.session.origin.principal, follower.session.origin.token_authenticated = "User:CN=a:b,O=c", True
    follower.forwarder.forward(follower.session, write())
    principal = follower.leader_calls[0].build(0).request_principal
    assert principal[:2] == bytes(2)
    assert deserialize(principal) == ("User:CN=a:b,O=c", True)


def test_request_in_an_envelope_belongs_to_the_client_inside() -> None:
    leader = LeaderHarness()
    leader.receive(write().frame)
    ((session, _),) = leader.routed
    assert (session.origin.principal, session.origin.token_authenticated, session.origin.host) == (
        "User:alice",
        True,
        "192.0.2.9",
    )
    assert not session.origin.is_internal


@pytest.mark.parametrize(
    "principal",
    [b"", b"\x00", b"\x00\x01" + bytes(4), bytes(2), serialize("alice", False)[:-1], serialize(":a", False)],
)
def test_unreadable_principal_is_an_error_of_the_envelope(principal: bytes) -> None:
    leader = LeaderHarness()
    leader.principal = principal
    leader.receive(write().frame)
    assert leader.outcome() == (ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, None)
    assert leader.routed == []


def test_envelope_without_an_address_is_refused() -> None:
    leader = LeaderHarness()
    leader.address = b"\x01"
    leader.receive(write().frame)
    assert leader.outcome() == (ErrorCode.INVALID_REQUEST, None)


def gate_of(leader: LeaderHarness, authorizer: Authorizer) -> RequestAuthorization:
    begin = leader.context.execution.scheduler.begin
    role = leader.context.quorum.role
    return RequestAuthorization(authorizer, lambda: leader.image, role, leader.statistics, begin)


def test_envelopes_need_cluster_action() -> None:
    leader = LeaderHarness()
    decider = authorizer_of([on_cluster(Operation.CLUSTER_ACTION)])
    for session, is_allowed in ((leader.session, False), (RecordingSession(), True)):
        session.origin.principal = "User:alice" if is_allowed else "User:bob"
        gate = gate_of(leader, decider)
        (route,) = gate.guard(leader.envelopes.routes())
        envelope = EnvelopeRequest(write().frame, leader.principal, leader.address)
        route.handler(session, request_of(envelope, 0, 99, "101"))
    assert leader.outcome() == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    assert len(leader.routed) == 1


def test_envelopes_of_this_process_need_no_rights() -> None:
    leader = LeaderHarness()
    gate = gate_of(leader, authorizer_of())
    (route,) = gate.guard(leader.envelopes.routes())
    session = RecordingSession()
    session.origin.is_internal = True
    route.handler(session, request_of(EnvelopeRequest(write().frame, leader.principal, leader.address), 0))
    ((inner_session, _),) = leader.routed
    assert not inner_session.origin.is_internal, "the client inside needs its own rights"


def test_follower_reports_not_controller_in_the_envelope() -> None:
    """Stock brokers read the error code of the envelope and expect no data with it."""
    leader = LeaderHarness(is_leader=False)
    leader.receive(write().frame)
    assert leader.outcome() == (ErrorCode.NOT_CONTROLLER, None)
    assert leader.routed == []


def test_deposed_leader_reports_not_controller_in_the_envelope() -> None:
    leader = LeaderHarness()
    leader.receive(read().frame)
    ((session, inner),) = leader.routed
    session.respond_not_leader(inner, error_response(inner, ErrorCode.NOT_CONTROLLER))
    assert leader.outcome() == (ErrorCode.NOT_CONTROLLER, None)


def test_closing_the_inner_session_closes_the_connection_of_the_envelope() -> None:
    leader = LeaderHarness()
    leader.receive(write().frame)
    ((session, _),) = leader.routed
    session.close()
    assert leader.session.is_closed


def test_unencodable_response_is_an_error_of_the_envelope() -> None:
    leader = LeaderHarness()
    leader.receive(read(1).frame)
    ((session, inner),) = leader.routed
    wire = describe_configs_response
    session.respond(
        inner, wire.DescribeConfigsResponse(0, [wire.DescribeConfigsResult(0, None, 32, "g" * 40_000)])
    )
    assert leader.outcome() == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


@pytest.mark.parametrize("data", [b"", b"\x00", write().frame[:-1], b"\x27\x0f" + write().frame[2:]])
def test_malformed_request_is_an_unsupported_version(data: bytes) -> None:
    leader = LeaderHarness()
    leader.receive(data)
    assert leader.outcome() == (ErrorCode.UNSUPPORTED_VERSION, None)
    assert leader.routed == []


def test_envelope_of_an_api_that_is_not_forwardable_is_rejected() -> None:
    leader = LeaderHarness()
    inner = as_received(EnvelopeRequest(b"", b"", bytes(4)), 0)
    leader.receive(inner.frame)
    assert leader.outcome() == (ErrorCode.INVALID_REQUEST, None)


@pytest.mark.parametrize("api_key", sorted(ENVELOPE_APIS))
def test_every_forwardable_api_can_encode_an_error_response(api_key: int) -> None:
    for version in range(SPOKEN[api_key][0], SPOKEN[api_key][1] + 1):
        for error in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR):
            request = as_received(full_request(api_key, version), version)
            assert encode_response(request, error_response(request, error))


def test_waiting_request_is_handled_locally_when_this_node_becomes_leader(
    follower: FollowerHarness,
) -> None:
    follower.has_leader = False
    request = write(1)
    follower.forwarder.forward(follower.session, request)
    follower.leads = True
    follower.time.pass_ms(RETRY_MS)
    assert follower.handled == [request]
    assert follower.leader_calls == []
    assert follower.session.responses == []


@pytest.mark.parametrize("is_cut", [False, True])
def test_large_request_in_an_envelope_is_decoded_in_slices(is_cut: bool) -> None:
    leader = LeaderHarness()
    resources = [AlterConfigsResource(2, f"topic-{number}") for number in range(2000)]
    message = IncrementalAlterConfigsRequest(resources)
    _, data = ClientConnection("client").request(message, 1)
    leader.receive(data[4 : -1 if is_cut else None])
    assert leader.session.held
    assert leader.routed == []
    while leader.turns:
        leader.turns.pop(0)()
    if is_cut:
        (response,) = leader.session.responses
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    else:
        ((_, inner),) = leader.routed
        assert inner.message == message
