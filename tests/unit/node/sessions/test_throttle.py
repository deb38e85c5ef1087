"""Connections of clients beyond their quotas: what their responses say, and that they wait."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.sessions.throttle import is_exempt
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request, encode_response
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.fetch_request import FetchRequest, ReplicaState
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.messages.produce_request import ProduceRequest
from quorumd.protocol.messages.produce_response import ProduceResponse
from quorumd.protocol.routes import Session
from quorumd.quotas.client_quotas import ClientQuotas, QuotaSettings
from quorumd.quotas.entities import CONNECTION_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, QuotaEntity
from tests.support.node.recording_session import request_of
from tests.support.node.session_harness import RecordingTransport, SessionHarness


class ThrottledHarness(SessionHarness):
    """A session with quotas. Every request takes `work_ms` and gets its response at once."""

    def __init__(self) -> None:
        self.limits: dict[QuotaEntity, dict[str, float]] = {}
        super().__init__(ClientQuotas(QuotaSettings(), lambda: self.limits))
        self.work_ms = 0.0
        self.route = self._respond

    def _respond(self, session: Session, request: Request) -> None:
        self.time.heap.now_ms += self.work_ms
        if request.api_key == ApiKey.PRODUCE:
            session.respond(request, ProduceResponse())
        else:
            session.respond(request, MetadataResponse())

    def produce(self, size: int, acks: int = -1) -> None:
        message = ProduceRequest("t" * size, acks)
        self.session.received(self.client.request(message, 12)[1])

    def throttle_times(self) -> list[int]:
        data = b"".join(self.transport.writes)
        self.transport.writes.clear()
        responses: list[Any] = [response for _, response in self.client.receive(data)]
        return [response.throttle_time_ms for response in responses]

    def limit(self, key: str, value: float) -> None:
        self.limits[("user", "alice"),] = {key: value}


@pytest.fixture
def harness() -> ThrottledHarness:
    return ThrottledHarness()


def test_without_quotas_nothing_is_throttled(harness: ThrottledHarness) -> None:
    harness.work_ms = 1000
    harness.produce(10_000)
    harness.time.end_turn()
    harness.send()
    assert harness.throttle_times() == [0, 0]
    assert harness.transport.reading == []


def test_produced_bytes_throttle_the_connection(harness: ThrottledHarness) -> None:
    harness.limit(PRODUCER_BYTE_RATE, 100)
    harness.produce(900)
    assert harness.throttle_times() == [0]
    harness.produce(1000)
    (throttle_ms,) = harness.throttle_times()
    assert 9000 < throttle_ms < 10_000
    assert harness.transport.reading == ["pause"]
    harness.send()
    assert harness.throttle_times() == [], "requests that were sent nevertheless wait"
    harness.time.pass_ms(throttle_ms - 1)
    assert harness.throttle_times() == []
    harness.time.pass_ms(1)
    assert harness.throttle_times() == [0]
    assert harness.transport.reading == ["pause", "resume"]


def test_proven_peer_is_not_throttled(harness: ThrottledHarness) -> None:
    harness.session.origin.is_peer = True
    harness.limit(PRODUCER_BYTE_RATE, 1)
    harness.produce(10_000)
    assert harness.throttle_times() == [0]
    assert harness.transport.reading == []


def test_produce_without_response_throttles_too(harness: ThrottledHarness) -> None:
    harness.limit(PRODUCER_BYTE_RATE, 10)
    harness.route = lambda session, request: session.respond_nothing(request)
    harness.produce(1000, acks=0)
    assert harness.transport.reading == ["pause"]


def test_time_of_handlers_counts_before_their_response(harness: ThrottledHarness) -> None:
    harness.limit(REQUEST_PERCENTAGE, 10)
    harness.work_ms = 1050
    harness.send()
    (throttle_ms,) = harness.throttle_times()
    assert 0 < throttle_ms < 1000, "105 % of a second over 10 seconds"
    harness.time.pass_ms(throttle_ms)
    harness.work_ms = 10_000
    harness.send()
    assert harness.throttle_times() == [1000], "one window at most"


def test_time_of_a_handler_that_responds_later_counts(harness: ThrottledHarness) -> None:
    def take_long(session: Session, request: Request) -> None:
        harness.time.heap.now_ms += 1050

    harness.limit(REQUEST_PERCENTAGE, 10)
    harness.route = take_long
    harness.send()
    assert harness.transport.reading == ["pause"]


def test_handler_brings_a_throttle_time(harness: ThrottledHarness) -> None:
    harness.limit("consumer_byte_rate", 1)
    harness.route = lambda session, request: session.respond(request, MetadataResponse(300))
    harness.send(2)
    assert harness.throttle_times() == [300]
    harness.time.pass_ms(300)
    assert harness.throttle_times() == [300]


def test_encoded_response_brings_a_throttle_time(harness: ThrottledHarness) -> None:
    harness.limit(REQUEST_PERCENTAGE, 10)
    given_ms = [5, 300]

    def respond(session: Session, request: Request) -> None:
        session.respond_encoded(request, encode_response(request, MetadataResponse(given_ms.pop())))

    harness.route = respond
    harness.send(2)
    assert harness.throttle_times() == [300]
    harness.time.pass_ms(300)
    harness.limits.clear()
    harness.time.pass_ms(5)
    assert harness.throttle_times() == [5]


def test_encoded_response_has_a_longer_throttle_time_of_its_connection(harness: ThrottledHarness) -> None:
    harness.limit("consumer_byte_rate", 1)
    harness.route = lambda session, request: None
    harness.send(2)
    for request, throttle_ms in zip(harness.requests, (300, 5), strict=True):
        response = encode_response(request, MetadataResponse(throttle_ms))
        harness.session.respond_encoded(request, response)
    harness.time.pass_ms(300)
    assert harness.throttle_times() == [300, 300]


def test_closed_connection_stays_closed(harness: ThrottledHarness) -> None:
    harness.limit(PRODUCER_BYTE_RATE, 1)
    harness.produce(1000)
    harness.session.closed("", refused=False)
    harness.time.pass_ms(10_000_000)
    assert harness.transport.reading == ["pause"]


def test_longer_throttling_replaces_a_shorter_one(harness: ThrottledHarness) -> None:
    harness.limit("consumer_byte_rate", 1)
    harness.route = lambda session, request: None
    harness.send(2)
    for number, throttle_ms in enumerate((100, 300)):
        harness.session.respond(harness.requests[number], MetadataResponse(throttle_ms))
        assert harness.transport.reading == ["pause"]
    harness.time.pass_ms(100)
    assert harness.throttle_times() == [100, 300]
    harness.send()
    assert len(harness.requests) == 2
    harness.time.pass_ms(200)
    assert len(harness.requests) == 3


def test_connection_beyond_the_rate_of_its_address_is_closed_after_a_wait(harness: ThrottledHarness) -> None:
    harness.limits[("ip", None),] = {CONNECTION_RATE: 0.05}
    harness.transport = RecordingTransport()
    harness.session.connected(harness.transport)
    harness.send()
    assert harness.requests == []
    assert harness.transport.reading == ["pause"]
    assert not harness.transport.is_closed
    harness.time.pass_ms(1000)
    assert harness.transport.is_closed
    assert harness.statistics.quotas.throttled == {}


@pytest.mark.parametrize(
    ("message", "version", "exempt"),
    [
        (BrokerHeartbeatRequest(), 2, True),
        (FetchRequest(replica_id=2), 12, True),
        (FetchRequest(replica_id=0), 12, True),
        (FetchRequest(replica_state=ReplicaState(0)), 15, True),
        (FetchRequest(replica_state=ReplicaState(2)), 15, True),
        (FetchRequest(), 12, False),
        (ProduceRequest(), 12, False),
    ],
)
def test_requests_of_nodes_are_exempt(message: Any, version: int, exempt: bool) -> None:
    assert is_exempt(request_of(message, version)) is exempt


class SlowTask:
    """Every slice takes 350 ms; the last one sends the response."""

    def __init__(self, harness: ThrottledHarness, session: Session, request: Request, slices: int) -> None:
        self._harness, self._session, self._request = harness, session, request
        self._left = slices

    @property
    def is_done(self) -> bool:
        return self._left == 0

    def advance(self, budget: int) -> int:
        self._harness.time.heap.now_ms += 350
        self._left -= 1
        if self.is_done:
            self._session.respond(self._request, MetadataResponse())
        return budget


def test_time_of_slices_counts(harness: ThrottledHarness) -> None:
    """A client with a quota could occupy the event thread with large requests all the time."""
    scheduler = SliceScheduler(harness.time.clock.call_soon, 1, harness.basics.paying)
    harness.limit(REQUEST_PERCENTAGE, 10)
    harness.route = lambda session, request: scheduler.begin(SlowTask(harness, session, request, 6))
    harness.send()
    assert harness.throttle_times() == []
    for _ in range(5):
        harness.time.pass_ms(350)
    (throttle_ms,) = harness.throttle_times()
    assert throttle_ms > 0, "210 % of a second over 12 seconds"
    assert harness.transport.reading == ["pause"]
    assert harness.basics.paying.payer is None
    assert harness.context.quotas.counters.throttled == {REQUEST_PERCENTAGE: 1}


def test_slices_of_other_requests_do_not_count(harness: ThrottledHarness) -> None:
    scheduler = SliceScheduler(harness.time.clock.call_soon, 1, harness.basics.paying)
    harness.limit(REQUEST_PERCENTAGE, 10)
    harness.send()
    harness.throttle_times()
    scheduler.begin(SlowTask(harness, harness.session, harness.requests[0], 20))
    harness.send()
    for _ in range(25):
        harness.time.pass_ms(350)
    assert 0 in harness.throttle_times()
    assert harness.transport.reading == []
