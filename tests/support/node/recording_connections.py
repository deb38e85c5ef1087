"""Connections to other nodes that keep the calls."""

from __future__ import annotations

from quorumd.node.peers.connection import Call


class RecordingConnections:
    """Keeps the calls to addresses. `closed`: how often all connections were closed."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, Call]] = []
        self.closed = 0

    def call(self, host: str, port: int, call: Call) -> None:
        self.calls.append((host, port, call))

    def close(self) -> None:
        self.closed += 1
