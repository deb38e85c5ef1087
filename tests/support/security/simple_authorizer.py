"""Kafka's StandardAuthorizer as a loop over all ACLs: slow, and independent of the index in `quorumd.security`."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from random import Random
from typing import NamedTuple

from quorumd.security.acls import Acl

READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 4, 6, 7, 8, 10, 11
ALL_OPERATIONS, DENY, ALLOW, LITERAL, PREFIXED = 2, 2, 3, 3, 4

KINDS = (2, 3, 4, 5, 6, 7)
NAMES = ("*", "a", "ab", "abc", "abd", "b", "ba", "z", "*a", "abc-1", "kafka-cluster", "ä", "\U0001f600x")
PRINCIPALS = ("User:*", "User:alice", "User:bob", "User:", "Group:alice", "User:CN=x,O=y")
HOSTS = ("*", "10.0.0.1", "10.0.0.2", "10.0.1.1", "0:0:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:7", "0.0.0.0")
RANGES = ("10.0.0.0/24", "10.0.0.1/32", "0.0.0.0/0", "2001:db8::/32", "10.0.0.0/33", "x/8", "::/0")
OPERATIONS = tuple(range(2, 16))


class Question(NamedTuple):
    """A request of a principal from a host, which is either allowed or denied."""

    principal: str
    host: str
    operation: int
    kind: int
    name: str


class Cluster(NamedTuple):
    """ACLs and the settings of an authorizer."""

    acls: tuple[Acl, ...]
    super_users: frozenset[str]
    allows_without_acl: bool


def random_cluster(random: Random, *, with_ranges: bool = True) -> Cluster:
    """Draw a few ACLs with few names, so that most questions concern some of them."""
    hosts = HOSTS + RANGES if with_ranges else HOSTS
    kinds = random.sample(KINDS, random.randint(1, 3))
    operations = random.sample(OPERATIONS, random.randint(2, 6))
    found = {
        Acl(
            random.choice(kinds),
            random.choice((LITERAL, PREFIXED)),
            random.choice(NAMES),
            random.choice(PRINCIPALS),
            random.choice(("*", random.choice(hosts))),
            random.choice((ALL_OPERATIONS, *operations)),
            DENY if random.random() < 0.25 else ALLOW,
        )
        for _ in range(random.randint(0, 12))
    }
    supers = frozenset(random.sample(PRINCIPALS[1:], random.choice((0, 0, 1))))
    return Cluster(tuple(sorted(found)), supers, random.random() < 0.3)


def random_question(random: Random, cluster: Cluster) -> Question:
    """Draw a question about a resource that an ACL probably concerns."""
    near = random.choice(cluster.acls) if cluster.acls and random.random() < 0.9 else None
    name = random.choice(NAMES)
    if near is not None and random.random() < 0.6:
        name = near.name + random.choice(("", "", "x"))
    return Question(
        random.choice(PRINCIPALS[1:]),
        random.choice(HOSTS[1:]),
        near.operation
        if near is not None and near.operation != ALL_OPERATIONS and random.random() < 0.5
        else random.choice(OPERATIONS[1:]),
        near.resource_type if near is not None else random.choice(KINDS),
        name,
    )


def allows(cluster: Cluster, question: Question) -> bool:
    """Whether StandardAuthorizer allows the operation on the resource."""
    if question.principal in cluster.super_users:
        return True
    about = [acl for acl in cluster.acls if _is_about(acl, question)]
    matching = [acl for acl in about if _matches(acl, question)]
    if any(acl.permission == DENY for acl in matching):
        return False
    return bool(matching) or (not about and cluster.allows_without_acl)


def allows_any(cluster: Cluster, question: Question) -> bool:
    """Whether StandardAuthorizer allows the operation on any resource of the kind."""
    if allows(cluster, question._replace(name="hardcode")):
        return True
    relevant = [
        acl
        for acl in cluster.acls
        if acl.resource_type == question.kind
        and acl.principal in (question.principal, "User:*")
        and _covers_host(acl.host, question.host)
        and acl.operation in (question.operation, ALL_OPERATIONS)
    ]
    denied = {(acl.pattern_type, acl.name) for acl in relevant if acl.permission == DENY}
    allowed = {(acl.pattern_type, acl.name) for acl in relevant if acl.permission == ALLOW}
    if (LITERAL, "*") in denied:
        return False
    if (LITERAL, "*") in allowed:
        return True
    return any(
        (kind, name) not in denied and not any(k == PREFIXED and name.startswith(n) for k, n in denied)
        for kind, name in allowed
    )


def _is_about(acl: Acl, question: Question) -> bool:
    if acl.resource_type != question.kind:
        return False
    if acl.pattern_type == PREFIXED:
        return question.name.startswith(acl.name)
    return acl.name == question.name or (acl.name == "*" and question.name[0] != "*")


def _matches(acl: Acl, question: Question) -> bool:
    if acl.principal not in (question.principal, "User:*") or not _covers_host(acl.host, question.host):
        return False
    implied = {question.operation, ALL_OPERATIONS}
    if acl.permission == ALLOW and question.operation == DESCRIBE:
        implied |= {READ, WRITE, DELETE, ALTER}
    if acl.permission == ALLOW and question.operation == DESCRIBE_CONFIGS:
        implied |= {ALTER_CONFIGS}
    return acl.operation in implied


def _covers_host(allowed: str, host: str) -> bool:
    if allowed in ("*", host):
        return True
    try:
        return "/" in allowed and host != "0.0.0.0" and ip_address(host) in ip_network(allowed, False)
    except ValueError:
        return False
