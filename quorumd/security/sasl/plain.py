"""PLAIN: name and password in one token, unprotected without TLS."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from quorumd.errors import AuthenticationFailed
from quorumd.security.sasl.exchange import Proof, user

PLAIN: Final = "PLAIN"


class PlainServer:
    """The server's side; `users` has the passwords by name."""

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
        # Compare for an unknown name too, so that timing does not reveal which names exist.
        is_equal = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not is_equal:
            raise AuthenticationFailed("invalid name or password")
        if authorization_id not in ("", name):
            raise AuthenticationFailed("a client cannot act as another user")
        self.proof = Proof(user(name))
        return b""


class PlainClient:
    """The client's side."""

    mechanism = PLAIN

    def __init__(self, name: str, password: str) -> None:
        self.is_complete = False
        self._token = f"\0{name}\0{password}".encode()

    def evaluate(self, challenge: bytes) -> bytes:
        """See `SaslClient`."""
        self.is_complete = True
        return self._token
