"""The wire tap parses messages from connections, the requests inside, and their arrival."""

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
from quorumd.simulator.explain.wire_tap import SUPPORTED_VERSIONS, Message, WireTap
from tests.support.node.virtual_time import VirtualTime


class Server:
    """Records requests; `respond` responds to the oldest."""

    def __init__(self) -> None:
        self.protocol = ServerConnection(1 << 30, SUPPORTED_VERSIONS)
        self.pending: list[Request] = []
        self.transport: Transport

    def connected(self, transport: Transport) -> None:
        self.transport = transport

    def received(self, data: bytes) -> None:
        self.pending += self.protocol.receive(data)

    def closed(self, reason: str, refused: bool) -> None: ...

    def respond(self, message: WireMessage) -> None:
        self.protocol.respond(self.pending.pop(0), message)
        self.transport.write(self.protocol.take_output())


class Client(Server):
    def __init__(self) -> None:
        super().__init__()
        self.protocol_client = ClientConnection("test")

    def received(self, data: bytes) -> None: ...

    def send(self, message: WireMessage, version: int = 0) -> None:
        self.transport.write(self.protocol_client.request(message, version)[1])


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
        """Return the fate of each message if the run ends here."""
        self.tap.ended()
        return [
            "arrived" if message.arrived_ms is not None else "under way" if message.in_flight else "lost"
            for message in self.messages
        ]


REQUEST = request_wire.IncrementalAlterConfigsRequest(
    [request_wire.AlterConfigsResource(32, "group", [request_wire.AlterableConfig("key", 0, "value")])]
)


def test_message_arrives_or_is_in_flight_when_the_run_ends() -> None:
    tapped = TappedConnection()
    tapped.client.send(ApiVersionsRequest())
    tapped.run(10.0)
    tapped.client.send(ApiVersionsRequest())
    assert tapped.fates() == ["arrived", "under way"]


def test_message_waiting_for_a_blocked_path_is_in_flight() -> None:
    tapped = TappedConnection()
    tapped.network.block("a", "b")
    tapped.client.send(ApiVersionsRequest())
    tapped.run(10.0)
    assert tapped.fates() == ["under way"]


def test_message_to_an_ended_receiver_never_arrives() -> None:
    tapped = TappedConnection()
    tapped.client.send(ApiVersionsRequest())
    tapped.server_process.alive = False
    tapped.network.process_ended(tapped.server_process)
    assert tapped.fates() == ["lost"]


def test_unsent_message_of_an_ended_sender_never_arrives() -> None:
    """Data that the network has accepted still arrives."""
    tapped = TappedConnection()
    tapped.network.block("a", "b")
    tapped.client.send(ApiVersionsRequest())
    tapped.client.send(EnvelopeRequest(bytes(WINDOW_BYTES)))
    tapped.client.send(ApiVersionsRequest())
    tapped.run(10.0)
    assert tapped.fates() == ["under way", "under way", "under way"]
    tapped.client_process.alive = False
    tapped.network.process_ended(tapped.client_process, silently=True)
    assert tapped.fates() == ["under way", "under way", "lost"]
    tapped.network.heal()
    tapped.run(1000.0)
    assert tapped.fates() == ["arrived", "arrived", "lost"]


def test_envelope_is_shown_with_its_content() -> None:
    tapped = TappedConnection()
    inside = read_request(tapped.client.protocol_client.request(REQUEST, 1)[1][4:], SUPPORTED_VERSIONS)
    tapped.client.send(EnvelopeRequest(inside.frame))
    tapped.run(10.0)
    result = response_wire.AlterConfigsResourceResponse(41, None, 32, "group")
    inner = response_wire.IncrementalAlterConfigsResponse(0, [result])
    tapped.server.respond(EnvelopeResponse(encode_response(inside, inner)))
    request, response = tapped.messages
    assert request.name == "EnvelopeRequest(IncrementalAlterConfigs)"
    assert request.facts == ["of group", "key key", "value value"]
    assert response.name == "EnvelopeResponse(IncrementalAlterConfigs)"
    assert "error NOT_CONTROLLER (41)" in response.facts


def test_refused_envelope_has_its_own_error() -> None:
    tapped = TappedConnection()
    inside = read_request(tapped.client.protocol_client.request(REQUEST, 1)[1][4:], SUPPORTED_VERSIONS)
    tapped.client.send(EnvelopeRequest(inside.frame))
    tapped.run(10.0)
    tapped.server.respond(EnvelopeResponse(None, 41))
    assert (tapped.messages[1].name, tapped.messages[1].facts) == (
        "EnvelopeResponse",
        ["error NOT_CONTROLLER (41)"],
    )


def test_envelope_without_a_request_inside_is_an_envelope() -> None:
    tapped = TappedConnection()
    tapped.client.send(EnvelopeRequest(b"no request"))
    tapped.run(10.0)
    tapped.server.respond(EnvelopeResponse(None, 35))
    assert [message.name for message in tapped.messages] == ["EnvelopeRequest", "EnvelopeResponse"]
