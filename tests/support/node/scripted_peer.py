"""A scripted peer on the simulated network, over the server side of the real protocol."""

from __future__ import annotations

from quorumd.ports import Transport
from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.connection import Request, ServerConnection, VersionRanges
from quorumd.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.environment.network import SimulatedNetwork

ALL_APIS = {key: (api.min_version, api.max_version) for key, api in APIS.items()}


class ScriptedPeer:
    """Listens at `host:port`. Responds to ApiVersions itself, to other requests when `respond` is called."""

    def __init__(
        self,
        network: SimulatedNetwork,
        host: str = "peer",
        port: int = 9092,
        supported_versions: VersionRanges = ALL_APIS,
    ) -> None:
        self.supported_versions = supported_versions
        self.links: list[Link] = []
        self.pending: list[Request] = []
        """Requests without a response, in order."""
        self.greets = True
        """Whether it responds to ApiVersions."""
        self.listener = network.host(host).listen(host, port, self._accept)

    def respond(self, message: Message, number: int = 0) -> None:
        """Respond to one of the pending requests."""
        request = self.pending.pop(number)
        link = next(link for link in self.links if link.connection is request.connection)
        link.connection.respond(request, message)
        link.write(link.connection.take_output())

    def _accept(self) -> Link:
        self.links.append(Link(self))
        return self.links[-1]


class Link:
    """The peer's end of one connection."""

    def __init__(self, peer: ScriptedPeer) -> None:
        self.connection = ServerConnection(1 << 24, peer.supported_versions)
        self.is_closed = False
        self._peer = peer
        self._transport: Transport | None = None

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def connected(self, transport: Transport) -> None:
        self._transport = transport

    def received(self, data: bytes) -> None:
        for request in self.connection.receive(data):
            if request.api_key != ApiKey.API_VERSIONS:
                self._peer.pending.append(request)
            elif self._peer.greets:
                self.connection.respond(request, self._greeting())
        self.write(self.connection.take_output())

    def closed(self, reason: str, refused: bool) -> None:
        self.is_closed = True

    def _greeting(self) -> Message:
        ranges = [ApiVersion(key, low, high) for key, (low, high) in self._peer.supported_versions.items()]
        return ApiVersionsResponse(0, ranges)
