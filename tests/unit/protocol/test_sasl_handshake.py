"""A client authenticates with SASL after ApiVersions, before its first request."""

from __future__ import annotations

import pytest

from quorumd.errors import AuthenticationFailed, ErrorCode, MalformedMessage, UnsupportedVersion
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import ClientConnection, ServerConnection
from quorumd.protocol.handshake import Handshake
from quorumd.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from quorumd.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from quorumd.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from quorumd.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from quorumd.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from quorumd.protocol.wire import Message

SERVED = {18: (0, 4), 17: (1, 1), 36: (0, 2)}


class TwoTokens:
    """A mechanism of two tokens and a last challenge."""

    mechanism = "TWO"

    def __init__(self) -> None:
        self.challenges: list[bytes] = []

    @property
    def is_complete(self) -> bool:
        return len(self.challenges) == 3

    def evaluate(self, challenge: bytes) -> bytes:
        self.challenges.append(challenge)
        return b"token %d" % len(self.challenges)


def versions(served: dict[int, tuple[int, int]] = SERVED) -> ApiVersionsResponse:
    return ApiVersionsResponse(0, [ApiVersion(key, *served[key]) for key in served])


def requests_in(data: bytes | None) -> list[Message]:
    assert data is not None
    return [request.message for request in ServerConnection(1 << 20, SERVED).receive(data)]


def handshake() -> Handshake:
    return Handshake(ClientConnection("test"), TwoTokens)


def test_tokens_are_exchanged_until_both_sides_are_done() -> None:
    client = handshake()
    (first,) = requests_in(client.handle_response(versions()))
    assert isinstance(first, SaslHandshakeRequest)
    assert first.mechanism == "TWO"
    (token,) = requests_in(client.handle_response(SaslHandshakeResponse(0, ["TWO"])))
    assert isinstance(token, SaslAuthenticateRequest)
    assert token.auth_bytes == b"token 1"
    (token,) = requests_in(client.handle_response(SaslAuthenticateResponse(0, None, b"challenge")))
    assert isinstance(token, SaslAuthenticateRequest)
    assert token.auth_bytes == b"token 2"
    assert client.handle_response(SaslAuthenticateResponse(0, None, b"", 60_000)) is None
    assert client.session_lifetime_ms == 60_000


def test_refusals_are_reported() -> None:
    client = handshake()
    client.handle_response(versions())
    with pytest.raises(AuthenticationFailed, match="PLAIN"):
        client.handle_response(SaslHandshakeResponse(int(ErrorCode.UNSUPPORTED_SASL_MECHANISM), ["PLAIN"]))
    client = handshake()
    client.handle_response(versions())
    client.handle_response(SaslHandshakeResponse(0, ["TWO"]))
    with pytest.raises(AuthenticationFailed, match="wrong password"):
        client.handle_response(
            SaslAuthenticateResponse(int(ErrorCode.SASL_AUTHENTICATION_FAILED), "wrong password")
        )


def test_other_responses_are_malformed() -> None:
    client = handshake()
    client.handle_response(versions())
    with pytest.raises(MalformedMessage, match="ApiVersionsResponse"):
        client.handle_response(versions())


def test_peer_without_sasl_authenticate_is_refused() -> None:
    client = handshake()
    client.handle_response(versions({18: (0, 4), 17: (1, 1)}))
    with pytest.raises(UnsupportedVersion):
        client.handle_response(SaslHandshakeResponse(0, ["TWO"]))
    assert ApiKey.SASL_AUTHENTICATE not in client.peer_ranges
