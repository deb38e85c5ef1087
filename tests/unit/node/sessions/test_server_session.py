from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from quorumd.node.sessions import server_session as module
from quorumd.node.sessions.decoding_task import STEPS_PER_UNIT
from quorumd.node.sessions.server_session import ServerSession, Session
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.statistics import NodeStatistics
from quorumd.node.tick import Tick
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import ClientConnection, Request
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.messages.metadata_response import MetadataResponse
from tests.support.node.virtual_time import VirtualTime

SLICE = 100
SPOKEN = {int(ApiKey.API_VERSIONS): (0, 4), int(ApiKey.METADATA): (0, 13)}


class RecordingTransport:
    """Satisfies `ports.Transport`."""

    def __init__(self) -> None:
        self.peer = "192.0.2.7:4711"
        self.unsent_bytes = 0
        self.writes: list[bytes] = []
        self.is_closed = False
        self.reading: list[str] = []

    def write(self, data: bytes) -> None:
        if not self.is_closed:
            self.writes.append(data)

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.reading.append("pause")

    def resume_reading(self) -> None:
        self.reading.append("resume")


class World:
    def __init__(self) -> None:
        self.time = VirtualTime()
        self.client = ClientConnection("client")
        self.requests: list[Request] = []
        self.route: Callable[[Session, Request], None] = lambda session, request: None
        self.forgotten: list[ServerSession] = []
        self.statistics = NodeStatistics()
        self.tick = Tick(self.time.clock.call_soon)
        self.session = ServerSession(
            self._route,
            SPOKEN,
            1 << 20,
            self.time.clock,
            self.statistics,
            self.tick,
            SliceScheduler(self.time.clock.call_soon, SLICE),
            self.forgotten.append,
            1,
        )
        self.transport = RecordingTransport()
        self.session.connected(self.transport)

    def _route(self, session: Session, request: Request) -> None:
        self.requests.append(request)
        self.route(session, request)

    def ask(self, count: int = 1) -> None:
        """So many requests in one piece of bytes."""
        data = [self.client.request(MetadataRequest([]), 12)[1] for _ in range(count)]
        self.session.received(b"".join(data))

    def answer(self, number: int, controller_id: int = 0) -> None:
        self.session.respond(self.requests[number], MetadataResponse(controller_id=controller_id))

    def answered(self) -> list[int]:
        """Controller ids of the answers that have left; each is read once."""
        data = b"".join(self.transport.writes)
        self.transport.writes.clear()
        answers: list[Any] = [answer for _, answer in self.client.receive(data)]
        return [answer.controller_id for answer in answers]


@pytest.fixture
def world() -> World:
    return World()


def test_answers_leave_in_the_order_of_the_requests(world: World) -> None:
    world.ask(3)
    world.answer(2, 22)
    world.answer(0, 20)
    world.time.end_turn()
    assert world.answered() == [20]
    world.answer(1, 21)
    world.time.end_turn()
    assert world.answered() == [21, 22]


def test_answers_of_one_turn_are_one_write(world: World) -> None:
    world.route = lambda session, request: session.respond(request, MetadataResponse())
    world.ask(3)
    assert len(world.transport.writes) == 1, "at the end of the event, not a turn later"
    world.route = lambda session, request: None
    world.ask(2)
    world.answer(3)
    world.answer(4)
    assert len(world.transport.writes) == 1
    world.time.end_turn()
    assert len(world.transport.writes) == 2


def test_an_unsupported_api_versions_is_answered_without_any_other_request(world: World) -> None:
    """As Kafka 4.4's brokers began to ask a node that spoke less."""
    _, newer = world.client.request_encoded(ApiKey.API_VERSIONS, 99, b"whatever")
    world.session.received(newer)
    assert world.transport.writes == [
        (16).to_bytes(4, "big") + bytes.fromhex("00000000 0023 00000001 001200000004")
    ]


def test_an_error_does_not_wait_for_the_requests_behind_it(world: World) -> None:
    _, newer = world.client.request_encoded(ApiKey.API_VERSIONS, 99, b"")
    behind = world.client.request(MetadataRequest([]), 12)[1]
    world.session.received(newer + behind)
    assert [len(data) for data in world.transport.writes] == [20]
    assert len(world.requests) == 1


