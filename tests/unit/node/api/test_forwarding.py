from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.node.api.envelopes import EnvelopeApis
from quorumd.node.api.error_responses import FORWARDABLE, error_response
from quorumd.node.api.forwarding import LEADER_WAIT_MS, RETRY_MS, Forwarder
from quorumd.node.peers.connection import Call, Failure
from quorumd.node.sessions.router import Route
from quorumd.node.sessions.server_session import Session
from quorumd.protocol.apis import APIS, ApiKey, request_class
from quorumd.protocol.connection import ClientConnection, Request, encode_response, read_request
from quorumd.protocol.messages import (
    describe_configs_request,
    describe_configs_response,
    incremental_alter_configs_request,
    incremental_alter_configs_response,
)
from quorumd.protocol.messages.envelope_request import EnvelopeRequest
from quorumd.protocol.messages.envelope_response import EnvelopeResponse
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.wire import Message
from tests.support.node.api_harness import ApiHarness
from tests.support.node.recording_session import RecordingSession, request_of
from tests.support.node.sample_requests import full_request
from tests.support.node.scripted_role import ScriptedRole
from tests.support.node.virtual_time import VirtualTime

TIMEOUT_MS = 2000.0
SPOKEN = {key: (api.min_version, api.max_version) for key, api in APIS.items()}


def write(version: int = 1) -> Request:
    wire = incremental_alter_configs_request
    resource = wire.AlterConfigsResource(32, "g", [wire.AlterableConfig("a", 0, "1")])
    return as_received(wire.IncrementalAlterConfigsRequest([resource]), version)


def read(version: int = 4) -> Request:
    wire = describe_configs_request
    resource = wire.DescribeConfigsResource(32, "g", None)
    return as_received(wire.DescribeConfigsRequest([resource]), version)


def as_received(message: Message, version: int) -> Request:
    """The request as it comes over a connection, with the bytes that forwarding needs."""
    connection = ClientConnection("client")
    for _ in range(3):
        _, data = connection.request(message, version)
    return read_request(data[4:], SPOKEN)


def done(request: Request) -> Message:
    """What a leader answers."""
    wire = incremental_alter_configs_response
    if request.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
        return wire.IncrementalAlterConfigsResponse(0, [wire.AlterConfigsResourceResponse(0, None, 32, "g")])
    return describe_configs_response.DescribeConfigsResponse(
        0, [describe_configs_response.DescribeConfigsResult(0, None, 32, "g")]
    )


class FollowerHarness:
    """A node that does not lead."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.has_leader = True
        self.calls: list[Call] = []
        self.session = RecordingSession()
        self.leads = False
        self.handled: list[Request] = []
        self.forwarder = Forwarder(
            self.time.clock,
            self._call_leader,
            ScriptedRole(lambda: self.leads),
            lambda session, request: self.handled.append(request),
            error_response,
            TIMEOUT_MS,
        )

    def _call_leader(self, call: Call) -> bool:
        if self.has_leader:
            self.calls.append(call)
        return self.has_leader

    def error(self) -> int:
        """The error of the only answer, in its API's own field."""
        (answer,) = self.session.answers
        code: int
        if isinstance(answer, describe_configs_response.DescribeConfigsResponse):
            code = answer.results[0].error_code
        else:
            code = answer.responses[0].error_code
        return code


@pytest.fixture
def world() -> FollowerHarness:
    return FollowerHarness()


@pytest.mark.parametrize("request_made", [write(0), write(1), read(1), read(4)], ids=repr)
def test_the_answer_inside_the_envelope_goes_back_byte_for_byte(
    world: FollowerHarness, request_made: Request
) -> None:
    world.forwarder.forward(world.session, request_made)
    (call,) = world.calls
    assert call.api_key == ApiKey.ENVELOPE
    envelope: EnvelopeRequest = call.build(0)
    assert envelope.request_data == request_made.frame
    assert envelope.client_host_address == bytes([192, 0, 2, 7])
    answer = encode_response(request_made, done(request_made))
    call.on_response(EnvelopeResponse(answer))
    assert world.session.answers == [answer]


