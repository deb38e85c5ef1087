"""Requests that may be large are decoded in steps to the same message, with the same errors."""

from __future__ import annotations

import pytest

from quorumd.errors import MalformedMessage
from quorumd.protocol.apis import APIS, request_class
from quorumd.protocol.codec import decode_in_steps, decode_prefix, encode
from quorumd.protocol.wire import Message
from tests.fuzz.messages import sample
from tests.support.protocol.message_strategies import schema
from tests.support.protocol.steps import run_steps

LARGE = [
    (request_class(key), version)
    for key, api in APIS.items()
    for version in range(api.min_version, api.max_version + 1)
    if version in request_class(key).DECODE_IN_STEPS
]


NUMBERS = {"[]int8", "[]int16", "[]int32", "[]int64"}


@pytest.mark.parametrize("key", APIS)
def test_requests_with_arrays_are_decoded_in_steps(key: int) -> None:
    """Arrays of numbers are read at once: 100,000 take a millisecond."""
    message_class = request_class(key)
    arrays = {field["type"] for field in schema(message_class.NAME)["fields"] if "[]" in field["type"]}
    assert bool(arrays - NUMBERS) <= bool(message_class.DECODE_IN_STEPS)


@pytest.mark.parametrize(("message_class", "version"), LARGE, ids=str)
def test_steps_give_the_same_message(message_class: type[Message], version: int) -> None:
    most = 0
    for number in range(8):
        data = b"before" + encode(sample(message_class.NAME, version, number), version)
        taken, found = run_steps(decode_in_steps(message_class, version, data, 6))
        assert found == decode_prefix(message_class, version, data, 6)
        most = max(most, taken)
    assert most > 0


@pytest.mark.parametrize(("message_class", "version"), LARGE, ids=str)
def test_steps_end_in_the_same_error(message_class: type[Message], version: int) -> None:
    data = encode(sample(message_class.NAME, version, 3), version)
    for end in range(len(data)):
        with pytest.raises(MalformedMessage) as whole:
            decode_prefix(message_class, version, data[:end])
        with pytest.raises(MalformedMessage) as in_steps:
            run_steps(decode_in_steps(message_class, version, data[:end], 0))
        assert str(in_steps.value) == str(whole.value)
