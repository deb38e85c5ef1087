"""Access control entries: their content, their index, and the filters that select them.

Codes are Kafka's. An `AclIndex` finds the entries that apply to a resource and a client by dictionary lookups: one by
the name, one by the name `*`, and one per length of a prefix; for each of them one by the address, one by the host
`*`, and one per length of a network's prefix. Every change is an assignment to one key of one dictionary, so that the
owner of the index can undo it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

from quorumd.ids import KafkaUuid

ANY: Final = 1
"""The code that matches everything in a filter, for each of the enums."""


class Operation(IntEnum):
    """Kafka's AclOperation."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """The types of resources that ACLs protect."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a pattern names resources. MATCH is for filters only; it selects every pattern that applies to the name."""

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Kafka's AclPermissionType."""

    DENY = 2
    ALLOW = 3


WILDCARD: Final = "*"
"""The resource name that stands for every resource, and the host that stands for every host."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a CLUSTER resource."""
ANY_USER: Final = "User:*"
"""The principal that stands for every principal."""

OPERATIONS: Final = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
    ResourceType.TRANSACTIONAL_ID: (4, 8, 15),
    ResourceType.DELEGATION_TOKEN: (8,),
    ResourceType.USER: (13, 14),
}
"""The codes of the operations on each resource type."""

Pattern = tuple[int, int, str]
"""Resource type, pattern type, name."""
Right = tuple[int, str, str, int, int]
"""Resource type, principal, host as `host_key`, operation, permission."""
Lengths = tuple[int, ...]
"""Lengths of prefixes, longest first."""


class AclEntry(NamedTuple):
    """The part of an ACL that is stored under its pattern and principal: host, operation, permission."""

    host: str
    operation: int
    permission: int


class Acl(NamedTuple):
    """One ACL."""

    resource_type: int
    pattern_type: int
    name: str
    principal: str
    host: str
    operation: int
    permission: int

    @property
    def pattern(self) -> Pattern:
        """The pattern of the resources that the ACL applies to."""
        return self.resource_type, self.pattern_type, self.name

    @property
    def entry(self) -> AclEntry:
        """The ACL without pattern and principal."""
        return AclEntry(self.host, self.operation, self.permission)

    @property
    def right(self) -> Right:
        """The ACL without the resource."""
        return self.resource_type, self.principal, host_key(self.host), self.operation, self.permission