@pytest.mark.parametrize(
    ("peer", "address"),
    [("[2001:db8::7]:80", bytes.fromhex("20010db8000000000000000000000007")), ("unknown:0", bytes(4))],
)
def test_the_clients_address_travels(world: FollowerHarness, peer: str, address: bytes) -> None:
    world.session.peer = peer
    world.forwarder.forward(world.session, write())
    assert world.calls[0].build(0).client_host_address == address


def test_waits_for_a_leader_and_no_longer_than_its_patience(world: FollowerHarness) -> None:
    world.has_leader = False
    world.forwarder.forward(world.session, write())
    world.time.pass_ms(LEADER_WAIT_MS - 1)
    assert world.session.answers == []
    world.time.pass_ms(RETRY_MS + 1)
    assert world.error() == ErrorCode.NOT_CONTROLLER


def test_a_leader_that_shows_up_gets_the_request_once(world: FollowerHarness) -> None:
    world.has_leader = False
    world.forwarder.forward(world.session, write())
    world.time.pass_ms(1000)
    world.has_leader = True
    world.time.pass_ms(1000)
    assert len(world.calls) == 1


def test_what_never_left_is_sent_again(world: FollowerHarness) -> None:
    world.forwarder.forward(world.session, write())
    world.calls[0].on_failure(Failure("refused", refused=True, unsent=True))
    world.time.pass_ms(RETRY_MS)
    assert len(world.calls) == 2


def test_an_envelope_that_reached_no_leader_is_sent_again(world: FollowerHarness) -> None:
    world.forwarder.forward(world.session, write())
    world.calls[0].on_response(EnvelopeResponse(None, int(ErrorCode.NOT_CONTROLLER)))
    world.time.pass_ms(RETRY_MS)
    assert len(world.calls) == 2


def test_a_write_that_may_have_had_an_effect_is_never_sent_again(world: FollowerHarness) -> None:
    world.forwarder.forward(world.session, write())
    world.calls[0].on_failure(Failure("the connection was closed"))
    world.time.pass_ms(2 * LEADER_WAIT_MS)
    assert len(world.calls) == 1
    assert world.error() == ErrorCode.REQUEST_TIMED_OUT


def test_a_write_whose_leader_lost_its_office_on_the_way_is_never_sent_again(world: FollowerHarness) -> None:
    """The leader took it in and says so inside the envelope."""
    request = write()
    world.forwarder.forward(world.session, request)
    lost = encode_response(request, error_response(request, ErrorCode.NOT_CONTROLLER))
    world.calls[0].on_response(EnvelopeResponse(lost))
    world.time.pass_ms(2 * LEADER_WAIT_MS)
    assert len(world.calls) == 1
    assert world.session.answers == [lost]


def test_a_read_is_sent_again_whatever_happened_to_it(world: FollowerHarness) -> None:
    world.forwarder.forward(world.session, read())
    world.calls[0].on_failure(Failure("the leader was killed"))
    world.time.pass_ms(RETRY_MS)
    assert len(world.calls) == 2
    world.has_leader = False
    world.calls[1].on_failure(Failure("the leader was killed"))
    world.time.pass_ms(LEADER_WAIT_MS + RETRY_MS)
    assert world.error() == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    "answer",
    [
        EnvelopeResponse(None, int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)),
        EnvelopeResponse(None),
        EnvelopeResponse(b""),
        EnvelopeResponse(b"\x00\x00\x00\x63\x00\x00\x00\x00\x00"),
    ],
    ids=["error", "null", "empty", "another correlation id"],
)
def test_an_answer_that_is_none_is_an_unknown_error_for_the_client(
    world: FollowerHarness, answer: EnvelopeResponse
) -> None:
    world.forwarder.forward(world.session, write())
    world.calls[0].on_response(answer)
    assert world.error() == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("refusal", [ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION])
