from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.node.api.error_responses import error_response
from quorumd.node.api.forwarding import LEADER_WAIT_MS, RETRY_MS
from quorumd.node.peers.connection import Failure
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request, encode_response
from quorumd.protocol.messages import (
    describe_configs_response,
)
from quorumd.protocol.messages.envelope_request import EnvelopeRequest
from quorumd.protocol.messages.envelope_response import EnvelopeResponse
from tests.support.node.forwarding import FollowerHarness, read, success, write


@pytest.fixture
def follower() -> FollowerHarness:
    return FollowerHarness()


@pytest.mark.parametrize("original", [write(0), write(1), read(1), read(4)], ids=repr)
def test_response_in_the_envelope_is_returned_unchanged(follower: FollowerHarness, original: Request) -> None:
    follower.forwarder.forward(follower.session, original)
    (call,) = follower.leader_calls
    assert call.api_key == ApiKey.ENVELOPE
    envelope: EnvelopeRequest = call.build(0)
    assert envelope.request_data == original.frame
    assert envelope.client_host_address == bytes([192, 0, 2, 7])
    response = encode_response(original, success(original))
    call.on_response(EnvelopeResponse(response))
    assert follower.session.responses == [response]


@pytest.mark.parametrize(
    ("host", "address"),
    [("2001:db8:0:0:0:0:0:7", bytes.fromhex("20010db8000000000000000000000007")), ("unknown", bytes(4))],
)
def test_envelope_holds_the_address_of_the_client(
    follower: FollowerHarness, host: str, address: bytes
) -> None:
    follower.session.origin.host = host
    follower.forwarder.forward(follower.session, write())
    assert follower.leader_calls[0].build(0).client_host_address == address


def test_wait_for_a_leader_times_out(follower: FollowerHarness) -> None:
    follower.has_leader = False
    follower.forwarder.forward(follower.session, write())
    follower.time.pass_ms(LEADER_WAIT_MS - 1)
    assert follower.session.responses == []
    follower.time.pass_ms(1)
    assert follower.error() == ErrorCode.NOT_CONTROLLER


def test_request_is_sent_once_to_a_new_leader(follower: FollowerHarness) -> None:
    follower.has_leader = False
    follower.forwarder.forward(follower.session, write())
    follower.time.pass_ms(1000)
    follower.has_leader = True
    follower.time.pass_ms(1000)
    assert len(follower.leader_calls) == 1


def test_unsent_request_is_retried(follower: FollowerHarness) -> None:
    follower.forwarder.forward(follower.session, write())
    follower.leader_calls[0].on_failure(Failure("refused", refused=True, unsent=True))
    follower.time.pass_ms(RETRY_MS)
    assert len(follower.leader_calls) == 2


def test_envelope_rejected_by_a_follower_is_retried(follower: FollowerHarness) -> None:
    follower.forwarder.forward(follower.session, write())
    follower.leader_calls[0].on_response(EnvelopeResponse(None, int(ErrorCode.NOT_CONTROLLER)))
    follower.time.pass_ms(RETRY_MS)
    assert len(follower.leader_calls) == 2


def test_write_without_response_is_not_retried(follower: FollowerHarness) -> None:
    follower.forwarder.forward(follower.session, write())
    follower.leader_calls[0].on_failure(Failure("the connection was closed"))
    follower.time.pass_ms(2 * LEADER_WAIT_MS)
    assert len(follower.leader_calls) == 1
    assert follower.error() == ErrorCode.REQUEST_TIMED_OUT


def test_write_is_not_retried_when_the_leader_loses_its_leadership(follower: FollowerHarness) -> None:
    """The leader handled the request: the error is inside the envelope."""
    request = write()
    follower.forwarder.forward(follower.session, request)
    not_controller = encode_response(request, error_response(request, ErrorCode.NOT_CONTROLLER))
    follower.leader_calls[0].on_response(EnvelopeResponse(not_controller))
    follower.time.pass_ms(2 * LEADER_WAIT_MS)
    assert len(follower.leader_calls) == 1
    assert follower.session.responses == [not_controller]