class AclFilter(NamedTuple):
    """Selects ACLs. ANY and None match everything."""

    resource_type: int = ANY
    pattern_type: int = ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    @property
    def is_known(self) -> bool:
        """Whether all codes in the filter are known."""
        return (
            (self.resource_type == ANY or self.resource_type in _RESOURCE_TYPES)
            and (self.pattern_type == ANY or self.pattern_type in _PATTERN_TYPES)
            and (self.operation == ANY or self.operation in _OPERATIONS)
            and (self.permission == ANY or self.permission in _PERMISSIONS)
        )

    def matches(self, acl: Acl) -> bool:
        """Whether the filter selects the ACL."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self._matches_name(acl)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        name = self.name
        if self.pattern_type not in (ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None or (name == acl.name and self.pattern_type != PatternType.MATCH):
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.LITERAL:
            return acl.name in (name, WILDCARD)
        return name.startswith(acl.name)


_RESOURCE_TYPES: Final = frozenset(int(each) for each in ResourceType)
_PATTERN_TYPES: Final = frozenset(int(each) for each in PatternType)
_OPERATIONS: Final = frozenset(int(each) for each in Operation)
_PERMISSIONS: Final = frozenset(int(each) for each in Permission)


class AclIndex:
    """All ACLs of a cluster."""

    __slots__ = (
        "acls",
        "counts",
        "entries",
        "prefix_counts",
        "prefix_lengths",
        "range_counts",
        "range_lengths",
        "rights",
    )

    def __init__(self) -> None:
        self.acls: dict[KafkaUuid, Acl] = {}
        """ACLs by id."""
        self.counts: dict[Pattern, int] = {}
        """The number of ACLs per pattern."""
        self.entries: dict[tuple[Pattern, str], dict[str, tuple[AclEntry, ...]]] = {}
        """Entries by `host_key`, by pattern and principal."""
        self.rights: dict[Right, dict[Pattern, int]] = {}
        """The number of ACLs with a right by pattern: which resources of a type a client may access."""
        self.prefix_lengths: dict[int, Lengths] = {}
        """The lengths of the prefixes of names by resource type."""
        self.prefix_counts: dict[tuple[int, int], int] = {}
        """The number of prefixes by resource type and length."""
        self.range_lengths: dict[int, Lengths] = {}
        """The lengths of the networks' prefixes by version of IP."""
        self.range_counts: dict[tuple[int, int], int] = {}
        """The number of ACLs by version of IP and length of the network's prefix."""

    def patterns_of(self, resource_type: int, name: str) -> Iterator[Pattern]:
        """Iterate over the patterns with ACLs that apply to a resource.

        As in Kafka, the name `*` does not apply to other names that begin with `*`.
        """
        counts = self.counts
        pattern = (resource_type, int(PatternType.LITERAL), name)
        if pattern in counts:
            yield pattern
        if not name.startswith(WILDCARD):
            pattern = (resource_type, int(PatternType.LITERAL), WILDCARD)
            if pattern in counts:
                yield pattern
        for length in self.prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                pattern = (resource_type, int(PatternType.PREFIXED), name[:length])
                if pattern in counts:
                    yield pattern

    def host_keys(self, host: str) -> tuple[str, ...]:
        """Return the `host_key` of every host of an ACL that covers this address: `*`, itself, and networks."""
        lengths = self.range_lengths
        if not lengths:
            return host, WILDCARD
        return host, WILDCARD, *_networks_around(host, lengths.get(4, ()), lengths.get(6, ()))

    def entries_of(self, pattern: Pattern, principal: str, host_keys: tuple[str, ...]) -> list[AclEntry]:
        """Return the entries of a pattern and principal for a host."""
        by_host = self.entries.get((pattern, principal))
        if by_host is None:
            return []
        return [entry for key in host_keys for entry in by_host.get(key, ())]

    def contains(self, acl: Acl) -> bool:
        """Whether an equal ACL exists."""
        by_host = self.entries.get((acl.pattern, acl.principal), {})
        return acl.entry in by_host.get(host_key(acl.host), ())


def is_valid_range(text: str) -> bool:
    """Whether a host with a slash is a range of addresses in CIDR notation."""
    return _network(text) is not None


def host_key(host: str) -> str:
    """Return the host of an ACL as the index stores it: a valid range as its network, any other host unchanged."""
    network = network_of(host)
    return host if network is None else str(network)


def network_of(host: str) -> IPv4Network | IPv6Network | None:
    """Return the network of a valid range, None for any other host of an ACL."""
    return _network(host) if "/" in host else None


@lru_cache(maxsize=4096)
def _networks_around(host: str, lengths_of_ipv4: Lengths, lengths_of_ipv6: Lengths) -> tuple[str, ...]:
    """Return the networks with these lengths of prefixes that contain an address."""
    try:
        address = ip_address(host)
    except ValueError:
        return ()
    # Kafka never finds the unspecified IPv4 address in a range.
    if host == "0.0.0.0":
        return ()
    lengths = lengths_of_ipv4 if address.version == 4 else lengths_of_ipv6
    return tuple(str(ip_network((address, length), strict=False)) for length in lengths)


@lru_cache(maxsize=1024)
def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return None
    if isinstance(network, IPv6Network) or text.rpartition("/")[2].isdecimal():
        return network
    return None


def java_host(host: str) -> str:
    """Return an address as Java formats it, with IPv6 unabbreviated: Kafka compares it with the hosts of ACLs as
    text."""
    try:
        address = ip_address(host.split("%")[0])
    except ValueError:
        return host
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))


def host_of_acl(text: str) -> str:
    """Return the host of an ACL in the form that decisions compare with addresses: `*`, a range, or an address from
    `java_host`. Raises ValueError."""
    if text == WILDCARD or ("/" in text and is_valid_range(text)):
        return text
    ip_address(text)
    return java_host(text)


def host_of_peer(peer: str) -> str:
    """Return the host of `host:port`, the other side of a connection, as `java_host` writes it."""
    return java_host(peer.rpartition(":")[0].strip("[]"))
