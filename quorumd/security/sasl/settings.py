"""The SASL settings of a listener: the mechanisms that it accepts, and the login of its clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from quorumd.protocol.handshake import SaslClient
from quorumd.security.credentials import CredentialStore
from quorumd.security.sasl import scram
from quorumd.security.sasl.exchange import SaslServer
from quorumd.security.sasl.oauth_bearer import (
    OAUTHBEARER,
    OAuthBearerClient,
    OAuthBearerServer,
    TokenValidator,
)
from quorumd.security.sasl.plain import PLAIN, PlainClient, PlainServer

MECHANISMS: Final = (PLAIN, *scram.BY_NAME, OAUTHBEARER)
MAX_TOKEN_BYTES: Final = 512 * 1024
"""Kafka's default of sasl.server.max.receive.size."""


@dataclass(frozen=True, slots=True)
class ServerSasl:
    """The mechanisms that clients of a listener may choose from."""

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str] = field(default_factory=dict)
    validator: TokenValidator | None = None
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)
    """How long an authentication is valid, by mechanism; without an entry there is no limit."""
    max_token_bytes: int = MAX_TOKEN_BYTES

    def new_server(
        self,
        mechanism: str,
        store: CredentialStore,
        new_nonce: Callable[[], str],
        now_ms: Callable[[], int],
    ) -> SaslServer:
        """Begin an exchange with one of `mechanisms`."""
        if mechanism == PLAIN:
            return PlainServer(self.plain_users)
        if mechanism == OAUTHBEARER:
            assert self.validator is not None
            return OAuthBearerServer(self.validator)
        return scram.ScramServer(scram.BY_NAME[mechanism], store, new_nonce, now_ms)


@dataclass(frozen=True, slots=True)
class ClientSasl:
    """The login of a client."""

    mechanism: str
    name: str = ""
    password: str = field(default="", repr=False)
    is_token: bool = False
    """Whether name and password belong to a delegation token."""
    bearer_token: Callable[[], str] | None = None
    """Provides the token of OAUTHBEARER."""

    def new_client(self, nonce: str) -> SaslClient:
        """Begin an exchange."""
        if self.mechanism == PLAIN:
            return PlainClient(self.name, self.password)
        if self.mechanism == OAUTHBEARER:
            assert self.bearer_token is not None
            return OAuthBearerClient(self.bearer_token)
        mechanism = scram.BY_NAME[self.mechanism]
        return scram.ScramClient(mechanism, self.name, self.password, nonce, is_token=self.is_token)


@dataclass(frozen=True, slots=True)
class ListenerSasl:
    """SASL of one listener name, for accepted connections and for connections to other nodes."""

    server: ServerSasl | None = None
    client: ClientSasl | None = None