def test_behind_a_large_answer_requests_wait_and_no_more_is_read(world: World) -> None:
    world.route = lambda session, request: session.block(request) if len(world.requests) in (1, 3) else None
    world.ask(4)
    assert len(world.requests) == 1
    assert world.transport.reading == ["pause"]
    world.answer(0, 20)
    world.time.end_turn()
    world.time.end_turn()
    assert len(world.requests) == 3, "up to the next large one"
    world.answer(1, 21)
    world.answer(2, 22)
    for _ in range(3):
        world.time.end_turn()
    assert len(world.requests) == 4
    assert world.transport.reading == ["pause", "resume"]
    world.answer(3, 23)
    world.time.end_turn()
    assert world.answered() == [20, 21, 22, 23]


def test_the_next_large_answer_waits_until_the_client_has_taken_the_one_before(world: World) -> None:
    world.route = lambda session, request: session.block(request)
    world.ask(2)
    world.answer(0)
    world.transport.unsent_bytes = module.MAX_UNSENT_BYTES + 1
    world.time.end_turn()
    world.time.end_turn()
    assert len(world.requests) == 1
    world.transport.unsent_bytes = 0
    world.time.pass_ms(2 * module.DRAIN_POLL_MS)
    assert len(world.requests) == 2


GARBAGE = pytest.mark.parametrize(
    "garbage",
    [b"\xff\xff\xff\xff", b"\x00\x00\x00\x01\x00", b"\x00\x00\x00\x0a\x00\x63" + bytes(8)],
    ids=repr,
)


