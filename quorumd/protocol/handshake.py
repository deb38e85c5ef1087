"""The first requests on a connection: version negotiation with ApiVersions, then SASL authentication, if configured.

client = ClientConnection(client_id)
handshake = Handshake(client)
transport.write(handshake.begin())              ApiVersions; pass the responses to `handshake.handle_response`
version = choose_version(api_key, handshake.peer_ranges)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quorumd import __version__
from quorumd.errors import AuthenticationFailed, ErrorCode, MalformedMessage, UnsupportedVersion
from quorumd.protocol.apis import ApiKey, api
from quorumd.protocol.connection import CLIENT_SOFTWARE_NAME, ClientConnection, VersionRanges
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.api_versions_response import ApiVersionsResponse
from quorumd.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from quorumd.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from quorumd.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from quorumd.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from quorumd.protocol.wire import Message

SASL_HANDSHAKE_VERSION = 1
"""Version 1 is followed by SaslAuthenticate requests, version 0 by tokens without a request header (KIP-152)."""


class SaslClient(Protocol):
    """The client's side of one SASL exchange."""

    mechanism: str
    is_complete: bool
    """Whether the client expects no further token."""

    def evaluate(self, challenge: bytes) -> bytes:
        """Return the next token; the first challenge is empty. Raises AuthenticationFailed if the server does not
        prove that it has the client's credential."""


class Handshake:
    """Learns the API versions of the peer and authenticates the client.

    `peer_ranges`: empty until the peer's versions are known. `session_lifetime_ms`: how long the authentication is
    valid (KIP-368), 0 for no limit. `new_sasl_client()`: starts a SASL exchange; None without SASL.
    """

    def __init__(
        self, connection: ClientConnection, new_sasl_client: Callable[[], SaslClient] | None = None
    ) -> None:
        self.peer_ranges: VersionRanges = {}
        self.session_lifetime_ms = 0
        self._connection = connection
        self._new_sasl_client = new_sasl_client
        self._sasl: SaslClient | None = None
        self._version = ApiVersionsRequest.MAX_VERSION

    def begin(self) -> bytes:
        """Return the first bytes to send."""
        request = ApiVersionsRequest(
            client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=__version__
        )
        return self._connection.request(request, self._version)[1]

    def handle_response(self, response: Message) -> bytes | None:
        """Return the bytes to send next, None once other requests may be sent.

        Raises UnsupportedVersion if the two sides have no version of ApiVersions in common, AuthenticationFailed if
        one of them fails to authenticate, and MalformedMessage for any other error or response.
        """
        if self._sasl is not None:
            return self._handle_sasl_response(response, self._sasl)
        if not isinstance(response, ApiVersionsResponse):
            raise MalformedMessage(f"expected ApiVersionsResponse, received {response.NAME}")
        ranges = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            return self._retry(ranges.get(ApiKey.API_VERSIONS, (0, 0)))
        if response.error_code != ErrorCode.NONE:
            code = ErrorCode.describe(response.error_code)
            raise MalformedMessage(f"ApiVersions v{self._version} failed with {code}")
        self.peer_ranges = ranges
        return self.authenticate()

    def authenticate(self) -> bytes | None:
        """Begin to authenticate, or to re-authenticate (KIP-368); return the bytes to send, None without SASL."""
        if self._new_sasl_client is None:
            return None
        self._sasl = self._new_sasl_client()
        request = SaslHandshakeRequest(self._sasl.mechanism)
        return self._connection.request(request, SASL_HANDSHAKE_VERSION)[1]

    def _handle_sasl_response(self, response: Message, sasl: SaslClient) -> bytes | None:
        if isinstance(response, SaslHandshakeResponse):
            if response.error_code != ErrorCode.NONE:
                offered = ", ".join(response.mechanisms) or "none"
                error = ErrorCode.describe(response.error_code)
                raise AuthenticationFailed(
                    f"SASL mechanism {sasl.mechanism}: {error}; the peer supports: {offered}"
                )
            return self._send_token(sasl.evaluate(b""))
        if not isinstance(response, SaslAuthenticateResponse):
            raise MalformedMessage(f"expected SaslAuthenticateResponse, received {response.NAME}")
        if response.error_code != ErrorCode.NONE:
            error = ErrorCode.describe(response.error_code)
            raise AuthenticationFailed(f"{sasl.mechanism}: {error}: {response.error_message}")
        if not sasl.is_complete:
            token = sasl.evaluate(response.auth_bytes)
            if not sasl.is_complete:
                return self._send_token(token)
        self._sasl = None
        self.session_lifetime_ms = response.session_lifetime_ms
        return None

    def _send_token(self, token: bytes) -> bytes:
        version = choose_version(ApiKey.SASL_AUTHENTICATE, self.peer_ranges)
        if version is None:
            raise UnsupportedVersion("the peer does not support SaslAuthenticate")
        return self._connection.request(SaslAuthenticateRequest(token), version)[1]

    def _retry(self, versions: tuple[int, int]) -> bytes:
        # Each retry uses a lower version than the rejected one, so their number is bounded.
        low, high = versions
        if not low <= min(high, self._version - 1):
            raise UnsupportedVersion(
                f"the peer supports ApiVersions v{low} to v{high} but rejects v{self._version}"
            )
        self._version = min(high, self._version - 1)
        return self.begin()


def choose_version(api_key: int, peer_ranges: VersionRanges) -> int | None:
    """Return the highest version of an API that both sides support; None if there is none.

    Raises UnsupportedVersion for an unknown API.
    """
    own = api(api_key)
    low, high = peer_ranges.get(api_key, (0, -1))
    version = min(high, own.max_version)
    return version if version >= max(low, own.min_version) else None
