"""Decides whether a principal may perform an operation, by the rules of Kafka's StandardAuthorizer.

Super users may do everything. For all other principals the ACLs that apply to the resource decide: DENY takes
precedence over ALLOW. Without an entry for the principal the operation is denied; if the resource has no ACL at all,
`allow.everyone.if.no.acl.found` decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorumd.log_limit import LogLimit
from quorumd.security.acls import (
    ANY_USER,
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    AclEntry,
    AclIndex,
    Lengths,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

Rule = str | tuple[Pattern, str, AclEntry]
"""The reason of a decision: a fixed rule, or the pattern, principal and entry of an ACL."""

audit = logging.getLogger("quorumd.authorizer")

_IMPLY_DESCRIBE: Final = (
    Operation.DESCRIBE,
    Operation.READ,
    Operation.WRITE,
    Operation.DELETE,
    Operation.ALTER,
)
_IMPLY_DESCRIBE_CONFIGS: Final = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)


@dataclass(frozen=True, slots=True)
class AuthorizerSettings:
    """The settings of the authorizer."""

    super_users: frozenset[str] = frozenset()
    """Principals that may do everything."""
    allows_without_acl: bool = False
    """`allow.everyone.if.no.acl.found`."""
    early_start_listeners: frozenset[str] = frozenset()
    """Names of listeners that accept connections before the ACLs are loaded."""


class AuthorizerNotReady(Exception):
    """The ACLs are not loaded yet, and the principal is not a super user."""


class Client(NamedTuple):
    """The client that requests an operation."""

    principal: str
    host: str
    api: str
    """The name of the requested API, for the audit log."""


class AuthorizerCounters:
    """Counts decisions."""

    def __init__(self) -> None:
        self.allowed_total = 0
        self.denied: dict[str, int] = {}
        """Denials by name of the API, only for resources that the client named itself."""

    @property
    def denied_total(self) -> int:
        return sum(self.denied.values())


class Authorizer:
    """Decides by the ACLs that `acls()` returns, once `is_loaded()`. `now_ms()` is monotonic.

    Denials are logged at INFO, but at DEBUG if one of the same principal, operation and resource type was logged at
    INFO within the interval of `LogLimit`: anyone who reaches a port can cause them.
    """

    def __init__(
        self,
        settings: AuthorizerSettings,
        acls: Callable[[], AclIndex],
        is_loaded: Callable[[], bool],
        now_ms: Callable[[], float],
        counters: AuthorizerCounters | None = None,
    ) -> None:
        self.settings = settings
        self.counters = counters or AuthorizerCounters()
        self._acls = acls
        self.is_loaded = is_loaded
        self._denials = LogLimit(now_ms)

    def authorize(
        self,
        client: Client,
        operation: int,
        resource_type: int,
        name: str,
        logs_allowed: bool = True,
        logs_denied: bool = True,
    ) -> bool:
        """Whether the client may perform the operation on this resource. Raises AuthorizerNotReady.

        Pass `logs_allowed` if the client gets access when it is allowed, and `logs_denied` if the client named this
        resource itself.
        """
        if client.principal in self.settings.super_users:
            is_allowed = True
            rule: Rule = "SuperUser"
        elif not self.is_loaded():
            raise AuthorizerNotReady
        else:
            is_allowed, rule = self._decide(client, operation, resource_type, name)
        counters = self.counters
        if is_allowed:
            counters.allowed_total += logs_allowed
        elif logs_denied:
            counters.denied[client.api] = counters.denied.get(client.api, 0) + 1
        if not is_allowed and logs_denied:
            self._log_denial(client, operation, resource_type, name, rule)
        elif is_allowed and logs_allowed and audit.isEnabledFor(logging.DEBUG):
            _log(logging.DEBUG, client, operation, resource_type, name, "allowed", rule)
        return is_allowed

    def _log_denial(self, client: Client, operation: int, resource_type: int, name: str, rule: Rule) -> None:
        if not audit.isEnabledFor(logging.INFO):
            return
        suppressed = self._denials.admit((client.principal, operation, resource_type))
        if suppressed is not None:
            _log(logging.INFO, client, operation, resource_type, name, "denied", rule, suppressed)
        elif audit.isEnabledFor(logging.DEBUG):
            _log(logging.DEBUG, client, operation, resource_type, name, "denied", rule)

    def _decide(self, client: Client, operation: int, resource_type: int, name: str) -> tuple[bool, Rule]:
        index = self._acls()
        hosts = index.host_keys(client.host)
        allowed_by: Rule = ""
        has_acls = False
        for pattern in index.patterns_of(resource_type, name):
            has_acls = True
            for principal in (client.principal, ANY_USER):
                for entry in index.entries_of(pattern, principal, hosts):
                    if not _applies(entry, operation):
                        continue
                    if entry.permission != Permission.ALLOW:
                        return False, (pattern, principal, entry)
                    allowed_by = allowed_by or (pattern, principal, entry)
        if allowed_by:
            return True, allowed_by
        if not has_acls and self.settings.allows_without_acl:
            return True, "DefaultAllow"
        return False, "DefaultDeny"

    def authorize_any(self, client: Client, operation: int, resource_type: int) -> bool:
        """Whether the client may perform the operation on at least one resource of this type, existing or not."""
        if self.authorize(client, operation, resource_type, "hardcode", True, False):
            return True
        index = self._acls()
        denied = _patterns_with(index, client, operation, resource_type, Permission.DENY)
        everything = (resource_type, int(PatternType.LITERAL), WILDCARD)
        if any(everything in each for each in denied):
            return False
        allowed = _patterns_with(index, client, operation, resource_type, Permission.ALLOW)
        if any(everything in each for each in allowed):
            return True
        lengths = index.prefix_lengths.get(resource_type, ())
        return any(not _is_dominated(pattern, denied, lengths) for each in allowed for pattern in each)


def _patterns_with(
    index: AclIndex, client: Client, operation: int, resource_type: int, permission: Permission
) -> list[dict[Pattern, int]]:
    """The patterns of a resource type whose ACLs allow or deny the operation to the client."""
    rights, hosts = index.rights, index.host_keys(client.host)
    return [
        found
        for principal in (client.principal, ANY_USER)
        for host in hosts
        for own in (operation, int(Operation.ALL))
        if (found := rights.get((resource_type, principal, host, own, int(permission))))
    ]


def _applies(entry: AclEntry, operation: int) -> bool:
    """Whether an entry applies to the operation. ALLOW of an operation may imply others, DENY does not."""
    own = entry.operation
    if own in (operation, Operation.ALL):
        return True
    if entry.permission != Permission.ALLOW:
        return False
    if operation == Operation.DESCRIBE:
        return own in _IMPLY_DESCRIBE
    return operation == Operation.DESCRIBE_CONFIGS and own in _IMPLY_DESCRIBE_CONFIGS


def _is_dominated(pattern: Pattern, denied: list[dict[Pattern, int]], lengths: Lengths) -> bool:
    """Whether denied patterns cover everything that this pattern allows. `lengths` are those of all prefixes."""
    resource_type, pattern_type, name = pattern
    prefixed = int(PatternType.PREFIXED)
    for patterns in denied:
        if pattern_type == PatternType.LITERAL and pattern in patterns:
            return True
        for length in lengths:
            if length <= len(name) and (resource_type, prefixed, name[:length]) in patterns:
                return True
    return False


def _describe(rule: Rule) -> str:
    """Format a rule for the audit log."""
    if isinstance(rule, str):
        return rule
    pattern, principal, entry = rule
    resource_type, pattern_type, name = pattern
    permission = "ALLOW" if entry.permission == Permission.ALLOW else "DENY"
    return (
        f"{permission} {_name(Operation, entry.operation)} on {_name(ResourceType, resource_type)}:"
        f"{_name(PatternType, pattern_type)}:{name} to {principal} from {entry.host}"
    )


def _log(
    level: int,
    client: Client,
    operation: int,
    resource_type: int,
    name: str,
    decision: str,
    rule: Rule,
    suppressed: int = 0,
) -> None:
    audit.log(
        level,
        "%r from %s: %s %s on %s %r for %s, by rule %r%s",
        client.principal,
        client.host,
        decision,
        _name(Operation, operation),
        _name(ResourceType, resource_type),
        name,
        client.api,
        _describe(rule),
        f" ({suppressed} more denials of this kind were logged at DEBUG only)" if suppressed else "",
    )


def _name(codes: type[Operation] | type[ResourceType] | type[PatternType], code: int) -> str:
    try:
        return codes(code).name
    except ValueError:
        return str(code)


class Access:
    """Authorizes the operations of one client, for the handler of its request."""

    __slots__ = ("_authorizer", "client")

    def __init__(self, authorizer: Authorizer, client: Client) -> None:
        self._authorizer = authorizer
        self.client = client

    @property
    def is_ready(self) -> bool:
        """Whether the client's rights can be decided: the ACLs are loaded, or it is a superuser."""
        authorizer = self._authorizer
        return authorizer.is_loaded() or self.client.principal in authorizer.settings.super_users

    def allows(
        self,
        operation: int,
        resource_type: int,
        name: str,
        *,
        logs_allowed: bool = True,
        logs_denied: bool = True,
    ) -> bool:
        """See `Authorizer.authorize`."""
        return self._authorizer.authorize(
            self.client, operation, resource_type, name, logs_allowed, logs_denied
        )

    def allows_cluster(self, operation: int, *, logs_denied: bool = True) -> bool:
        """Whether the client may perform the operation on the cluster."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=logs_denied)

    def allows_any(self, operation: int, resource_type: int) -> bool:
        """See `Authorizer.authorize_any`."""
        return self._authorizer.authorize_any(self.client, operation, resource_type)

    def allowed(
        self, operation: int, resource_type: int, names: Iterable[str], *, logs_denied: bool = True
    ) -> set[str]:
        """Return the names on which the client may perform the operation."""
        return {
            name
            for name in set(names)
            if self.allows(operation, resource_type, name, logs_denied=logs_denied)
        }

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """The operations that the client may perform on a resource, as a bit field of their codes (KIP-430)."""
        bits = 0
        for operation in OPERATIONS[resource_type]:
            if self.allows(operation, resource_type, name, logs_allowed=False, logs_denied=False):
                bits |= 1 << operation
        return bits


def parse_super_users(text: str) -> frozenset[str]:
    """Parse `super.users`: principals like `User:alice`, separated by semicolons. Raises ValueError."""
    users = [each.strip() for each in text.split(";") if each.strip()]
    for user in users:
        type_name, colon, name = user.partition(":")
        if not colon or not type_name or not name:
            raise ValueError(f"{user!r} is not a principal like User:alice")
    return frozenset(users)
