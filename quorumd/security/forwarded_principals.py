"""Requests in Envelopes (KIP-590), and their principals in the format of Kafka's DefaultKafkaPrincipalBuilder: a
version, then the principal."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final, NamedTuple

from quorumd.errors import MalformedMessage
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages.default_principal_data import DefaultPrincipalData
from quorumd.protocol.messages.envelope_request import EnvelopeRequest

VERSION: Final = 0


class ForwardedPrincipal(NamedTuple):
    """The client on whose behalf a request is forwarded."""

    principal: str
    """The principal, as `Type:Name`."""
    is_token: bool
    """Whether the client authenticated with a delegation token."""


def serialize(principal: str, is_token: bool) -> bytes:
    """Serialize the principal of a client."""
    kind, _, name = principal.partition(":")
    return VERSION.to_bytes(2, "big") + encode(DefaultPrincipalData(kind, name, is_token), VERSION)


def deserialize(data: bytes) -> ForwardedPrincipal:
    """Deserialize a principal. Raises MalformedMessage."""
    if int.from_bytes(data[:2], "big") != VERSION or len(data) < 2:
        raise MalformedMessage("the principal of a forwarded request has an unknown version")
    found = decode(DefaultPrincipalData, VERSION, data, 2)
    if not found.type or ":" in found.type:
        raise MalformedMessage(f"the principal of a forwarded request has the type {found.type!r}")
    return ForwardedPrincipal(f"{found.type}:{found.name}", found.token_authenticated)


def envelope(
    frame: bytes, principal: str, is_token: bool, host: str, is_checked: bool = False
) -> EnvelopeRequest:
    """Put the request in `frame` into an Envelope on behalf of its client, at the address `host`.

    `is_checked` records that this node, a broker, has done the checks that only brokers can do.
    """
    return EnvelopeRequest(frame, serialize(principal, is_token), _address_bytes(host), is_checked)


def _address_bytes(host: str) -> bytes:
    """The client's address as 4 or 16 bytes; the unspecified address if it is unknown."""
    try:
        return ip_address(host).packed
    except ValueError:
        return bytes(4)