def test_a_read_that_a_stock_leader_takes_out_of_no_envelope_is_asked_of_it_directly(
    world: FollowerHarness, refusal: ErrorCode
) -> None:
    request = read(4)
    world.forwarder.forward(world.session, request, lambda answer: answer.results.append(answer.results[0]))
    world.calls[0].on_response(EnvelopeResponse(None, int(refusal)))
    direct = world.calls[1]
    assert (direct.api_key, direct.build(4)) == (ApiKey.DESCRIBE_CONFIGS, request.message)
    answer: Any = done(request)
    direct.on_response(answer)
    assert world.session.answers == [answer]
    assert len(answer.results) == 2


def test_a_direct_read_is_tried_again_when_it_fails(world: FollowerHarness) -> None:
    world.forwarder.forward(world.session, read(4))
    world.calls[0].on_response(EnvelopeResponse(None, int(ErrorCode.INVALID_REQUEST)))
    world.calls[1].on_failure(Failure("connection lost"))
    world.time.pass_ms(2 * RETRY_MS)
    assert [call.api_key for call in world.calls[2:]] == [ApiKey.ENVELOPE]


def test_a_write_that_a_stock_leader_takes_out_of_no_envelope_says_where_to_send_it(
    world: FollowerHarness,
) -> None:
    world.forwarder.forward(world.session, write())
    world.calls[0].on_response(EnvelopeResponse(None, int(ErrorCode.INVALID_REQUEST)))
    assert world.error() == ErrorCode.UNSUPPORTED_VERSION
    answer: Any = world.session.answers[0]
    assert "Send the request to the leader" in answer.responses[0].error_message


@pytest.mark.parametrize("version", range(1, 5))
def test_a_hook_may_add_to_the_answer(world: FollowerHarness, version: int) -> None:
    request = read(version)

    def hook(answer: Any) -> None:
        answer.results[0].configs.append(
            describe_configs_response.DescribeConfigsResourceResult("added", "1")
        )

    world.forwarder.forward(world.session, request, hook)
    world.calls[0].on_response(EnvelopeResponse(encode_response(request, done(request))))
    (answer,) = world.session.answers
    assert [entry.name for entry in answer.results[0].configs] == ["added"]


@pytest.mark.parametrize("cut", [4, 5, 9, -1])
def test_an_answer_for_a_hook_that_cannot_be_read_is_an_unknown_error(
    world: FollowerHarness, cut: int
) -> None:
    request = read()
    world.forwarder.forward(world.session, request, lambda answer: None)
    world.calls[0].on_response(EnvelopeResponse(encode_response(request, done(request))[:cut]))
    assert world.error() == ErrorCode.UNKNOWN_SERVER_ERROR


# The leader's side


class Leader(ApiHarness):
    def __init__(self, is_leader: bool = True) -> None:
        super().__init__(slice_partitions=10)
        self.is_leader = is_leader
        self.routed: list[tuple[Session, Request[Message]]] = []
        router = self.context.router
        router.add(
            Route(request_class(key), lambda session, request: self.routed.append((session, request)))
            for key in APIS
        )
        self.envelopes = EnvelopeApis(self.context)

    def receive(self, data: bytes, client_id: str | None = "101") -> None:
        envelope = EnvelopeRequest(data, b"principal", bytes(4))
        self.envelopes.envelope(self.session, request_of(envelope, 0, 99, client_id))

    def outcome(self) -> tuple[int, bytes | None]:
        (answer,) = self.session.answers
        return answer.error_code, answer.response_data


def test_a_request_is_taken_out_and_its_answer_put_into_an_envelope() -> None:
    leader, request = Leader(), write()
    leader.receive(request.frame)
    ((session, inner),) = leader.routed
    assert (inner.api_key, inner.api_version, inner.correlation_id) == (44, 1, 2)
    assert session.is_controller_client, "it must not be forwarded a second time"
    session.respond(inner, done(inner))
    assert leader.outcome() == (0, encode_response(request, done(request)))


