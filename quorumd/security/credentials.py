"""Credentials of the users that authenticate with SCRAM, and delegation tokens."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class ScramCredential(NamedTuple):
    """The verifier of a password (RFC 5802): it is enough to check the password, but not to log in."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class DelegationToken(NamedTuple):
    """A token whose holder acts as `owner` until it expires (KIP-48); the password is `hmac` in base64."""

    token_id: str
    owner: str
    """The principal that a session with this token has, as `Type:Name`."""
    hmac: bytes
    expires_at_ms: int
    """Unix time in milliseconds."""


class CredentialStore(Protocol):
    """Looks up credentials by the name that a client presents."""

    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        """The credential of a user for `SCRAM-SHA-256` or `SCRAM-SHA-512`, None if there is none."""

    def token(self, token_id: str) -> DelegationToken | None:
        """A token that has not been removed, possibly expired; None if there is none."""


class NoCredentials:
    """A `CredentialStore` without credentials."""

    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        """See `CredentialStore`."""
        return None

    def token(self, token_id: str) -> DelegationToken | None:
        """See `CredentialStore`."""
        return None
