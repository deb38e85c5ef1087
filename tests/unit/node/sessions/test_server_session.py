from __future__ import annotations

import gc
import logging
import weakref
from typing import Any

import pytest

from quorumd.errors import MessageTooLarge
from quorumd.node.sessions import server_session as module
from quorumd.node.sessions.connections import IncomingConnections
from quorumd.node.sessions.decoding_task import STEPS_PER_UNIT
from quorumd.node.sessions.router import RequestRouter
from quorumd.node.settings import MAX_UNSENT_BYTES
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.routes import Session
from tests.support.node.session_harness import SLICE, SessionHarness


@pytest.fixture
def harness() -> SessionHarness:
    return SessionHarness()


def test_responses_leave_in_the_order_of_the_requests(harness: SessionHarness) -> None:
    harness.send(3)
    harness.respond(2, 22)
    harness.respond(0, 20)
    harness.time.end_turn()
    assert harness.received() == [20]
    harness.respond(1, 21)
    harness.time.end_turn()
    assert harness.received() == [21, 22]


def test_responses_of_one_turn_are_one_write(harness: SessionHarness) -> None:
    harness.route = lambda session, request: session.respond(request, MetadataResponse())
    harness.send(3)
    assert len(harness.transport.writes) == 1, "written at the end of the event, not a turn later"
    harness.route = lambda session, request: None
    harness.send(2)
    harness.respond(3)
    harness.respond(4)
    assert len(harness.transport.writes) == 1
    harness.time.end_turn()
    assert len(harness.transport.writes) == 2


def test_unsupported_api_versions_gets_a_response_before_other_requests(harness: SessionHarness) -> None:
    """Kafka 4.4 brokers send a version that older nodes do not support."""
    _, newer = harness.client.request_encoded(ApiKey.API_VERSIONS, 99, b"whatever")
    harness.session.received(newer)
    assert harness.transport.writes == [
        (16).to_bytes(4, "big") + bytes.fromhex("00000000 0023 00000001 001200000004")
    ]


def test_error_response_does_not_wait_for_later_requests(harness: SessionHarness) -> None:
    _, newer = harness.client.request_encoded(ApiKey.API_VERSIONS, 99, b"")
    behind = harness.client.request(MetadataRequest([]), 12)[1]
    harness.session.received(newer + behind)
    assert [len(data) for data in harness.transport.writes] == [20]
    assert len(harness.requests) == 1


def test_requests_wait_behind_a_large_response_and_reading_pauses(harness: SessionHarness) -> None:
    harness.route = lambda session, request: (
        session.block(request) if len(harness.requests) in (1, 3) else None
    )
    harness.send(4)
    assert len(harness.requests) == 1
    assert harness.transport.reading == ["pause"]
    harness.respond(0, 20)
    harness.time.end_turn()
    harness.time.end_turn()
    assert len(harness.requests) == 3, "up to the next large one"
    harness.respond(1, 21)
    harness.respond(2, 22)
    for _ in range(3):
        harness.time.end_turn()
    assert len(harness.requests) == 4
    assert harness.transport.reading == ["pause", "resume"]
    harness.respond(3, 23)
    harness.time.end_turn()
    assert harness.received() == [20, 21, 22, 23]


def test_next_large_response_waits_until_the_client_has_read_the_previous_one(
    harness: SessionHarness,
) -> None:
    harness.route = lambda session, request: session.block(request)
    harness.send(2)
    harness.respond(0)
    harness.transport.unsent_bytes = MAX_UNSENT_BYTES + 1
    harness.time.end_turn()
    harness.time.end_turn()
    assert len(harness.requests) == 1
    harness.transport.send_all()
    assert len(harness.requests) == 2


GARBAGE = pytest.mark.parametrize(
    "garbage",
    [b"\xff\xff\xff\xff", b"\x00\x00\x00\x01\x00", b"\x00\x00\x00\x0a\x00\x63" + bytes(8)],
    ids=repr,
)


