"""Large requests of a connection are decoded in steps."""

from __future__ import annotations

from struct import Struct

import pytest

from quorumd.errors import MalformedMessage
from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.codec import encode
from quorumd.protocol.connection import DECODED_BYTES, Request, ServerConnection
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse

SPOKEN = {key: (api.min_version, api.max_version) for key, api in APIS.items()}
VERSION = 7
_HEAD = Struct(">hhih")
TOPICS = [CreatableTopic(f"topic-{number}", 1, 1, [], []) for number in range(50)]


def request_bytes(correlation_id: int, cut: int = 0) -> bytes:
    """A CreateTopics request, or one whose frame lacks the last `cut` bytes."""
    body = encode(CreateTopicsRequest(TOPICS, 1000, False), VERSION)
    frame = _HEAD.pack(ApiKey.CREATE_TOPICS, VERSION, correlation_id, -1) + b"\0" + body[: len(body) - cut]
    return len(frame).to_bytes(4, "big") + frame


def receive(*requests: bytes) -> tuple[ServerConnection, list[Request]]:
    connection = ServerConnection(1 << 20, SPOKEN, max_whole_bytes=100)
    return connection, connection.receive(b"".join(requests))


def test_request_is_whole_once_all_steps_are_done() -> None:
    connection, (request,) = receive(request_bytes(1))
    assert not request.is_whole
    taken = 0
    while not request.is_whole:
        taken += connection.continue_decoding(request, 7)
    assert taken >= len(TOPICS)
    assert request.message == CreateTopicsRequest(TOPICS, 1000, False)
    assert connection.awaits_response(request)
    assert connection.gathered_bytes == len(request.frame) + DECODED_BYTES + request.decoded_bytes
    assert request.decoded_bytes > 100 * len(TOPICS)
    connection.respond(request, CreateTopicsResponse())
    assert connection.gathered_bytes == 0
    assert not connection.awaits_response(request)
    assert connection.has_output


def test_malformed_request_ends_the_connection() -> None:
    connection, (first, broken, last) = receive(request_bytes(1), request_bytes(2, cut=9), request_bytes(3))
    while not broken.is_whole:
        connection.continue_decoding(broken, 7)
    assert isinstance(connection.fault, MalformedMessage)
    assert [connection.awaits_response(each) for each in (first, broken, last)] == [True, False, False]
    assert connection.gathered_bytes == len(first.frame) + DECODED_BYTES
    with pytest.raises(MalformedMessage):
        connection.receive(b"")


def test_request_of_the_limit_is_decoded_at_once() -> None:
    connection = ServerConnection(1 << 20, SPOKEN, max_whole_bytes=1 << 20)
    (request,) = connection.receive(request_bytes(1))
    assert request.is_whole
