"""PLAIN: name and password in one token. Protects nothing without TLS."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from quorumd.errors import AuthenticationFailed
from quorumd.security.sasl.exchange import Proof, user

PLAIN: Final = "PLAIN"


class PlainServer:
    """Checks the password against those of `users`."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self.proof: Proof | None = None
        self._users = users

    def evaluate(self, token: bytes) -> bytes:
        """See `SaslServer`."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise AuthenticationFailed("the PLAIN token is not UTF-8") from None
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise AuthenticationFailed("the PLAIN token needs a name and a password")
        authorization_id, name, password = parts
        expected = self._users.get(name)
        # The comparison takes as long for an unknown name.
        is_equal = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not is_equal:
            raise AuthenticationFailed("invalid name or password")
        if authorization_id not in ("", name):
            raise AuthenticationFailed("a client cannot act as another user")
        self.proof = Proof(user(name))
        return b""


class PlainClient:
    """Sends the password."""

    mechanism = PLAIN

    def __init__(self, name: str, password: str) -> None:
        self.is_complete = False
        self._token = f"\0{name}\0{password}".encode()

    def evaluate(self, challenge: bytes) -> bytes:
        """See `SaslClient`."""
        self.is_complete = True
        return self._token
