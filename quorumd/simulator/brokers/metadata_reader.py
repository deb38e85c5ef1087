"""A client that requests the metadata of all topics several times in one write, after a request with an unsupported
version."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from quorumd.ports import Transport
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.simulator.brokers.observation import Observation
from quorumd.simulator.environment.event_heap import EventHeap, Process, Scheduled
from quorumd.simulator.environment.network import SimulatedNetwork

HOST: Final = "10.0.5.1"
EVERY_MS: Final = 300.0
TIMEOUT_MS: Final = 2000.0
UNSUPPORTED_VERSION: Final = 99
METADATA_VERSION: Final = 12
PIPELINED: Final = 3


class MetadataReader:
    """Requests metadata from one node after another until `running` is False. With `nothing_fails`, a missing
    response is a violation."""

    def __init__(
        self,
        heap: EventHeap,
        network: SimulatedNetwork,
        random: Random,
        observation: Observation,
        nodes: Sequence[tuple[str, int]],
        nothing_fails: bool,
    ) -> None:
        self.running = True
        self.responses = 0
        self._heap = heap
        self._process = Process("metadata reader")
        self._network = network.host(HOST, self._process)
        self._random = random
        self._observation = observation
        self._nodes = nodes
        self._nothing_fails = nothing_fails

    def start(self) -> None:
        self._heap.call_later(EVERY_MS, self._send, b"metadata reader", self._process)

    def _send(self) -> None:
        if self.running:
            host, port = self._random.choice(self._nodes)
            self._network.connect(host, port, _MetadataConnection(self, self._heap, self._process))

    def over(self, missing: int) -> None:
        """Handle the end of a connection on which `missing` responses did not arrive in time."""
        if missing and self._nothing_fails and self.running:
            self._observation.metadata_lost(missing)
        self.start()

    def responded(self, message: MetadataResponse) -> None:
        self.responses += 1
        self._observation.metadata_received(message)


class _MetadataConnection:
    """Sends a request with an unsupported version, and then requests for metadata. Satisfies `ports.Connection`."""

    def __init__(self, reader: MetadataReader, heap: EventHeap, process: Process) -> None:
        self._reader = reader
        self._heap = heap
        self._process = process
        self._client = ClientConnection("metadata reader")
        self._transport: Transport | None = None
        self._timer: Scheduled | None = None
        self._has_requested = False

    def connected(self, transport: Transport) -> None:
        self._transport = transport
        transport.write(self._client.request_encoded(ApiKey.API_VERSIONS, UNSUPPORTED_VERSION, b"")[1])
        self._timer = self._heap.call_later(TIMEOUT_MS, self._waited, b"timeout", self._process)

    def received(self, data: bytes) -> None:
        for _, message in self._client.receive(data):
            if isinstance(message, MetadataResponse):
                self._reader.responded(message)
        if self._client.in_flight or self._transport is None:
            return
        if self._has_requested:
            self._transport.close()
            return
        self._has_requested = True
        requests = [
            self._client.request(MetadataRequest(None), METADATA_VERSION)[1] for _ in range(PIPELINED)
        ]
        self._transport.write(b"".join(requests))

    def _waited(self) -> None:
        missing, self._timer = self._client.in_flight, None
        if self._transport is not None:
            self._transport.close()
        self._reader.over(missing)

    def closed(self, reason: str, refused: bool) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif self._client.in_flight or self._has_requested:
            return
        self._reader.over(0)
