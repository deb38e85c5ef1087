"""How the clients of this process connect: in plain text, or with TLS, a login, or both."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from contextvars import ContextVar
from secrets import token_hex
from typing import Final, NamedTuple

from quorumd.errors import AuthenticationFailed, RequestFailed
from quorumd.protocol.handshake import SaslClient
from quorumd.security.sasl.settings import ClientSasl
from quorumd.security.tls import TlsSettings


class ClientSecurity(NamedTuple):
    """TLS and login of connections."""

    context: ssl.SSLContext | None = None
    login: ClientSasl | None = None

    def new_sasl_client(self) -> SaslClient:
        """Begin to log in."""
        assert self.login is not None
        return self.login.new_client(token_hex(16))


PLAIN: Final = ClientSecurity()
_ALERT: Final = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_ALERT_(\w+)")
"""OpenSSL's names of the alerts with which the other side ends a handshake."""
CLIENT_SECURITY: ContextVar[ClientSecurity] = ContextVar("CLIENT_SECURITY", default=PLAIN)
"""The security of every `NodeConnection` that is opened in this context: commands set it from --command-config."""


def client_security(
    tls: TlsSettings | None, login: tuple[str, Mapping[str, str], str] | None
) -> ClientSecurity:
    """The security of a client. `login` is mechanism, options of its login module, URL of OAUTHBEARER tokens. Blocks.

    Raises ConfigError for key material that cannot be used, and RequestFailed if there is no token.
    """
    from quorumd.client.oauth import TokenSource
    from quorumd.client.tls import build_contexts

    context = build_contexts(tls).client if tls is not None else None
    if login is None:
        return ClientSecurity(context)
    mechanism, options, token_url = login
    sasl = ClientSasl(
        mechanism,
        options.get("username", ""),
        options.get("password", ""),
        options.get("tokenauth", "").lower() == "true",
        TokenSource(token_url, options) if token_url else None,
    )
    fetch_token(sasl)
    return ClientSecurity(context, sasl)


def connection_failure(error: Exception) -> str:
    """The readable reason of a failed or lost connection."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        alert = _ALERT.fullmatch(error.reason)
        if alert is not None:
            return f"refused by the node in the TLS handshake: {alert[1].replace('_', ' ').lower()}"
        return f"TLS: {error.reason.replace('_', ' ').lower()}"
    return str(error)


def fetch_token(login: ClientSasl) -> None:
    """Get the token of OAUTHBEARER if it is due, before an event loop needs it. Blocks. Raises RequestFailed."""
    if login.bearer_token is not None:
        try:
            login.bearer_token()
        except AuthenticationFailed as error:
            raise RequestFailed(str(error)) from None
