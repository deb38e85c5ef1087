from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from quorumd.broker.api.rights import Extend
from quorumd.node.api.authorization import ExtendedSession
from quorumd.node.api.forwarding import decode_response
from quorumd.protocol.messages.describe_acls_request import DescribeAclsRequest
from quorumd.protocol.messages.describe_acls_response import DescribeAclsResource, DescribeAclsResponse
from quorumd.protocol.response_task import STEPS_PER_UNIT, ResponseTask, built
from quorumd.protocol.wire import Message
from tests.support.node.recording_session import RecordingSession, request_of

REQUEST = request_of(DescribeAclsRequest(), 3)
COUNT = 10


def listing() -> Generator[None, None, DescribeAclsResponse]:
    """A response of COUNT elements, in one step each."""
    response = DescribeAclsResponse()
    for number in range(COUNT):
        response.resources.append(DescribeAclsResource(2, f"t{number}"))
        yield
    return response


@pytest.fixture
def session() -> RecordingSession:
    return RecordingSession()


def names(session: RecordingSession) -> list[str]:
    (encoded,) = session.responses
    response: Any = decode_response(REQUEST, encoded)
    return [resource.resource_name for resource in response.resources]


def test_response_is_built_and_encoded_in_slices(session: RecordingSession) -> None:
    task = ResponseTask(session, REQUEST, listing())
    slices = 0
    while not task.is_done:
        assert task.advance(1) <= 1
        slices += 1
    assert slices == 2 * COUNT // STEPS_PER_UNIT + 1
    assert names(session) == [f"t{number}" for number in range(COUNT)]


def test_units_are_those_that_were_needed(session: RecordingSession) -> None:
    assert ResponseTask(session, REQUEST, listing()).advance(1000) == 2 * COUNT // STEPS_PER_UNIT
    assert len(session.responses) == 1


def test_response_is_extended_before_it_is_encoded(session: RecordingSession) -> None:
    """To extend the encoded response would take as long as all of its slices."""

    def hook(message: Message) -> None:
        assert isinstance(message, DescribeAclsResponse)
        message.resources.append(DescribeAclsResource(2, "added"))

    extended = ExtendedSession(ExtendedSession(session, Extend(hook)), Extend(hook))
    ResponseTask(extended, REQUEST, listing()).advance(1000)
    assert names(session) == [*(f"t{number}" for number in range(COUNT)), "added", "added"]


def test_response_that_cannot_be_encoded_is_left_to_the_session(session: RecordingSession) -> None:
    """The session closes the connection."""
    wrong = DescribeAclsResponse(error_code=1 << 20)
    task = ResponseTask(session, REQUEST, built(wrong))
    with pytest.raises(ValueError, match="DescribeAclsResponse v3"):
        task.advance(1)
    assert task.is_done


def test_cancelled_response_is_not_sent(session: RecordingSession) -> None:
    task = ResponseTask(session, REQUEST, listing())
    task.advance(1)
    task.cancel()
    assert (task.is_done, task.advance(1000), session.responses) == (True, 0, [])


def test_response_that_is_sent_cannot_be_cancelled(session: RecordingSession) -> None:
    task = ResponseTask(session, REQUEST, listing())
    task.advance(1000)
    task.cancel()
    assert len(session.responses) == 1
