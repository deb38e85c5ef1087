"""Version negotiation with ApiVersions, before any other request on a connection.

client = ClientConnection(client_id)
handshake = Handshake(client)
transport.write(handshake.begin())              ApiVersions; pass its responses to `handshake.handle_response`
version = choose_version(api_key, handshake.peer_ranges)
"""

from __future__ import annotations

from quorumd import __version__
from quorumd.errors import ErrorCode, MalformedMessage, UnsupportedVersion
from quorumd.protocol.apis import ApiKey, api
from quorumd.protocol.connection import CLIENT_SOFTWARE_NAME, ClientConnection, VersionRanges
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.api_versions_response import ApiVersionsResponse
from quorumd.protocol.wire import Message


class Handshake:
    """Learns the API versions of the peer.

    `peer_ranges` is empty until `handle_response` has returned None.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.peer_ranges: VersionRanges = {}
        self._connection = connection
        self._version = ApiVersionsRequest.MAX_VERSION

    def begin(self) -> bytes:
        """Return the first bytes to send."""
        request = ApiVersionsRequest(
            client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=__version__
        )
        return self._connection.request(request, self._version)[1]

    def handle_response(self, response: Message) -> bytes | None:
        """Return None once the peer's versions are known, else the bytes to send next.

        Raises UnsupportedVersion if both sides have no version of ApiVersions in common, MalformedMessage
        for any other error or response.
        """
        if not isinstance(response, ApiVersionsResponse):
            raise MalformedMessage(f"expected ApiVersionsResponse, received {response.NAME}")
        ranges = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            return self._retry(ranges.get(ApiKey.API_VERSIONS, (0, 0)))
        if response.error_code != ErrorCode.NONE:
            code = ErrorCode.describe(response.error_code)
            raise MalformedMessage(f"ApiVersions v{self._version} failed with {code}")
        self.peer_ranges = ranges
        return None

    def _retry(self, versions: tuple[int, int]) -> bytes:
        # Each retry uses a lower version than the refused one, so their number is bounded.
        low, high = versions
        if not low <= min(high, self._version - 1):
            raise UnsupportedVersion(
                f"the peer supports ApiVersions v{low} to v{high} but refuses v{self._version}"
            )
        self._version = min(high, self._version - 1)
        return self.begin()


def choose_version(api_key: int, peer_ranges: VersionRanges) -> int | None:
    """Return the highest version of an API that this code and the peer support; None if there is none.

    Raises UnsupportedVersion for an API that this code does not know.
    """
    own = api(api_key)
    low, high = peer_ranges.get(api_key, (0, -1))
    version = min(high, own.max_version)
    return version if version >= max(low, own.min_version) else None
