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
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.environment.link_conditions import LinkConditions
from quorumd.simulator.environment.network import SimulatedNetwork
from quorumd.simulator.environment.stream import WINDOW_BYTES
from quorumd.simulator.explain.wire_tap import SPOKEN, Message, WireTap


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
        self.protocol.answer(self.asked.pop(0), message)
        self.transport.write(self.protocol.take_output())


class Client(Server):
    def __init__(self) -> None:
        super().__init__()
        self.asks = ClientConnection("test")

    def received(self, data: bytes) -> None: ...

    def ask(self, message: WireMessage, version: int = 0) -> None:
        self.transport.write(self.asks.request(message, version)[1])


class World:
    """A client on host a, connected to a server on host b, one millisecond away; `said` is what the tap heard."""

    def __init__(self) -> None:
        self.heap = EventHeap()
        even = LinkConditions(latency_ms=(1.0, 1.0), slow_probability=0.0, split_probability=0.0)
        self.network = SimulatedNetwork(self.heap, Random(1), even)
        self.said: list[Message] = []
        self.tap = self.network.tap = WireTap(lambda: self.heap.now_ms, self.said.append)
        self.server, self.client = Server(), Client()
        self.client_process, self.server_process = Process("a", 1, 1), Process("b", 2, 1)
        self.network.host("b", self.server_process).listen("b", 9092, lambda: self.server)
        self.network.host("a", self.client_process).connect("b", 9092, self.client)
        self.run(100.0)

    def run(self, duration_ms: float) -> None:
        until = self.heap.now_ms + duration_ms
        while self.heap.step(until):
            pass

    def fates(self) -> list[str]:
        """What became of each message once the run ends here."""
        self.tap.ended()
        return [
            "arrived" if message.arrived_ms is not None else "under way" if message.in_flight else "lost"
            for message in self.said
        ]


ASKED = request_wire.IncrementalAlterConfigsRequest(
    [request_wire.AlterConfigsResource(32, "group", [request_wire.AlterableConfig("key", 0, "value")])]
)


def test_a_message_arrives_or_is_under_way_when_the_run_ends() -> None:
    world = World()
    world.client.ask(ApiVersionsRequest())
    world.run(10.0)
    world.client.ask(ApiVersionsRequest())
    assert world.fates() == ["arrived", "under way"]


def test_what_waits_for_a_blocked_way_is_under_way() -> None:
    world = World()
    world.network.block("a", "b")
    world.client.ask(ApiVersionsRequest())
    world.run(10.0)
    assert world.fates() == ["under way"]


def test_what_the_receiver_is_not_there_for_any_more_never_arrives() -> None:
    world = World()
    world.client.ask(ApiVersionsRequest())
    world.server_process.alive = False
    world.network.process_ended(world.server_process)
    assert world.fates() == ["lost"]


def test_what_the_sender_took_with_it_never_arrives() -> None:
    """What the network has taken from it comes all the same."""
    world = World()
    world.network.block("a", "b")
    world.client.ask(ApiVersionsRequest())
    world.client.ask(EnvelopeRequest(bytes(WINDOW_BYTES)))
    world.client.ask(ApiVersionsRequest())
    world.run(10.0)
    assert world.fates() == ["under way", "under way", "under way"]
    world.client_process.alive = False
    world.network.process_ended(world.client_process, silently=True)
    assert world.fates() == ["under way", "under way", "lost"]
    world.network.heal()
    world.run(1000.0)
    assert world.fates() == ["arrived", "arrived", "lost"]


def test_an_envelope_is_told_with_what_is_inside() -> None:
    world = World()
    inside = read_request(world.client.asks.request(ASKED, 1)[1][4:], SPOKEN)
    world.client.ask(EnvelopeRequest(inside.frame))
    world.run(10.0)
    result = response_wire.AlterConfigsResourceResponse(41, None, 32, "group")
    answer = response_wire.IncrementalAlterConfigsResponse(0, [result])
    world.server.answer(EnvelopeResponse(encode_response(inside, answer)))
    asked, answered = world.said
    assert asked.name == "EnvelopeRequest(IncrementalAlterConfigs)"
    assert asked.facts == ["of group", "key key", "value value"]
    assert answered.name == "EnvelopeResponse(IncrementalAlterConfigs)"
    assert "error NOT_CONTROLLER (41)" in answered.facts


def test_an_envelope_that_is_sent_back_unopened_has_its_own_error() -> None:
    world = World()
    inside = read_request(world.client.asks.request(ASKED, 1)[1][4:], SPOKEN)
    world.client.ask(EnvelopeRequest(inside.frame))
    world.run(10.0)
    world.server.answer(EnvelopeResponse(None, 41))
    assert (world.said[1].name, world.said[1].facts) == ("EnvelopeResponse", ["error NOT_CONTROLLER (41)"])


def test_an_envelope_without_a_request_inside_is_an_envelope() -> None:
    world = World()
    world.client.ask(EnvelopeRequest(b"no request"))
    world.run(10.0)
    world.server.answer(EnvelopeResponse(None, 35))
    assert [message.name for message in world.said] == ["EnvelopeRequest", "EnvelopeResponse"]
