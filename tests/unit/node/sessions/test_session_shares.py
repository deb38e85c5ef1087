"""A session takes only its share of the node's time and memory."""

from __future__ import annotations

import pytest

from quorumd.node.sessions.fair_shares import (
    BULK_BYTES,
    ITERATION_MS,
    MAX_HELD_BYTES,
    MIN_COUNTED_BYTES,
    REQUESTS_PER_ITERATION,
)
from quorumd.node.sessions.server_session import MAX_PENDING_BYTES
from quorumd.protocol.connection import DECODED_BYTES, LARGE_REQUEST, Request, ServerConnection
from quorumd.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.routes import Session
from tests.support.node.session_harness import SessionHarness

TOPIC_BYTES = 100
"""The least memory of a topic in a request, besides its four bytes or more."""


@pytest.fixture
def harness() -> SessionHarness:
    return SessionHarness()


def test_requests_beyond_the_share_are_read_in_later_turns(harness: SessionHarness) -> None:
    harness.send(3 * REQUESTS_PER_ITERATION)
    assert len(harness.requests) == REQUESTS_PER_ITERATION
    assert harness.transport.reading == ["pause"]
    harness.send()
    harness.time.end_turn()
    assert len(harness.requests) == 3 * REQUESTS_PER_ITERATION + 1
    for number in range(len(harness.requests)):
        harness.respond(number)
    harness.time.end_turn()
    assert harness.transport.reading == ["pause", "resume"]


def test_reading_does_not_pause_for_a_small_request_that_waits_for_its_turn(harness: SessionHarness) -> None:
    harness.context.shares.record_read(REQUESTS_PER_ITERATION, 0)
    harness.send()
    assert (harness.requests, harness.transport.reading) == ([], [])
    harness.send()
    assert (harness.requests, harness.transport.reading) == ([], [])
    harness.time.end_turn()
    assert (len(harness.requests), harness.transport.reading) == (2, [])


def test_waiting_connection_is_not_read_out_of_turn(harness: SessionHarness) -> None:
    shares = harness.context.shares
    shares.record_read(REQUESTS_PER_ITERATION, 0)
    harness.send()
    shares.record_read(-REQUESTS_PER_ITERATION, 0)
    harness.send()
    assert shares.grant() > 0
    assert (harness.requests, harness.transport.reading) == ([], [])
    harness.time.end_turn()
    assert len(harness.requests) == 2


def test_reading_pauses_once_many_bytes_wait_for_their_turn(harness: SessionHarness) -> None:
    harness.context.shares.record_read(REQUESTS_PER_ITERATION, 0)
    frame = harness.client.request(MetadataRequest([MetadataRequestTopic(name="x" * 1000)]), 12)[1]
    while not harness.transport.reading and harness.session.held_bytes < 2 * MIN_COUNTED_BYTES:
        harness.session.received(frame)
    assert harness.transport.reading == ["pause"]
    assert harness.session.held_bytes >= MIN_COUNTED_BYTES
    harness.time.end_turn()
    assert harness.transport.reading == ["pause", "resume"]


def test_large_frames_are_read_in_turns(harness: SessionHarness) -> None:
    """The loop would read on for as long as there is more of them."""
    part = bytes(BULK_BYTES)
    harness.session.received((4 * BULK_BYTES).to_bytes(4) + part)
    assert harness.transport.reading == ["pause"]
    harness.time.end_turn()
    assert harness.transport.reading == ["pause", "resume"]
    harness.session.received(b"x")
    assert harness.transport.reading == ["pause", "resume"]


def test_requests_that_take_long_leave_the_rest_to_later_turns(harness: SessionHarness) -> None:
    handled = harness.requests

    def take_long(session: Session, request: Request) -> None:
        harness.time.heap.now_ms += ITERATION_MS / 2

    harness.route = take_long
    harness.send(5)
    assert len(handled) == 2
    assert harness.transport.reading == ["pause"]
    harness.session.received(b"\xff\xff\xff\xff")
    assert len(handled) == 2
    harness.time.pass_ms(3 * ITERATION_MS)
    assert [request.correlation_id for request in handled] == list(range(5))
    for number in range(5):
        harness.respond(number)
    harness.time.end_turn()
    assert harness.transport.is_closed, "the malformed frame behind them was read last"


def test_requests_before_a_malformed_frame_are_handled_in_turns_too(harness: SessionHarness) -> None:
    def take_long(session: Session, request: Request) -> None:
        harness.time.heap.now_ms += ITERATION_MS

    harness.route = take_long
    frames = [harness.client.request(MetadataRequest([]), 12)[1] for _ in range(5)]
    harness.session.received(b"".join(frames) + b"\xff\xff\xff\xff")
    assert len(harness.requests) == 1
    harness.time.pass_ms(5 * ITERATION_MS)
    assert len(harness.requests) == 5
    assert harness.statistics.event_processing_ms.total == 5 * ITERATION_MS, (
        "later turns count as busy time too"
    )


