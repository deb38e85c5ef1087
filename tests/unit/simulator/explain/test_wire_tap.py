"""What the tap makes of bytes on connections: which message it was, what was inside, what became of it."""

from __future__ import annotations

from random import Random

from quorumd.ports import Transport
from quorumd.protocol.connection import (
    ClientConnection,
    Request,
    ServerConnection,
    encode_response,
    read_request,
)
from quorumd.protocol.messages import incremental_alter_configs_request as request_wire
from quorumd.protocol.messages import incremental_alter_configs_response as response_wire
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.envelope_request import EnvelopeRequest
from quorumd.protocol.messages.envelope_response import EnvelopeResponse
from quorumd.protocol.wire import Message as WireMessage
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.environment.link_conditions import LinkConditions
from quorumd.simulator.environment.network import SimulatedNetwork
from quorumd.simulator.environment.stream import WINDOW_BYTES
from quorumd.simulator.explain.wire_tap import SPOKEN, Message, WireTap
from tests.support.node.virtual_time import VirtualTime


class Server:
    """Notes what it is asked; `answer` answers the oldest."""

    def __init__(self) -> None:
        self.protocol = ServerConnection(1 << 30, SPOKEN)
        self.asked: list[Request] = []
        self.transport: Transport

    def connected(self, transport: Transport) -> None:
        self.transport = transport

    def received(self, data: bytes) -> None:
        self.asked += self.protocol.receive(data)

    def closed(self, reason: str, refused: bool) -> None: ...

    def answer(self, message: WireMessage) -> None:
        self.protocol.respond(self.asked.pop(0), message)
        self.transport.write(self.protocol.take_output())


class Client(Server):
    def __init__(self) -> None:
        super().__init__()
        self.asks = ClientConnection("test")

    def received(self, data: bytes) -> None: ...

    def ask(self, message: WireMessage, version: int = 0) -> None:
        self.transport.write(self.asks.request(message, version)[1])


class TappedConnection:
    """A client on host a, connected to a server on host b, one millisecond away; the tap fills `messages`."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        even = LinkConditions(latency_ms=(1.0, 1.0), slow_probability=0.0, split_probability=0.0)
        self.network = SimulatedNetwork(self.time.heap, Random(1), even)
        self.messages: list[Message] = []
        self.tap = self.network.tap = WireTap(lambda: self.time.heap.now_ms, self.messages.append)
        self.server, self.client = Server(), Client()
        self.client_process, self.server_process = Process("a", 1, 1), Process("b", 2, 1)
        self.network.host("b", self.server_process).listen("b", 9092, lambda: self.server)
        self.network.host("a", self.client_process).connect("b", 9092, self.client)
        self.run(100.0)

    def run(self, duration_ms: float) -> None:
        self.time.pass_ms(duration_ms)

    def fates(self) -> list[str]:
        """What became of each message once the run ends here."""
        self.tap.ended()
        return [
            "arrived" if message.arrived_ms is not None else "under way" if message.in_flight else "lost"
            for message in self.messages
        ]


ASKED = request_wire.IncrementalAlterConfigsRequest(
    [request_wire.AlterConfigsResource(32, "group", [request_wire.AlterableConfig("key", 0, "value")])]
)


def test_a_message_arrives_or_is_under_way_when_the_run_ends() -> None:
    tapped = TappedConnection()
    tapped.client.ask(ApiVersionsRequest())
    tapped.run(10.0)
    tapped.client.ask(ApiVersionsRequest())
    assert tapped.fates() == ["arrived", "under way"]


def test_what_waits_for_a_blocked_way_is_under_way() -> None:
    tapped = TappedConnection()
    tapped.network.block("a", "b")
    tapped.client.ask(ApiVersionsRequest())
    tapped.run(10.0)
    assert tapped.fates() == ["under way"]


def test_what_the_receiver_is_not_there_for_any_more_never_arrives() -> None:
    tapped = TappedConnection()
    tapped.client.ask(ApiVersionsRequest())
    tapped.server_process.alive = False
    tapped.network.process_ended(tapped.server_process)
    assert tapped.fates() == ["lost"]


def test_what_the_sender_took_with_it_never_arrives() -> None:
    """What the network has taken from it comes all the same."""
    tapped = TappedConnection()
    tapped.network.block("a", "b")
    tapped.client.ask(ApiVersionsRequest())
    tapped.client.ask(EnvelopeRequest(bytes(WINDOW_BYTES)))
    tapped.client.ask(ApiVersionsRequest())
    tapped.run(10.0)
    assert tapped.fates() == ["under way", "under way", "under way"]
    tapped.client_process.alive = False
    tapped.network.process_ended(tapped.client_process, silently=True)
    assert tapped.fates() == ["under way", "under way", "lost"]
    tapped.network.heal()
    tapped.run(1000.0)
    assert tapped.fates() == ["arrived", "arrived", "lost"]


def test_an_envelope_is_told_with_what_is_inside() -> None:
    tapped = TappedConnection()
    inside = read_request(tapped.client.asks.request(ASKED, 1)[1][4:], SPOKEN)
    tapped.client.ask(EnvelopeRequest(inside.frame))
    tapped.run(10.0)
    result = response_wire.AlterConfigsResourceResponse(41, None, 32, "group")
    answer = response_wire.IncrementalAlterConfigsResponse(0, [result])
    tapped.server.answer(EnvelopeResponse(encode_response(inside, answer)))
    asked, answered = tapped.messages
    assert asked.name == "EnvelopeRequest(IncrementalAlterConfigs)"
    assert asked.facts == ["of group", "key key", "value value"]
    assert answered.name == "EnvelopeResponse(IncrementalAlterConfigs)"
    assert "error NOT_CONTROLLER (41)" in answered.facts


def test_an_envelope_that_is_sent_back_unopened_has_its_own_error() -> None:
    tapped = TappedConnection()
    inside = read_request(tapped.client.asks.request(ASKED, 1)[1][4:], SPOKEN)
    tapped.client.ask(EnvelopeRequest(inside.frame))
    tapped.run(10.0)
    tapped.server.answer(EnvelopeResponse(None, 41))
    assert (tapped.messages[1].name, tapped.messages[1].facts) == (
        "EnvelopeResponse",
        ["error NOT_CONTROLLER (41)"],
    )


def test_an_envelope_without_a_request_inside_is_an_envelope() -> None:
    tapped = TappedConnection()
    tapped.client.ask(EnvelopeRequest(b"no request"))
    tapped.run(10.0)
    tapped.server.answer(EnvelopeResponse(None, 35))
    assert [message.name for message in tapped.messages] == ["EnvelopeRequest", "EnvelopeResponse"]
