"""Tokens of OAUTHBEARER for a client: read from a file, or requested from an identity provider (RFC 6749, 4.4)."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.parse import quote, unquote, urlencode, urlsplit
from urllib.request import Request, urlopen

from quorumd.errors import AuthenticationFailed

TIMEOUT_S: Final = 10.0
MAX_BYTES: Final = 1024 * 1024
RENEW_SHARE: Final = 0.8
"""The fraction of its lifetime after which a token is replaced, as in Kafka's clients."""
_FILE_LIFETIME_S: Final = 60.0
_FALLBACK_LIFETIME_S: Final = 300.0


def read_url(url: str, data: bytes | None = None, headers: Mapping[str, str] | None = None) -> str:
    """Read a document of https:, http: or file:. Blocks. Raises OSError or ValueError."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(unquote(parts.path)).read_text()
    if parts.scheme not in ("https", "http"):
        raise ValueError(f"{url}: expected https:, http: or file:")
    try:
        with urlopen(Request(url, data, dict(headers or {})), timeout=TIMEOUT_S) as response:
            body: bytes = response.read(MAX_BYTES + 1)
    except HTTPException as error:
        raise OSError(f"{url}: not a response of HTTP: {error!r}") from None
    if len(body) > MAX_BYTES:
        raise ValueError(f"{url}: more than {MAX_BYTES} bytes")
    return body.decode()


class TokenSource:
    """Provides a valid token. `options` has clientId, clientSecret and scope of OAuthBearerLoginModule."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        self._url = url
        self._options = options
        self._token = ""
        self._renew_at_s = 0.0

    def __call__(self) -> str:
        """Return the token; request another one if it is due. Raises AuthenticationFailed."""
        if time.monotonic() >= self._renew_at_s:
            self.renew()
        return self._token

    def current(self) -> str:
        """Return the token that `renew` obtained. Raises AuthenticationFailed if there is none yet."""
        if not self._token:
            raise AuthenticationFailed(f"no token from {self._url} yet")
        return self._token

    @property
    def renew_in_s(self) -> float:
        """Seconds until another token is due."""
        return max(0.0, self._renew_at_s - time.monotonic())

    def renew(self) -> None:
        """Request a token. Blocks. Raises AuthenticationFailed."""
        try:
            if self._url.startswith("file:"):
                token, lifetime_s = read_url(self._url).strip(), _FILE_LIFETIME_S
            else:
                token, lifetime_s = self._request()
        except (URLError, OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise AuthenticationFailed(f"no token from {self._url}: {error}") from None
        self._token, self._renew_at_s = token, time.monotonic() + lifetime_s * RENEW_SHARE

    def _request(self) -> tuple[str, float]:
        form = {"grant_type": "client_credentials"}
        if self._options.get("scope"):
            form["scope"] = self._options["scope"]
        name, secret = self._options.get("clientId", ""), self._options.get("clientSecret", "")
        login = b64encode(f"{quote(name)}:{quote(secret)}".encode()).decode()
        headers = {
            "Authorization": f"Basic {login}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        response = json.loads(read_url(self._url, urlencode(form).encode(), headers))
        return str(response["access_token"]), float(response.get("expires_in", _FALLBACK_LIFETIME_S))
