"""Principals in Envelopes, serialized as by Kafka's DefaultKafkaPrincipalBuilder: a version, then the principal."""

from __future__ import annotations

from typing import Final, NamedTuple

from quorumd.errors import MalformedMessage
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages.default_principal_data import DefaultPrincipalData

VERSION: Final = 0


class ForwardedPrincipal(NamedTuple):
    """`principal` as `Type:Name`; `is_token`: whether the client authenticated with a delegation token."""

    principal: str
    is_token: bool


def serialize(principal: str, is_token: bool) -> bytes:
    """Serialize the principal of a client."""
    kind, _, name = principal.partition(":")
    return VERSION.to_bytes(2, "big") + encode(DefaultPrincipalData(kind, name, is_token), VERSION)


def deserialize(data: bytes) -> ForwardedPrincipal:
    """Read a principal. Raises MalformedMessage."""
    if int.from_bytes(data[:2], "big") != VERSION or len(data) < 2:
        raise MalformedMessage("the principal of a forwarded request has an unknown version")
    found = decode(DefaultPrincipalData, VERSION, data, 2)
    if not found.type or ":" in found.type:
        raise MalformedMessage(f"the principal of a forwarded request has the type {found.type!r}")
    return ForwardedPrincipal(f"{found.type}:{found.name}", found.token_authenticated)
