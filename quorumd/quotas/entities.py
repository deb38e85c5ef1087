"""Quota entities, and which of them applies to a client.

The most specific quota applies: first of user and client id, then of the user, then of the client id; a named entity
takes precedence over the default entity (KIP-13, KIP-55, KIP-546).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_RATE: Final = "connection_creation_rate"

QuotaEntity = tuple[tuple[str, str | None], ...]
"""The parts of an entity, type and name, ordered by type; the name None stands for the default entity."""
Quotas = Mapping[QuotaEntity, Mapping[str, float]]
"""Entity -> key -> limit."""


class Quota(NamedTuple):
    """A limit, shared by the clients with this user and client id; "" stands for any."""

    limit: float
    user: str
    client_id: str


def quota_of(quotas: Quotas, key: str, user: str, client_id: str) -> Quota | None:
    """Return the quota of a client, None if it has none. A client without an id has the quotas of its user."""
    for entity, shared_user, shared_id in _candidates(user, client_id):
        limits = quotas.get(entity)
        limit = limits.get(key) if limits is not None else None
        if limit is not None:
            return Quota(limit, shared_user, shared_id)
    return None


def _candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, str, str]]:
    """Yield entities, the most specific first, with the user and client id of the clients that share their quota."""
    if client_id:
        yield ((CLIENT_ID, client_id), (USER, user)), user, client_id
        yield ((CLIENT_ID, None), (USER, user)), user, client_id
    yield ((USER, user),), user, ""
    if client_id:
        yield ((CLIENT_ID, client_id), (USER, None)), user, client_id
        yield ((CLIENT_ID, None), (USER, None)), user, client_id
    yield ((USER, None),), user, ""
    if client_id:
        yield ((CLIENT_ID, client_id),), "", client_id
        yield ((CLIENT_ID, None),), "", client_id


def connection_rate(quotas: Quotas, host: str) -> float | None:
    """Return the limit of new connections per second from an address, None if there is none."""
    for name in (host, _short(host), None):
        limits = quotas.get(((IP, name),))
        limit = limits.get(CONNECTION_RATE) if limits is not None else None
        if limit is not None:
            return limit
    return None


def _short(host: str) -> str:
    """Return the canonical form of an IPv6 address, which has several."""
    try:
        return str(ip_address(host))
    except ValueError:
        return host