@pytest.mark.parametrize(
    ("client_id", "is_broker"), [("101", True), (None, True), ("quorumd-2", False), ("quorumd-101", False)]
)
def test_only_what_a_broker_passes_on_counts_as_checked_by_it(client_id: str | None, is_broker: bool) -> None:
    """Other nodes of the quorum pass on what their clients ask."""
    leader = Leader()
    leader.receive(write().frame, client_id)
    assert leader.routed[0][0].comes_from_broker is is_broker


def test_who_does_not_lead_says_so_in_the_envelopes_own_field() -> None:
    """A stock broker looks for the error there, and for no data beside it."""
    leader = Leader(is_leader=False)
    leader.receive(write().frame)
    assert leader.outcome() == (ErrorCode.NOT_CONTROLLER, None)
    assert leader.routed == []


def test_who_finds_out_later_that_it_does_not_lead_says_so_there_too() -> None:
    leader = Leader()
    leader.receive(read().frame)
    ((session, inner),) = leader.routed
    session.respond_not_leader(inner, error_response(inner, ErrorCode.NOT_CONTROLLER))
    assert leader.outcome() == (ErrorCode.NOT_CONTROLLER, None)


def test_an_answer_that_cannot_be_encoded_is_an_error_of_the_envelope() -> None:
    leader = Leader()
    leader.receive(read(1).frame)
    ((session, inner),) = leader.routed
    wire = describe_configs_response
    session.respond(
        inner, wire.DescribeConfigsResponse(0, [wire.DescribeConfigsResult(0, None, 32, "g" * 40_000)])
    )
    assert leader.outcome() == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


@pytest.mark.parametrize("data", [b"", b"\x00", write().frame[:-1], b"\x27\x0f" + write().frame[2:]])
def test_what_is_no_request_is_an_unsupported_version(data: bytes) -> None:
    leader = Leader()
    leader.receive(data)
    assert leader.outcome() == (ErrorCode.UNSUPPORTED_VERSION, None)
    assert leader.routed == []


def test_only_some_apis_may_come_in_an_envelope() -> None:
    leader = Leader()
    inner = as_received(EnvelopeRequest(b"", b"", bytes(4)), 0)
    leader.receive(inner.frame)
    assert leader.outcome() == (ErrorCode.INVALID_REQUEST, None)


@pytest.mark.parametrize("api_key", sorted(FORWARDABLE))
def test_every_api_that_may_be_forwarded_can_tell_its_client_an_error(api_key: int) -> None:
    """In every version, in that API's own place."""
    for version in range(SPOKEN[api_key][0], SPOKEN[api_key][1] + 1):
        for error in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR):
            request = as_received(full_request(api_key, version), version)
            assert encode_response(request, error_response(request, error))


def test_a_request_that_waits_while_this_node_becomes_the_leader_is_handled_here(
    world: FollowerHarness,
) -> None:
    world.has_leader = False
    asked = write(1)
    world.forwarder.forward(world.session, asked)
    world.leads = True
    world.time.pass_ms(RETRY_MS)
    assert world.handled == [asked]
    assert world.calls == []
    assert world.session.answers == []


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_large_request_in_an_envelope_is_decoded_in_slices(is_cut: bool) -> None:
    leader = Leader()
    resources = [AlterConfigsResource(2, f"topic-{number}") for number in range(2000)]
    message = IncrementalAlterConfigsRequest(resources)
    _, data = ClientConnection("client").request(message, 1)
    leader.receive(data[4 : -1 if is_cut else None])
    assert leader.session.held
    assert leader.routed == []
    while leader.turns:
        leader.turns.pop(0)()
    if is_cut:
        (answer,) = leader.session.answers
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    else:
        ((_, inner),) = leader.routed
        assert inner.message == message
