"""The server's side of a SASL exchange, and what it proves; the client's side is `protocol.handshake.SaslClient`."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Proof(NamedTuple):
    """The result of a successful exchange."""

    principal: str
    """The principal of the client, as `Type:Name`."""
    expires_at_ms: int | None = None
    """Unix time in milliseconds until which the credentials are valid, None without a limit."""
    is_token: bool = False
    """Whether the client used a delegation token: it must not create further tokens."""


class SaslServer(Protocol):
    """The server's side of one exchange."""

    proof: Proof | None
    """None until the client has proved its identity."""

    def evaluate(self, token: bytes) -> bytes:
        """Return the response to the client's next token. Raises AuthenticationFailed."""


def user(name: str) -> str:
    """The principal of a user."""
    return f"User:{name}"
