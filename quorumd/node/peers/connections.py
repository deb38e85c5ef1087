"""The open connections of a node to other nodes, one per address and purpose."""

from __future__ import annotations

from quorumd.node.peers.connection import Call, PeerConnection, PeerSettings, Purpose
from quorumd.ports import Clock, Network


class PeerConnections:
    """Opens a connection at the first call to an address for a purpose."""

    def __init__(self, network: Network, clock: Clock, settings: PeerSettings) -> None:
        self._network = network
        self._clock = clock
        self._settings = settings
        self._connections: dict[tuple[str, int, Purpose], PeerConnection] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def call(self, host: str, port: int, call: Call, purpose: Purpose = Purpose.DISCOVERY) -> None:
        """Send a request to an address."""
        key = (host, port, purpose)
        connection = self._connections.get(key)
        if connection is None:
            self._drop_idle()
            connection = PeerConnection(
                self._network,
                self._clock,
                host,
                port,
                self._settings,
                is_quorum=purpose in (Purpose.QUORUM, Purpose.FETCH),
            )
            self._connections[key] = connection
        connection.call(call)

    def get(self, host: str, port: int, purpose: Purpose) -> PeerConnection | None:
        """The connection for calls to this address, None if there was no call yet."""
        return self._connections.get((host, port, purpose))

    def close(self) -> None:
        """Close all connections; calls in flight get no callback."""
        for connection in self._connections.values():
            connection.close()

    def _drop_idle(self) -> None:
        """Drop connections to addresses that nodes no longer use."""
        for key in [key for key, connection in self._connections.items() if connection.is_idle]:
            del self._connections[key]
