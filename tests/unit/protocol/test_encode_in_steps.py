"""Responses that may be large are encoded in steps to the same bytes, with the same errors."""

from __future__ import annotations

import pytest

from quorumd.errors import UnsupportedVersion
from quorumd.protocol.apis import APIS, response_class
from quorumd.protocol.codec import encode, encode_in_steps
from quorumd.protocol.connection import Request, encode_response, encode_response_in_steps
from quorumd.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from quorumd.protocol.messages.elect_leaders_response import ElectLeadersResponse
from quorumd.protocol.wire import Message
from tests.fuzz.messages import sample
from tests.support.protocol.steps import run_steps

LARGE = [
    (response_class(key), version)
    for key, api in APIS.items()
    for version in range(api.min_version, api.max_version + 1)
    if version in response_class(key).ENCODE_IN_STEPS
]


@pytest.mark.parametrize(("message_class", "version"), LARGE, ids=str)
def test_steps_give_the_same_bytes(message_class: type[Message], version: int) -> None:
    most = 0
    for number in range(8):
        message = sample(message_class.NAME, version, number)
        out = bytearray(b"before")
        taken, _ = run_steps(encode_in_steps(message, version, out))
        assert out == b"before" + encode(message, version)
        most = max(most, taken)
    assert most > 0


@pytest.mark.parametrize(("message_class", "version"), LARGE, ids=str)
def test_encoded_response_has_its_header(message_class: type[Message], version: int) -> None:
    assert message_class.API_KEY is not None
    message = sample(message_class.NAME, version, 1)
    request = Request(message_class.API_KEY, version, 4711, "test", message, b"", 0)
    _, response = run_steps(encode_response_in_steps(request, message))
    assert response == encode_response(request, message)


def test_encoding_errors_are_the_same() -> None:
    too_large = CreateTopicsResponse(0, [CreatableTopicResult("name", error_code=1 << 20)])
    with pytest.raises(ValueError, match="CreateTopicsResponse v7"):
        run_steps(encode_in_steps(too_large, 7, bytearray()))
    with pytest.raises(UnsupportedVersion, match="ElectLeadersResponse v0"):
        run_steps(encode_in_steps(ElectLeadersResponse(error_code=41), 0, bytearray()))