def test_decoding_takes_time_of_the_iteration(
    harness: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = ServerConnection.receive

    def receive_slowly(connection: ServerConnection, data: bytes, max_requests: int) -> list[Request]:
        harness.time.heap.now_ms += ITERATION_MS
        return receive(connection, data, max_requests)

    monkeypatch.setattr(ServerConnection, "receive", receive_slowly)
    harness.send(5)
    assert len(harness.requests) == 1


def test_large_request_of_few_elements_is_handled_at_once(harness: SessionHarness) -> None:
    few = MetadataRequest([MetadataRequestTopic(name="x" * LARGE_REQUEST)])
    many = MetadataRequest([MetadataRequestTopic(name="x" * 20)] * (LARGE_REQUEST // 20))
    harness.session.received(harness.client.request(few, 12)[1])
    assert len(harness.requests) == 1
    harness.session.received(harness.client.request(many, 12)[1])
    assert len(harness.requests) == 1
    harness.time.end_turn()
    assert len(harness.requests) == 2


def test_proven_peer_is_read_at_once(harness: SessionHarness) -> None:
    harness.session.origin.is_peer = True
    harness.send(3 * REQUESTS_PER_ITERATION)
    assert len(harness.requests) == 3 * REQUESTS_PER_ITERATION
    assert harness.context.shares.grant() == REQUESTS_PER_ITERATION, "clients still have all of their share"
    harness.session.received((4 * BULK_BYTES).to_bytes(4) + bytes(BULK_BYTES))
    assert harness.transport.reading == []


def test_time_of_a_peer_does_not_delay_it(harness: SessionHarness) -> None:
    def take_long(session: Session, request: Request) -> None:
        harness.time.heap.now_ms += ITERATION_MS

    harness.route = take_long
    harness.session.origin.is_peer = True
    harness.send(5)
    assert len(harness.requests) == 5


def test_reading_pauses_while_large_requests_wait(harness: SessionHarness) -> None:
    topics = [MetadataRequestTopic(name="x" * 200) for _ in range(60)]
    frames = [harness.client.request(MetadataRequest(topics), 12)[1] for _ in range(100)]
    for frame in frames:
        harness.session.received(frame)
    assert harness.transport.reading == ["pause"]
    assert harness.session.held_bytes > MAX_PENDING_BYTES
    for number in range(90):
        harness.respond(number)
    harness.time.end_turn()
    assert harness.transport.reading == ["pause", "resume"]


def test_client_that_holds_too_much_is_aborted(harness: SessionHarness) -> None:
    harness.send()
    harness.transport.unsent_bytes = MAX_HELD_BYTES + 1
    harness.respond(0)
    harness.time.end_turn()
    assert harness.transport.is_closed


def test_client_whose_incomplete_request_exceeds_the_memory_is_aborted(harness: SessionHarness) -> None:
    harness.transport.unsent_bytes = MAX_HELD_BYTES
    harness.session.received(BULK_BYTES.to_bytes(4) + bytes(MIN_COUNTED_BYTES - 5))
    assert not harness.transport.is_closed
    harness.session.received(bytes(1))
    assert harness.transport.is_closed


def test_small_requests_count_with_the_memory_of_their_messages(harness: SessionHarness) -> None:
    """A few dozen bytes of a client become a kilobyte."""
    harness.send(100)
    assert harness.session.held_bytes >= 100 * DECODED_BYTES
    for number in range(100):
        harness.respond(number)
    assert harness.session.held_bytes == 0


def test_lists_of_short_elements_count_with_their_memory(harness: SessionHarness) -> None:
    """Ten bytes of a topic become a few hundred; 1,500 clients with 15 KiB of such topics took 800 MiB."""
    topics = [MetadataRequestTopic(name="t")] * 600
    harness.session.received(harness.client.request(MetadataRequest(topics), 9)[1])
    assert harness.session.held_bytes > 600 * TOPIC_BYTES
    harness.respond(0)
    harness.time.end_turn()
    assert harness.session.held_bytes == 0


def test_large_request_counts_once_it_is_decoded(harness: SessionHarness) -> None:
    topics = [MetadataRequestTopic(name="t")] * 6000
    harness.session.received(harness.client.request(MetadataRequest(topics), 12)[1])
    assert harness.requests == []
    while not harness.requests:
        harness.time.end_turn()
    assert harness.session.held_bytes > 6000 * TOPIC_BYTES
    harness.respond(0)
    harness.time.end_turn()
    assert harness.session.held_bytes == 0


def test_stored_bytes_hold_no_memory(harness: SessionHarness) -> None:
    """A consumer fetches up to 50 MiB at once, which its broker reads piece by piece."""
    harness.session._largest_write = harness.transport.unsent_bytes = 2 * MAX_HELD_BYTES
    for stored, is_closed in ((2 * MAX_HELD_BYTES, False), (MAX_HELD_BYTES - 1, True)):
        harness.send()
        harness.transport.stored_bytes = stored
        harness.respond(len(harness.requests) - 1)
        harness.time.end_turn()
        assert harness.transport.is_closed == is_closed


def test_client_whose_request_exceeds_the_memory_is_aborted_while_it_is_decoded(
    harness: SessionHarness,
) -> None:
    topics = [CreatableTopic("t", configs=[CreatableTopicConfig("c", "v")] * 5)] * 3000
    harness.session.received(harness.client.request(CreateTopicsRequest(topics), 7)[1])
    harness.transport.unsent_bytes = MAX_HELD_BYTES - harness.session.held_bytes
    harness.time.end_turn()
    assert harness.transport.is_closed
    assert harness.requests == []


def test_client_whose_responses_wait_for_an_earlier_one_is_aborted(harness: SessionHarness) -> None:
    """Nothing is unsent as long as the first request waits for records, for example."""
    harness.send(4)
    for number in (1, 2):
        harness.session.respond_encoded(
            harness.requests[number], bytes(MAX_HELD_BYTES // 2 - 4 * DECODED_BYTES)
        )
        harness.time.end_turn()
        assert not harness.transport.is_closed
    harness.session.respond_encoded(harness.requests[3], bytes(8 * DECODED_BYTES))
    harness.time.end_turn()
    assert harness.transport.is_closed


def test_responses_that_waited_count_until_they_are_sent(harness: SessionHarness) -> None:
    harness.send(2)
    harness.session.respond_encoded(harness.requests[1], bytes(10_000))
    assert harness.session.held_bytes > 10_000
    harness.respond(0)
    harness.time.end_turn()
    assert harness.session.held_bytes == 0