@GARBAGE
def test_requests_before_a_malformed_frame_are_answered_before_the_connection_closes(
    world: World, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    data = [world.client.request(MetadataRequest([]), 12)[1] for _ in range(2)]
    with caplog.at_level(logging.WARNING):
        world.session.received(b"".join(data) + garbage + data[0])
        world.session.received(data[0])
    assert len(world.requests) == 2
    assert not world.transport.is_closed
    world.answer(1, 21)
    world.time.end_turn()
    assert not world.transport.is_closed
    world.answer(0, 20)
    world.time.end_turn()
    assert world.answered() == [20, 21]
    assert world.transport.is_closed
    assert len(caplog.records) == world.statistics.malformed_frames == 1


def test_a_connection_with_a_malformed_frame_is_not_read_on(world: World) -> None:
    world.route = lambda session, request: session.block(request)
    data = [world.client.request(MetadataRequest([]), 12)[1] for _ in range(2)]
    world.session.received(b"".join(data) + b"\xff\xff\xff\xff")
    world.answer(0)
    for _ in range(3):
        world.time.end_turn()
    assert len(world.requests) == 2
    assert world.transport.reading == ["pause"]


@GARBAGE
def test_a_malformed_frame_is_one_line_and_the_end_of_the_connection(
    world: World, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        world.session.received(garbage)
        world.session.received(garbage)
        world.ask()
    assert world.transport.is_closed
    assert world.requests == []
    (record,) = caplog.records
    assert "192.0.2.7:4711" in record.message
    assert world.statistics.malformed_frames == 1


def test_answers_that_are_ready_still_leave_before_the_connection_is_closed(world: World) -> None:
    world.ask(2)
    world.answer(0, 5)
    world.session.close()
    assert world.answered() == [5]
    assert world.transport.is_closed


def test_an_answer_that_cannot_be_encoded_closes_this_connection(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.ask(2)
    world.answer(0, 5)
    world.session.respond(world.requests[1], MetadataResponse(controller_id=1 << 40))
    assert world.answered() == [5], "it is no fault of the others"
    assert world.transport.is_closed
    assert "cannot be answered" in caplog.text


def test_answers_after_the_end_are_dropped(world: World) -> None:
    world.ask(3)
    world.session.closed("", False)
    world.answer(0)
    world.session.respond_encoded(world.requests[1], b"\x00\x00\x00\x01")
    world.session.respond_not_leader(world.requests[2], MetadataResponse())
    world.time.end_turn()
    assert world.transport.writes == []
    assert world.forgotten == [world.session]


def test_an_encoded_answer_goes_as_it_is(world: World) -> None:
    world.ask()
    world.session.respond_encoded(world.requests[0], b"\x00\x00\x00\x00payload")
    world.time.end_turn()
    assert world.transport.writes == [b"\x00\x00\x00\x0b\x00\x00\x00\x00payload"]


def test_reading_pauses_while_too_much_waits_for_answers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PENDING_REQUESTS", 4)
    world.ask(4)
    assert world.transport.reading == []
    world.ask(2)
    assert world.transport.reading == ["pause"]
    for number in range(4):
        world.answer(number)
        world.time.end_turn()
        assert world.transport.reading == ["pause"]
    world.answer(4)
    world.time.end_turn()
    assert world.transport.reading == ["pause", "resume"]
    world.ask(8)
    assert world.transport.reading == ["pause", "resume", "pause"]


def test_a_client_that_takes_no_answers_is_let_go_with_one_line(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.ask(2)
    world.transport.unsent_bytes = module.MAX_UNSENT_BYTES + 1000
    world.answer(0)
    world.time.end_turn()
    world.answer(1)
    world.time.end_turn()
    assert world.transport.is_closed
    assert len(caplog.records) == 1


def test_one_answer_may_be_larger_than_what_may_wait(world: World) -> None:
    """Metadata of a million partitions is; a client that takes no more after it is let go as well."""
    limit = module.MAX_UNSENT_BYTES
    world.ask(3)
    world.session.respond_encoded(world.requests[0], bytes(2 * limit))
    world.transport.unsent_bytes = 2 * limit
    world.time.end_turn()
    assert not world.transport.is_closed
    world.session.respond_encoded(world.requests[1], bytes(2 * limit))
    world.transport.unsent_bytes = 4 * limit
    world.time.end_turn()
    assert world.transport.is_closed


def test_latency_is_counted_by_api_from_arrival_to_answer(world: World) -> None:
    world.ask()
    world.time.pass_ms(3)
    world.ask()
    world.time.pass_ms(5)
    world.answer(0)
    world.answer(1)
    histogram = world.statistics.request_latency_ms[ApiKey.METADATA]
    assert sum(histogram.counts) == 2
    assert histogram.total == pytest.approx(13)


def test_connections_are_counted(world: World) -> None:
    assert world.statistics.connections_open == 1
    world.session.close()
    world.session.closed("", False)
    assert world.statistics.connections_open == 0


LARGE = 5000
"""Elements of a large request."""


def large_request(world: World) -> bytes:
    return world.client.request(MetadataRequest([MetadataRequestTopic(name="t")] * LARGE), 12)[1]


def test_a_large_request_is_decoded_in_slices_while_what_follows_waits(world: World) -> None:
    before, behind = (world.client.request(MetadataRequest([]), 12)[1] for _ in range(2))
    world.session.received(before + large_request(world) + behind)
    assert len(world.requests) == 1
    turns = 0
    while len(world.requests) == 1 and world.time.heap.step(world.time.heap.now_ms):
        turns += 1
    world.time.end_turn()
    assert turns >= LARGE // (SLICE * STEPS_PER_UNIT)
    assert len(world.requests) == 2, "the one behind waits for the answer"
    message: Any = world.requests[1].message
    assert len(message.topics) == LARGE
    world.answer(0)
    world.answer(1)
    for _ in range(3):
        world.time.end_turn()
    assert len(world.requests) == 3


@pytest.mark.parametrize("cut", [1, 3, 20_000])
def test_a_large_request_that_is_malformed_ends_the_connection_after_those_before_it(
    world: World, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    before, behind = (world.client.request(MetadataRequest([]), 12)[1] for _ in range(2))
    large = large_request(world)[4:-cut]
    with caplog.at_level(logging.WARNING):
        world.session.received(before + len(large).to_bytes(4, "big") + large + behind)
        world.time.end_turn()
    assert len(world.requests) == 1
    assert not world.transport.is_closed
    world.answer(0, 20)
    world.time.end_turn()
    assert world.answered() == [20]
    assert world.transport.is_closed
    assert len(caplog.records) == world.statistics.malformed_frames == 1


def test_a_large_request_of_a_connection_that_is_gone_is_forgotten(world: World) -> None:
    world.session.received(large_request(world))
    world.session.closed("", False)
    world.time.end_turn()
    assert world.requests == []
