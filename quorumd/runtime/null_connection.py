"""The Connection of an accepted link until its TLS handshake is complete."""

from __future__ import annotations


class NullConnection:
    """A Connection that ignores its callbacks."""

    def connected(self, transport: object) -> None: ...

    def received(self, data: bytes) -> None: ...

    def closed(self, reason: str, refused: bool) -> None: ...
