"""OAUTHBEARER (RFC 7628): the client sends a token that an identity provider signed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from quorumd.errors import AuthenticationFailed
from quorumd.security.sasl.exchange import Proof, user

OAUTHBEARER: Final = "OAUTHBEARER"
MAX_PAIRS: Final = 32
"""In half a megabyte of pairs it takes 60 ms to find the token."""
_SEPARATOR: Final = "\x01"
_INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
_MESSAGE: Final = re.compile(r"n,(?:a=(?P<authzid>[^,]*))?,\x01(?P<pairs>(?:[^\x01]+\x01)*)\x01")
_BEARER: Final = re.compile(r"auth=bearer +(?P<token>[A-Za-z0-9._~+/=-]+) *", re.IGNORECASE)


class TokenValidator(Protocol):
    """Verifies tokens."""

    def validate(self, token: str) -> Proof:
        """Verify a token and return the principal that it proves. Raises AuthenticationFailed."""


class OAuthBearerServer:
    """The server's side. As RFC 7628 requires, an invalid token is reported by a message that the client
    acknowledges."""

    def __init__(self, validator: TokenValidator) -> None:
        self.proof: Proof | None = None
        self._validator = validator
        self._failure: AuthenticationFailed | None = None

    def evaluate(self, token: bytes) -> bytes:
        """See `SaslServer`."""
        if self._failure is not None:
            raise self._failure
        bearer, authorization_id = _parse(token)
        try:
            proof = self._validator.validate(bearer)
        except AuthenticationFailed as failure:
            self._failure = failure
            return _INVALID_TOKEN
        if authorization_id and user(authorization_id) != proof.principal:
            raise AuthenticationFailed("a client cannot act as another user")
        self.proof = proof
        return b""


class OAuthBearerClient:
    """The client's side; `token` provides a valid token."""

    mechanism = OAUTHBEARER

    def __init__(self, token: Callable[[], str]) -> None:
        self.is_complete = False
        self._token = token
        self._is_sent = False

    def evaluate(self, challenge: bytes) -> bytes:
        """See `SaslClient`."""
        if not self._is_sent:
            self._is_sent = True
            return f"n,,{_SEPARATOR}auth=Bearer {self._token()}{_SEPARATOR}{_SEPARATOR}".encode()
        if challenge:
            return _SEPARATOR.encode()
        self.is_complete = True
        return b""


def _parse(token: bytes) -> tuple[str, str]:
    """The bearer token and the authorization id."""
    if token.count(_SEPARATOR.encode()) > MAX_PAIRS + 2:
        raise AuthenticationFailed(f"the OAUTHBEARER message has more than {MAX_PAIRS} pairs")
    try:
        message = _MESSAGE.fullmatch(token.decode())
    except UnicodeDecodeError:
        message = None
    if message is None:
        raise AuthenticationFailed("the OAUTHBEARER message is malformed")
    pairs = message["pairs"].split(_SEPARATOR)
    bearers = [found for pair in pairs if (found := _BEARER.fullmatch(pair)) is not None]
    if len(bearers) != 1:
        raise AuthenticationFailed("the OAUTHBEARER message needs one bearer token")
    return bearers[0]["token"], message["authzid"] or ""