def test_read_is_retried_after_any_failure(follower: FollowerHarness) -> None:
    follower.forwarder.forward(follower.session, read())
    follower.leader_calls[0].on_failure(Failure("the leader was killed"))
    follower.time.pass_ms(RETRY_MS)
    assert len(follower.leader_calls) == 2
    follower.has_leader = False
    follower.leader_calls[1].on_failure(Failure("the leader was killed"))
    follower.time.pass_ms(LEADER_WAIT_MS + RETRY_MS)
    assert follower.error() == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    "response",
    [
        EnvelopeResponse(None, int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)),
        EnvelopeResponse(None),
        EnvelopeResponse(b""),
        EnvelopeResponse(b"\x00\x00\x00\x63\x00\x00\x00\x00\x00"),
    ],
    ids=["error", "null", "empty", "another correlation id"],
)
def test_invalid_envelope_response_is_an_unknown_server_error(
    follower: FollowerHarness, response: EnvelopeResponse
) -> None:
    follower.forwarder.forward(follower.session, write())
    follower.leader_calls[0].on_response(response)
    assert follower.error() == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("refusal", [ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION])
def test_read_is_sent_directly_when_a_stock_leader_rejects_the_envelope(
    follower: FollowerHarness, refusal: ErrorCode
) -> None:
    request = read(4)
    follower.forwarder.forward(
        follower.session, request, lambda response: response.results.append(response.results[0])
    )
    follower.leader_calls[0].on_response(EnvelopeResponse(None, int(refusal)))
    direct = follower.leader_calls[1]
    assert (direct.api_key, direct.build(4)) == (ApiKey.DESCRIBE_CONFIGS, request.message)
    response: Any = success(request)
    direct.on_response(response)
    assert follower.session.responses == [response]
    assert len(response.results) == 2


def test_read_is_sent_directly_only_with_the_rights_of_the_client(follower: FollowerHarness) -> None:
    request = read(4)
    request.message.resources *= 2
    follower.forwarder.forward(follower.session, request)
    follower.leader_calls[0].on_response(EnvelopeResponse(None, int(ErrorCode.INVALID_REQUEST)))
    assert len(follower.leader_calls[1].build(4).resources) == 1
    assert len(request.message.resources) == 2
    follower.admits = False
    follower.forwarder.forward(follower.session, request)
    follower.leader_calls[2].on_response(EnvelopeResponse(None, int(ErrorCode.INVALID_REQUEST)))
    assert len(follower.leader_calls) == 3


def test_failed_direct_read_is_retried_in_an_envelope(follower: FollowerHarness) -> None:
    follower.forwarder.forward(follower.session, read(4))
    follower.leader_calls[0].on_response(EnvelopeResponse(None, int(ErrorCode.INVALID_REQUEST)))
    follower.leader_calls[1].on_failure(Failure("connection lost"))
    follower.time.pass_ms(2 * RETRY_MS)
    assert [call.api_key for call in follower.leader_calls[2:]] == [ApiKey.ENVELOPE]


def test_read_waits_for_a_leader_that_is_lost_before_it_is_sent_directly(follower: FollowerHarness) -> None:
    follower.forwarder.forward(follower.session, read(4))
    follower.has_leader = False
    follower.leader_calls[0].on_response(EnvelopeResponse(None, int(ErrorCode.INVALID_REQUEST)))
    assert len(follower.leader_calls) == 1
    follower.has_leader = True
    follower.time.pass_ms(2 * RETRY_MS)
    assert [call.api_key for call in follower.leader_calls[1:]] == [ApiKey.ENVELOPE]


def test_write_that_a_stock_leader_rejects_names_the_leader_in_its_error(
    follower: FollowerHarness,
) -> None:
    follower.forwarder.forward(follower.session, write())
    follower.leader_calls[0].on_response(EnvelopeResponse(None, int(ErrorCode.INVALID_REQUEST)))
    assert follower.error() == ErrorCode.UNSUPPORTED_VERSION
    response: Any = follower.session.responses[0]
    assert "leader" in response.responses[0].error_message


@pytest.mark.parametrize("version", range(1, 5))
def test_hook_can_extend_the_response(follower: FollowerHarness, version: int) -> None:
    request = read(version)

    def hook(response: Any) -> None:
        response.results[0].configs.append(
            describe_configs_response.DescribeConfigsResourceResult("added", "1")
        )

    follower.forwarder.forward(follower.session, request, hook)
    follower.leader_calls[0].on_response(EnvelopeResponse(encode_response(request, success(request))))
    (response,) = follower.session.responses
    assert [entry.name for entry in response.results[0].configs] == ["added"]


@pytest.mark.parametrize("cut", [4, 5, 9, -1])
def test_undecodable_response_with_a_hook_is_an_unknown_server_error(
    follower: FollowerHarness, cut: int
) -> None:
    request = read()
    follower.forwarder.forward(follower.session, request, lambda response: None)
    follower.leader_calls[0].on_response(EnvelopeResponse(encode_response(request, success(request))[:cut]))
    assert follower.error() == ErrorCode.UNKNOWN_SERVER_ERROR