@GARBAGE
def test_requests_before_a_malformed_frame_get_responses_before_the_close(
    harness: SessionHarness, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    data = [harness.client.request(MetadataRequest([]), 12)[1] for _ in range(2)]
    with caplog.at_level(logging.WARNING):
        harness.session.received(b"".join(data) + garbage + data[0])
        harness.session.received(data[0])
    assert len(harness.requests) == 2
    assert not harness.transport.is_closed
    harness.respond(1, 21)
    harness.time.end_turn()
    assert not harness.transport.is_closed
    harness.respond(0, 20)
    harness.time.end_turn()
    assert harness.received() == [20, 21]
    assert harness.transport.is_closed
    assert len(caplog.records) == harness.statistics.malformed_frames == 1


def test_no_data_is_read_after_a_malformed_frame(harness: SessionHarness) -> None:
    harness.route = lambda session, request: session.block(request)
    data = [harness.client.request(MetadataRequest([]), 12)[1] for _ in range(2)]
    harness.session.received(b"".join(data) + b"\xff\xff\xff\xff")
    harness.respond(0)
    for _ in range(3):
        harness.time.end_turn()
    assert len(harness.requests) == 2
    assert harness.transport.reading == ["pause"]


@GARBAGE
def test_malformed_frame_is_logged_once_and_closes_the_connection(
    harness: SessionHarness, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        harness.session.received(garbage)
        harness.session.received(garbage)
        harness.send()
    assert harness.transport.is_closed
    assert harness.requests == []
    (record,) = caplog.records
    assert "192.0.2.7:4711" in record.message
    assert harness.statistics.malformed_frames == 1


def test_ready_responses_leave_before_the_connection_is_closed(harness: SessionHarness) -> None:
    harness.send(2)
    harness.respond(0, 5)
    harness.session.close()
    assert harness.received() == [5]
    assert harness.transport.is_closed


def test_response_that_cannot_be_encoded_closes_its_connection(
    harness: SessionHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.send(2)
    harness.respond(0, 5)
    harness.session.respond(harness.requests[1], MetadataResponse(controller_id=1 << 40))
    assert harness.received() == [5], "other responses are not affected"
    assert harness.transport.is_closed
    assert "cannot be encoded" in caplog.text


def test_responses_after_the_close_are_dropped(harness: SessionHarness) -> None:
    harness.send(3)
    harness.session.closed("", False)
    harness.respond(0)
    harness.session.respond_encoded(harness.requests[1], b"\x00\x00\x00\x01")
    harness.session.respond_not_leader(harness.requests[2], MetadataResponse())
    harness.time.end_turn()
    assert harness.transport.writes == []
    assert harness.forgotten == [harness.session]


def test_encoded_response_is_sent_unchanged(harness: SessionHarness) -> None:
    harness.send()
    harness.session.respond_encoded(harness.requests[0], b"\x00\x00\x00\x00payload")
    harness.time.end_turn()
    assert harness.transport.writes == [b"\x00\x00\x00\x0b\x00\x00\x00\x00payload"]


def test_reading_pauses_while_too_many_request_bytes_wait_for_responses(
    harness: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PENDING_REQUESTS", 4)
    harness.send(4)
    assert harness.transport.reading == []
    harness.send(2)
    assert harness.transport.reading == ["pause"]
    for number in range(4):
        harness.respond(number)
        harness.time.end_turn()
        assert harness.transport.reading == ["pause"]
    harness.respond(4)
    harness.time.end_turn()
    assert harness.transport.reading == ["pause", "resume"]
    harness.send(8)
    assert harness.transport.reading == ["pause", "resume", "pause"]


def test_client_that_reads_no_responses_is_disconnected_and_logged_once(
    harness: SessionHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.send(2)
    harness.transport.unsent_bytes = MAX_UNSENT_BYTES + 1000
    harness.respond(0)
    harness.time.end_turn()
    harness.respond(1)
    harness.time.end_turn()
    assert harness.transport.is_closed
    assert len(caplog.records) == 1


def test_single_response_may_exceed_the_limit_of_unsent_bytes(harness: SessionHarness) -> None:
    """Metadata of a million partitions exceeds it; a client that reads nothing afterwards is disconnected too."""
    limit = MAX_UNSENT_BYTES
    harness.send(3)
    harness.session.respond_encoded(harness.requests[0], bytes(2 * limit))
    harness.transport.unsent_bytes = 2 * limit
    harness.time.end_turn()
    assert not harness.transport.is_closed
    harness.session.respond_encoded(harness.requests[1], bytes(2 * limit))
    harness.transport.unsent_bytes = 4 * limit
    harness.time.end_turn()
    assert harness.transport.is_closed


def test_latency_is_measured_per_api_from_arrival_to_response(harness: SessionHarness) -> None:
    harness.send()
    harness.time.pass_ms(3)
    harness.send()
    harness.time.pass_ms(5)
    harness.respond(0)
    harness.respond(1)
    histogram = harness.statistics.request_latency_ms[ApiKey.METADATA]
    assert sum(histogram.counts) == 2
    assert histogram.total == pytest.approx(13)


def test_connections_are_counted(harness: SessionHarness) -> None:
    assert harness.statistics.connections_open == 1
    harness.session.close()
    harness.session.closed("", False)
    assert harness.statistics.connections_open == 0


LARGE = 5000
"""The size of a large request in elements."""


def large_request(harness: SessionHarness) -> bytes:
    return harness.client.request(MetadataRequest([MetadataRequestTopic(name="t")] * LARGE), 12)[1]


def test_large_request_is_decoded_in_slices_while_later_ones_wait(harness: SessionHarness) -> None:
    before, behind = (harness.client.request(MetadataRequest([]), 12)[1] for _ in range(2))
    harness.session.received(before + large_request(harness) + behind)
    assert len(harness.requests) == 1
    turns = 0
    while len(harness.requests) == 1 and harness.time.heap.step(harness.time.heap.now_ms):
        turns += 1
    harness.time.end_turn()
    assert turns >= LARGE // (SLICE * STEPS_PER_UNIT)
    assert len(harness.requests) == 2, "the next request waits for the response"
    message: Any = harness.requests[1].message
    assert len(message.topics) == LARGE
    harness.respond(0)
    harness.respond(1)
    for _ in range(3):
        harness.time.end_turn()
    assert len(harness.requests) == 3


def test_handler_of_a_large_request_runs_in_a_tick(harness: SessionHarness) -> None:
    """Its time counts as busy time, and its response leaves with the same event."""

    def respond(session: Session, request: Request) -> None:
        harness.time.heap.now_ms += 7
        session.respond(request, MetadataResponse())

    harness.route = respond
    harness.session.received(large_request(harness))
    while not harness.requests:
        assert harness.time.heap.step(harness.time.heap.now_ms)
    assert len(harness.transport.writes) == 1
    assert harness.statistics.event_processing_ms.total == 7


@pytest.mark.parametrize("cut", [1, 3, 20_000])
def test_malformed_large_request_closes_the_connection_after_earlier_requests(
    harness: SessionHarness, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    before, behind = (harness.client.request(MetadataRequest([]), 12)[1] for _ in range(2))
    large = large_request(harness)[4:-cut]
    with caplog.at_level(logging.WARNING):
        harness.session.received(before + len(large).to_bytes(4, "big") + large + behind)
        harness.time.end_turn()
    assert len(harness.requests) == 1
    assert not harness.transport.is_closed
    harness.respond(0, 20)
    harness.time.end_turn()
    assert harness.received() == [20]
    assert harness.transport.is_closed
    assert len(caplog.records) == harness.statistics.malformed_frames == 1


def test_malformed_large_request_closes_an_idle_connection(harness: SessionHarness) -> None:
    large = large_request(harness)[4:-1]
    harness.session.received(len(large).to_bytes(4, "big") + large)
    assert not harness.transport.is_closed
    harness.time.end_turn()
    assert harness.transport.is_closed


def test_request_that_is_refused_while_it_is_decoded_lets_later_ones_continue(
    harness: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = Request.continue_decoding

    def refuse_later(request: Request, steps: int) -> int:
        if steps > module.ELEMENTS_AT_ONCE:
            raise MessageTooLarge("it would take too much memory")
        return decode(request, steps)

    monkeypatch.setattr(Request, "continue_decoding", refuse_later)
    behind = harness.client.request(MetadataRequest([]), 12)[1]
    harness.session.received(large_request(harness) + behind)
    harness.time.end_turn()
    assert len(harness.requests) == 1
    assert len(harness.transport.writes) == 1
    assert not harness.transport.is_closed


def test_large_request_of_a_closed_connection_is_dropped(harness: SessionHarness) -> None:
    harness.session.received(large_request(harness))
    harness.session.closed("", False)
    harness.time.end_turn()
    assert harness.requests == []


@pytest.mark.parametrize("reading", ["whole requests", "a large request", "a rejected request"])
def test_requests_of_a_closed_connection_need_no_garbage_collector(
    harness: SessionHarness, reading: str
) -> None:
    """The collector hardly looks at old objects: requests of clients that come and go would fill the memory."""
    gc.disable()
    try:
        harness.send(3)
        if reading == "a large request":
            harness.session.received(large_request(harness))
        elif reading == "a rejected request":
            unknown = harness.client.request(ApiVersionsRequest(), 4)[1].replace(b"\0\x04", b"\0\x63", 1)
            harness.session.received(unknown)
        dropped = weakref.ref(harness.session._connection)
        harness.session.closed("", False)
        harness.time.end_turn()
        harness.requests.clear()
        harness.forgotten.clear()
        del harness.session
        assert dropped() is None
    finally:
        gc.enable()


def test_closed_session_keeps_no_requests(harness: SessionHarness) -> None:
    """A handler whose response is delayed still refers to the session."""
    harness.route = lambda session, request: session.block(request)
    harness.send(3)
    assert harness.session._queued
    harness.session.closed("", False)
    assert not harness.session._queued


def test_request_without_a_response_lets_later_responses_leave(harness: SessionHarness) -> None:
    """Produce with acks=0: the client does not expect a response with its correlation id."""
    harness.send(3)
    harness.session._connection.respond_nothing(harness.requests[1])
    harness.respond(2, 22)
    harness.time.end_turn()
    assert harness.transport.writes == []
    harness.session.respond_nothing(harness.requests[0])
    harness.time.end_turn()
    responses = harness.transport.writes[0]
    assert responses[4:8] == harness.requests[2].correlation_id.to_bytes(4, "big")
    assert harness.session._connection.pending == 0


def test_owner_of_a_large_response_learns_when_it_is_received(harness: SessionHarness) -> None:
    unblocked: list[str] = []
    harness.route = lambda session, request: session.block(request, lambda: unblocked.append("received"))
    harness.send(2)
    harness.respond(0)
    harness.transport.unsent_bytes = MAX_UNSENT_BYTES + 1
    harness.time.end_turn()
    harness.time.end_turn()
    assert unblocked == []
    harness.transport.send_all()
    assert unblocked == ["received"]
    harness.session.closed("", False)
    assert unblocked == ["received", "received"], "the second request's, as the connection closed"


def test_session_belongs_to_the_principal_and_host_of_its_connection(harness: SessionHarness) -> None:
    assert harness.session.origin.principal == "User:alice"
    assert harness.session.origin.host == "192.0.2.7"


def test_reading_resumes_after_a_large_request(harness: SessionHarness) -> None:
    harness.session.received(large_request(harness))
    assert harness.transport.reading == ["pause"]
    while not harness.requests:
        harness.time.end_turn()
    harness.respond(0)
    for _ in range(3):
        harness.time.end_turn()
    assert harness.transport.reading == ["pause", "resume"]
    harness.send()
    assert len(harness.requests) == 2


def test_latency_of_an_immediate_response_is_measured_too(harness: SessionHarness) -> None:
    harness.send()
    harness.session.respond_immediately(harness.requests[0], MetadataResponse())
    assert sum(harness.statistics.request_latency_ms[ApiKey.METADATA].counts) == 1


def test_sessions_are_numbered_in_the_order_of_their_connections(harness: SessionHarness) -> None:
    connections = IncomingConnections(RequestRouter(), harness.context)
    assert [connections.allocate_number(), connections.allocate_number(), connections.next_number] == [
        0,
        1,
        2,
    ]
